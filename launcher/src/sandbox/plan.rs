//! The sandbox as data.

use std::ffi::OsString;
use std::path::PathBuf;

use super::{HostFacts, SandboxError};

/// What a session wants to run.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The session's id, shown inside as `AEGIS_SESSION`.
    pub session: String,
    /// The project's own absolute path, links resolved.
    pub project: PathBuf,
    /// Where the command starts; inside `project`.
    pub directory: PathBuf,
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// Further host paths to show read-only (`--ro`).
    pub read_only: Vec<PathBuf>,
    /// Variables that the session adds (proxies, base URLs); they win over the host's.
    pub environment: Vec<(OsString, OsString)>,
    /// TCP ports on which the sandbox listens at 127.0.0.1 for the egress proxy.
    pub doors: Vec<u16>,
}

/// The sandbox as it will be built.
#[derive(Clone, Debug)]
pub struct Plan {}

impl Plan {
    /// Draws up the plan; touches nothing.
    ///
    /// # Errors
    /// [`SandboxError`] when the request cannot be met without showing what must stay hidden.
    pub fn build(_request: &Request, _facts: &HostFacts) -> Result<Self, SandboxError> {
        Err(SandboxError::NoCommand)
    }
}
