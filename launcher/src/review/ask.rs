//! Asking a person at the terminal.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;

use rustix::termios::{QueueSelector, tcflush};

use crate::error::CommandError;

/// Puts `question` about `matter` (a noun) on the controlling terminal; only a typed `yes` agrees.
/// What was typed before the question was there is thrown away.
///
/// # Errors
/// [`CommandError::NobodyToAsk`] without a terminal.
pub fn ask(question: &str, matter: &str) -> Result<bool, CommandError> {
    let nobody = |_| CommandError::NobodyToAsk {
        question: matter.to_owned(),
    };
    let terminal = open().map_err(nobody)?;
    crate::terminal::settle();
    let asking = |source| CommandError::Io {
        doing: "asking".to_owned(),
        source,
    };
    tcflush(&terminal, QueueSelector::IFlush).map_err(|errno| asking(errno.into()))?;
    write!(&terminal, "{question}? Type `yes` to agree: ").map_err(asking)?;
    let mut answer = String::new();
    BufReader::new(&terminal)
        .read_line(&mut answer)
        .map_err(asking)?;
    Ok(answer.trim() == "yes")
}

fn open() -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_CLOEXEC)
        .open("/dev/tty")
}
