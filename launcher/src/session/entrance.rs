//! The launcher's way into a mount namespace of its own, where aegisfs needs no set-uid helper.

use std::io;

use nix::sys::signal::{SigSet, Signal};
use rustix::process::geteuid;

use super::record::MountMode;
use super::serve::ServeError;
use crate::doctor;
use crate::error::CommandError;
use crate::sandbox::{self, SandboxError};

/// Whether the launcher has a mount namespace of its own.
pub(super) enum Entrance {
    Entered,
    Refused(SandboxError),
}

impl Entrance {
    pub(super) const fn mode(&self) -> MountMode {
        match self {
            Self::Entered => MountMode::Namespace,
            Self::Refused(_) => MountMode::Fusermount,
        }
    }

    /// Says both reasons when neither way of mounting works.
    pub(super) fn explain(&self, error: ServeError) -> CommandError {
        match self {
            Self::Refused(refusal) if matches!(error, ServeError::Mount { .. }) => {
                CommandError::NoMount {
                    refusal: refusal.to_string(),
                    helper: error.to_string(),
                }
            }
            _ => error.into(),
        }
    }
}

/// Moves into a mount namespace of our own, or finds that the set-uid helper has to do. Bubblewrap
/// may be granted the namespaces that are refused to us.
pub(super) fn enter() -> Result<Entrance, CommandError> {
    if is_namespace_hollow() {
        let reason = "kernel.apparmor_restrict_unprivileged_userns is 1";
        let source = io::ErrorKind::PermissionDenied.into();
        return Ok(Entrance::Refused(SandboxError::NamespaceRefused {
            reason,
            source,
        }));
    }
    match sandbox::namespace::enter() {
        Ok(_) => Ok(Entrance::Entered),
        Err(refusal @ SandboxError::NamespaceRefused { .. }) => Ok(Entrance::Refused(refusal)),
        Err(error) => Err(error.into()),
    }
}

/// Holds back what would end the launcher until the relay listens, so that no half-made session is
/// left behind.
pub(super) fn hold_signals() -> Result<(), CommandError> {
    let held: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]
        .into_iter()
        .collect();
    held.thread_block()
        .map_err(|errno| CommandError::io("holding signals back", errno.into()))
}

/// Whether the system lets a user enter a namespace and then do nothing in it, as AppArmor does on
/// Ubuntu. There is no way back from such a namespace, so it is tried in another process.
fn is_namespace_hollow() -> bool {
    let restricted = std::fs::read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
    let may_be = restricted.is_ok_and(|value| value.starts_with(b"1"));
    may_be && !geteuid().is_root() && doctor::private_mount().result.is_err()
}
