//! The lock that says who works on a session: the server, a landing or a removal.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;

use super::error::SessionError;
use super::home::AegisHome;
use super::id::SessionId;

const NAME: &str = "lock";
/// A look at the lock holds it for an instant; so long is waited for such looks to pass.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(10);

/// The lock, held until this is dropped or the process ends (flock(2)).
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "an open descriptor holds the lock")] OwnedFd);

impl Lock {
    /// Takes the lock of the session in `directory`; `None` when another process has it.
    ///
    /// # Errors
    /// When the lock file can not be opened or made.
    pub fn acquire(directory: BorrowedFd<'_>) -> io::Result<Option<Self>> {
        let file = open(directory, OFlags::CREATE)?;
        for _ in 0..TRIES {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(Self(file))),
                Err(Errno::WOULDBLOCK) => sleep(PAUSE),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }
}

/// Takes the lock of the session `id`, whatever its record says; `None` when another process has it.
///
/// # Errors
/// When there is no such session, or its lock can not be opened.
pub fn claim(home: &AegisHome, id: &SessionId) -> Result<Option<Lock>, SessionError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(home.sessions(), id.as_str(), flags, Mode::empty())
        .map_err(io::Error::from)
        .and_then(|directory| Lock::acquire(directory.as_fd()))
        .map_err(SessionError::io(
            "locking",
            home.session_path(id).join(NAME),
        ))
}

/// Whether a process holds the lock of the session in `directory`. A lock that can not be looked at
/// counts as held: nothing may be taken from a session that might be running.
pub(super) fn is_held(directory: BorrowedFd<'_>) -> bool {
    match open(directory, OFlags::empty()) {
        Ok(file) => flock(&file, FlockOperation::NonBlockingLockShared).is_err(),
        Err(error) => Errno::from_io_error(&error) != Some(Errno::NOENT),
    }
}

fn open(directory: BorrowedFd<'_>, more: OFlags) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | more;
    Ok(openat(directory, NAME, flags, Mode::RUSR | Mode::WUSR)?)
}
