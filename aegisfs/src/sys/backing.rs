//! Files that the kernel reads without asking (FUSE_DEV_IOC_BACKING_OPEN and _CLOSE of
//! linux/fuse.h, Linux 6.9).

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// `_IOW(229, 1, struct fuse_backing_map)`.
const OPEN: libc::c_ulong = 0x4010_e501;
/// `_IOW(229, 2, uint32_t)`.
const CLOSE: libc::c_ulong = 0x4004_e502;

/// `struct fuse_backing_map`.
#[repr(C)]
struct Map {
    descriptor: i32,
    flags: u32,
    padding: u64,
}

/// Registers a file with a connection. It is read with this process's rights, whoever reads.
///
/// The kernel opens the file anew with the flags of whoever opens the node, so `file` says nothing
/// of what may be done with it: the caller must not hand the number to one who may write.
///
/// # Errors
/// EPERM without `CAP_SYS_ADMIN` in the initial user namespace; ELOOP when the file lies on a file
/// system that is itself stacked; EOPNOTSUPP when the connection has not agreed to it.
pub(crate) fn register(connection: BorrowedFd<'_>, file: &File) -> Result<u32, Errno> {
    let map = Map {
        descriptor: file.as_fd().as_raw_fd(),
        flags: 0,
        padding: 0,
    };
    // SAFETY: the call reads one `struct fuse_backing_map`, which lives through it; both
    // descriptors are borrowed.
    let number = unsafe { libc::ioctl(connection.as_raw_fd(), OPEN as _, &raw const map) };
    u32::try_from(number).map_err(|_| last_error())
}

/// Takes a registration back; files that are open keep what they have.
pub(crate) fn unregister(connection: BorrowedFd<'_>, number: u32) {
    // SAFETY: the call reads one number, which lives through it. Of one that is not there the
    // kernel says ENOENT.
    let _ = unsafe { libc::ioctl(connection.as_raw_fd(), CLOSE as _, &raw const number) };
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
