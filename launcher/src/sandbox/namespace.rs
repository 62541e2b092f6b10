//! The launcher's own user and mount namespace, in which aegisfs is mounted.

use std::fs;
use std::io;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use rustix::mount::MountPropagationFlags;

use super::SandboxError;
use crate::sys::child;

/// Which namespaces were entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// A user namespace that maps the user to itself, and a mount namespace.
    UserAndMount,
    /// A mount namespace alone: the launcher is root and may have one.
    Mount,
}

/// Moves the process into its own mount namespace (and user namespace, unless it is root with
/// CAP_SYS_ADMIN).
///
/// Must be called while the process has one thread. Mounts made afterwards are seen by this process
/// and its children only.
///
/// # Errors
/// [`SandboxError::NamespaceRefused`] when the system does not allow it; the process is where it
/// was then.
pub fn enter() -> Result<Entered, SandboxError> {
    let refused = |source| SandboxError::NamespaceRefused {
        reason: likely_cause(),
        source,
    };
    // AppArmor lets the namespace be made and takes its rights away, which leaves a process that
    // can no longer do what it could before. So a copy tries the whole way first.
    child::rehearse(|| go().map(|_| ())).map_err(refused)?;
    go().map_err(refused)
}

fn go() -> io::Result<Entered> {
    let user = rustix::process::geteuid();
    let group = rustix::process::getegid();
    let entered = separate(user.is_root())?;
    if entered == Entered::UserAndMount {
        map(user.as_raw(), group.as_raw())?;
    }
    // Otherwise the view would appear in the host's namespace, and the host's later mounts here.
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private)?;
    Ok(entered)
}

/// Root has no need of a user namespace, except in a container that keeps CAP_SYS_ADMIN from it.
fn separate(is_root: bool) -> io::Result<Entered> {
    if is_root {
        match unshare(flags(Entered::Mount)) {
            Err(Errno::EPERM) => {}
            separated => return Ok(separated.map(|()| Entered::Mount)?),
        }
    }
    unshare(flags(Entered::UserAndMount))?;
    Ok(Entered::UserAndMount)
}

const fn flags(entered: Entered) -> CloneFlags {
    match entered {
        Entered::UserAndMount => CloneFlags::CLONE_NEWUSER.union(CloneFlags::CLONE_NEWNS),
        Entered::Mount => CloneFlags::CLONE_NEWNS,
    }
}

/// Each number maps to itself: with another one every `st_uid` would differ from git's index.
fn map(user: u32, group: u32) -> io::Result<()> {
    // user_namespaces(7): without CAP_SETGID outside, setgroups(2) must be given up first.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// The setting that most probably stands in the way, in the order in which they are found.
fn likely_cause() -> &'static str {
    let is = |path: &str, value: &str| {
        fs::read_to_string(path).is_ok_and(|content| content.trim() == value)
    };
    if is(
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
    ) {
        "kernel.apparmor_restrict_unprivileged_userns is 1"
    } else if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        "kernel.unprivileged_userns_clone is 0"
    } else if is("/proc/sys/user/max_user_namespaces", "0") {
        "user.max_user_namespaces is 0"
    } else {
        "a security module or a container's own filter"
    }
}
