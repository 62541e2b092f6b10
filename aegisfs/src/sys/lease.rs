//! Read leases (fcntl(2), `F_SETLEASE`): as long as one is held, whoever opens the file for writing
//! or truncates it waits, and the holder gets a signal.
//!
//! The signals go to one thread, which has them blocked and takes them: the default action of each
//! would end the process. When the queue of realtime signals is full the kernel sends SIGIO instead,
//! so that is awaited as well.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// `F_SETOWN_EX`, `F_SETSIG` and `F_OWNER_TID` of `<fcntl.h>`; libc has them for some systems only.
const F_SETOWN_EX: libc::c_int = 15;
const F_SETSIG: libc::c_int = 10;
const F_OWNER_TID: libc::c_int = 0;

/// `struct f_owner_ex` of `<fcntl.h>`.
#[repr(C)]
struct Owner {
    kind: libc::c_int,
    id: libc::pid_t,
}

/// The thread that hears when somebody wants a lease broken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listener {
    thread: libc::pid_t,
}

impl Listener {
    /// Makes the calling thread one that can listen.
    ///
    /// # Errors
    /// When its signals can not be blocked.
    pub(crate) fn here() -> io::Result<Self> {
        let awaited = awaited();
        // SAFETY: `awaited` is an initialised set; a null pointer asks for no former set.
        let blocked = unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const awaited, std::ptr::null_mut())
        };
        if blocked != 0 {
            return Err(io::Error::from_raw_os_error(blocked));
        }
        // SAFETY: gettid(2) takes nothing and can not fail.
        let thread = unsafe { libc::gettid() };
        Ok(Self { thread })
    }

    /// Waits in the listening thread until a lease is to be broken, [`Listener::wake`] is called, or
    /// the time is over. It may also return for no reason.
    pub(crate) fn wait(self, most: Duration) {
        let awaited = awaited();
        let most = libc::timespec {
            tv_sec: libc::time_t::try_from(most.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(most.subsec_nanos().cast_signed()),
        };
        // SAFETY: both values live through the call; a null pointer asks for no details.
        unsafe { libc::sigtimedwait(&raw const awaited, std::ptr::null_mut(), &raw const most) };
    }

    /// Ends the wait of the listening thread.
    pub(crate) fn wake(self) {
        // SAFETY: sends a signal to a thread of this process that has it blocked; one that is gone
        // is answered with ESRCH, and then nobody waits.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.thread, signal()) };
    }
}

/// Takes a read lease on a file that is open for reading only.
///
/// # Errors
/// EAGAIN when somebody has the file open for writing, EACCES when it is somebody else's and the
/// caller lacks `CAP_LEASE`, EINVAL where the file system has no leases.
pub(crate) fn take(file: impl AsFd, listener: Listener) -> io::Result<()> {
    let descriptor = file.as_fd().as_raw_fd();
    let owner = Owner {
        kind: F_OWNER_TID,
        id: listener.thread,
    };
    // SAFETY: the descriptor is open and `owner` has the layout that F_SETOWN_EX reads. Who gets
    // which signal is settled before there is a lease that could send one.
    unsafe {
        checked(libc::fcntl(descriptor, F_SETSIG, signal()))?;
        checked(libc::fcntl(descriptor, F_SETOWN_EX, &raw const owner))?;
        checked(libc::fcntl(descriptor, libc::F_SETLEASE, libc::F_RDLCK))?;
    }
    Ok(())
}

/// Whether the lease is held and nobody has asked for its end: nobody can have written to the file.
pub(crate) fn is_intact(file: impl AsFd) -> bool {
    // SAFETY: the descriptor is open; F_GETLEASE takes nothing.
    let held = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_GETLEASE) };
    held == libc::F_RDLCK
}

/// Gives a lease up; whoever waits to write goes on. Without a lease nothing happens.
pub(crate) fn release(file: impl AsFd) {
    // SAFETY: the descriptor is open.
    unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
}

fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 6
}

fn awaited() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: sigemptyset(3) initialises the set before anything else reads it.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGIO);
        set.assume_init()
    }
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, OpenOptions};
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;

    #[test]
    fn who_wants_to_write_is_noticed_and_waits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, "x").unwrap();
        let file = File::open(&path).unwrap();
        let listener = Listener::here().unwrap();
        take(&file, listener).unwrap();
        assert!(is_intact(&file));
        File::open(&path).unwrap();
        assert!(is_intact(&file), "a reader broke the lease");
        let mut eager = OpenOptions::new();
        eager.write(true).custom_flags(libc::O_NONBLOCK);
        let refused = eager.open(&path).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EWOULDBLOCK));
        listener.wait(Duration::from_secs(30));
        assert!(!is_intact(&file));
        release(&file);
        eager.open(&path).unwrap();
    }

    #[test]
    fn a_file_that_is_being_written_has_no_lease() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let reader = File::open(file.path()).unwrap();
        let refused = take(&reader, Listener::here().unwrap()).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EAGAIN));
        assert!(!is_intact(&reader));
    }
}
