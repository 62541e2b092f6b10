//! Descriptors that came from elsewhere.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// From asm-generic/socket.h; libc does not name it.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// Takes over the descriptor with this number, which the process was started with.
///
/// # Errors
/// When there is no such descriptor, or it is one of the standard streams.
pub(crate) fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    if number <= libc::STDERR_FILENO {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: F_SETFD only looks at the number; a closed one is reported as EBADF.
    let answer = unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    check(answer.into())?;
    // SAFETY: the descriptor is open (asked above) and was inherited over exec, so nothing in this
    // process owns it; the stage calls this once, before it opens anything.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Marks every descriptor from `first` on to be closed at exec.
///
/// # Errors
/// When the kernel has no close_range(2) with that flag (before Linux 5.11).
pub(crate) fn close_on_exec_from(first: libc::c_uint) -> io::Result<()> {
    // SAFETY: close_range(2) takes three integers; CLOSE_RANGE_CLOEXEC closes nothing now.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    check(answer)
}

/// The kernel's number of the network namespace in which a socket lives (SO_NETNS_COOKIE).
///
/// Unlike an inode number of /proc it is never used twice while the machine runs.
///
/// # Errors
/// When `socket` is not a socket, or the kernel is older than 5.14.
pub(crate) fn network_namespace(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut cookie = 0_u64;
    let mut length = mem::size_of_val(&cookie) as libc::socklen_t;
    // SAFETY: the value pointer is valid for `length` bytes, and both live over the call.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    check(answer.into())?;
    Ok(cookie)
}

fn check(answer: libc::c_long) -> io::Result<()> {
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
