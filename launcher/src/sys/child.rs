//! What happens between fork and exec of bubblewrap.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::ForkResult;
use rustix::io::FdFlags;
use rustix::process::{Pid, Resource, Rlimit, Signal, setrlimit};

use super::{descriptor, files};

/// Makes `command` start with the standard streams and `inherited` as its only descriptors, in a
/// session of its own, without ambient capabilities, with the limit of open files that the launcher was
/// started with, and die with the launcher.
///
/// The caller keeps the descriptors of `inherited` open until the command has been spawned.
pub(crate) fn isolate(command: &mut Command, inherited: Vec<RawFd>) {
    let launcher = rustix::process::getpid();
    let files = files::given();
    // SAFETY: the closure runs in the forked child and makes system calls only; it neither
    // allocates nor takes a lock that another thread of the parent could hold.
    unsafe { command.pre_exec(move || before_exec(launcher, files, &inherited)) };
}

fn before_exec(launcher: Pid, files: Rlimit, inherited: &[RawFd]) -> io::Result<()> {
    // The kernel sends the signal when the parent dies from now on; the second look covers a
    // parent that died before.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    if rustix::process::getppid() != Some(launcher) {
        return Err(io::ErrorKind::NotConnected.into());
    }
    // Ctrl-C at the user's terminal reaches the launcher alone, which decides what it means.
    rustix::process::setsid()?;
    setrlimit(Resource::Nofile, files)?;
    // Bubblewrap refuses to run with ambient capabilities, and the command must not get any.
    rustix::thread::clear_ambient_capability_set()?;
    descriptor::close_on_exec_from(3)?;
    for number in inherited {
        // SAFETY: the parent holds these descriptors open over fork, so the numbers are open here.
        let descriptor = unsafe { BorrowedFd::borrow_raw(*number) };
        rustix::io::fcntl_setfd(descriptor, FdFlags::empty())?;
    }
    Ok(())
}

/// Which of the two a process is after [`divide`].
#[derive(Debug)]
pub(crate) enum Half {
    /// The one that was there before.
    Original {
        /// The other one.
        copy: nix::unistd::Pid,
    },
    /// The new one.
    Copy,
}

/// Goes on as two processes.
///
/// # Errors
/// When this process has more than one thread, or no further process can be made.
pub(crate) fn divide() -> io::Result<Half> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("this process has several threads"));
    }
    // SAFETY: there is one thread (asked above), so no lock is held by a thread that the copy lacks.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok(Half::Original { copy: child }),
        ForkResult::Child => Ok(Half::Copy),
    }
}

/// Starts a copy of this process that does `work` and nothing else.
///
/// # Errors
/// As [`divide`].
pub(crate) fn spawn_copy(work: impl FnOnce()) -> io::Result<()> {
    if matches!(divide()?, Half::Original { .. }) {
        return Ok(());
    }
    work();
    // SAFETY: ends the copy at once, without running what the original registered.
    unsafe { libc::_exit(0) }
}

/// Runs `work` in a forked copy of this process and says how it went; nothing else remains of it.
///
/// # Errors
/// What `work` answered, or that the process could not be made.
pub(crate) fn rehearse(work: fn() -> io::Result<()>) -> io::Result<()> {
    // SAFETY: the caller has one thread, so no lock is held by a thread that the copy lacks.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Child => {
            let code = work()
                .err()
                .map_or(0, |error| error.raw_os_error().unwrap_or(libc::EPERM));
            // SAFETY: ends the copy at once, without running what the original registered.
            unsafe { libc::_exit(code) }
        }
        ForkResult::Parent { child } => match waitpid(child, None)? {
            WaitStatus::Exited(_, 0) => Ok(()),
            WaitStatus::Exited(_, code) => Err(io::Error::from_raw_os_error(code)),
            _ => Err(io::ErrorKind::PermissionDenied.into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rehearsal_tells_how_it_went() {
        assert!(rehearse(|| Ok(())).is_ok());
        let error = rehearse(|| Err(io::Error::from_raw_os_error(libc::ENOSPC))).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    }
}
