//! What the host looks like, gathered once so that the plan itself is pure.

use super::{Request, SandboxError};

/// Everything about the host that a plan depends on.
#[derive(Clone, Debug, Default)]
pub struct HostFacts {}

/// Looks at the host: its top level, the masked and re-exposed places that exist, the command.
///
/// # Errors
/// [`SandboxError::CommandNotFound`] when `argv[0]` is on no `PATH` directory.
pub fn gather(_request: &Request) -> Result<HostFacts, SandboxError> {
    Ok(HostFacts {})
}
