//! The launcher's own user and mount namespace, in which aegisfs is mounted.

use super::SandboxError;

/// Which namespaces were entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// A user namespace that maps the user to itself, and a mount namespace.
    UserAndMount,
    /// A mount namespace alone: the launcher is root.
    Mount,
}

/// Moves the process into its own mount namespace (and user namespace, unless it is root).
///
/// Must be called while the process has one thread. Mounts made afterwards are seen by this process
/// and its children only.
///
/// # Errors
/// [`SandboxError::NamespaceRefused`] when the system does not allow it; nothing has changed then.
pub fn enter() -> Result<Entered, SandboxError> {
    Err(SandboxError::BubblewrapMissing)
}
