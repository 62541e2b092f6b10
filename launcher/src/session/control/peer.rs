//! Who is at the other end of the socket.
//!
//! The socket lies where no sandbox has a name for it. Should a descriptor of it get inside all the
//! same, the process there is known by its pid namespace: whoever is in one below ours has more than
//! one number there (proc_pid_status(5), `NSpid`), and a process never leaves its pid namespace. A
//! process descriptor stands for the very process that connected, also when its number is used
//! again.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::sys::socket::{getsockopt, sockopt};
use rustix::process::{Pid, PidfdFlags, geteuid, pidfd_open};

/// Why a peer is not listened to; `None` for one of the same user and outside every sandbox.
///
/// # Errors
/// When it can not be found out; it is not listened to then either.
pub(super) fn objection(stream: &UnixStream) -> io::Result<Option<&'static str>> {
    let credentials = getsockopt(stream, sockopt::PeerCredentials)?;
    if credentials.uid() != geteuid().as_raw() {
        return Ok(Some("it is another user's session"));
    }
    let process = process(stream, credentials.pid())?;
    let about = fs::read_to_string(format!("/proc/self/fdinfo/{}", process.as_raw_fd()))?;
    Ok((!is_outside(&about)).then_some("that is not for processes inside a sandbox"))
}

/// A descriptor of the process that connected. Before Linux 6.5 its number has to do.
fn process(stream: &UnixStream, number: i32) -> io::Result<OwnedFd> {
    match getsockopt(stream, sockopt::PeerPidfd) {
        Err(Errno::ENOPROTOOPT) => {
            let pid = Pid::from_raw(number).ok_or(io::ErrorKind::NotFound)?;
            Ok(pidfd_open(pid, PidfdFlags::empty())?)
        }
        opened => Ok(opened?),
    }
}

/// Whether the process of a descriptor, which /proc tells `about`, lives in our pid namespace.
fn is_outside(about: &str) -> bool {
    let numbers = about.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let mut numbers = numbers.into_iter().flat_map(str::split_whitespace);
    let first = numbers.next().and_then(|number| number.parse::<i32>().ok());
    first.is_some_and(|first| first > 0) && numbers.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_namespace_is_outside() {
        assert!(is_outside("pos:\t0\nPid:\t12\nNSpid:\t12\n"));
        assert!(!is_outside("Pid:\t12\nNSpid:\t12\t3\n"));
        // It has ended, or lives in a namespace beside ours.
        assert!(!is_outside("Pid:\t-1\nNSpid:\t-1\n"));
        assert!(!is_outside("Pid:\t0\nNSpid:\t0\n"));
        assert!(!is_outside("Pid:\t12\n"));
    }

    #[test]
    fn this_process_is_outside() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(objection(&one).unwrap(), None);
    }
}
