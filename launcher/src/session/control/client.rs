//! Asking the process that serves a session.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::message::{self, Answer, Ask};
use super::{NAME, PATIENCE};

/// How long an answer may take: a rewind reads the journal first.
const ANSWER: Duration = Duration::from_secs(120);

/// Asks the process that serves the session in `directory`.
///
/// # Errors
/// When nobody answers there.
pub fn ask(directory: BorrowedFd<'_>, ask: &Ask) -> io::Result<Answer> {
    let mut stream = UnixStream::connect(path(directory))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_read_timeout(Some(ANSWER))?;
    message::write(&mut stream, ask)?;
    message::parse(&message::read(&mut stream)?)
}

/// The socket's path by way of the directory's descriptor: the name of a socket has at most 108
/// bytes (unix(7)).
pub(super) fn path(directory: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}/{NAME}", directory.as_raw_fd())
}
