//! The user's terminal in raw mode, put back on every way out.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::termios::{OptionalActions, Termios};

/// A terminal that has said nothing for so long has answered everything; nobody notices the wait.
const SILENCE: Duration = Duration::from_millis(30);
/// A terminal that never stops is not listened to any longer.
const LONGEST: Duration = Duration::from_secs(1);

/// Standard input in raw mode; dropping it, on return as in a panic, restores what was before.
#[derive(Debug)]
pub(super) struct Raw {
    before: Termios,
}

impl Raw {
    /// Sends every key through as it is: Ctrl-C is for the command to act on.
    pub(super) fn enter() -> io::Result<Self> {
        let stdin = rustix::stdio::stdin();
        let before = rustix::termios::tcgetattr(stdin)?;
        let mut raw = before.clone();
        raw.make_raw();
        rustix::termios::tcsetattr(stdin, OptionalActions::Now, &raw)?;
        Ok(Self { before })
    }

    /// Throws away what arrives until the terminal is silent: what the command asked it is answered
    /// late, and a person's shell would take the answers for commands.
    pub(super) fn discard(&self) {
        let stdin = rustix::stdio::stdin();
        let end = Instant::now() + LONGEST;
        let mut buffer = [0_u8; 4096];
        while Instant::now() < end && will_speak(stdin) {
            if !matches!(rustix::io::read(stdin, &mut buffer), Ok(1..)) {
                return;
            }
        }
    }
}

/// The modes of the terminal on standard input, kept for the case that the process that changes them
/// can not put them back.
#[derive(Debug)]
pub(crate) struct Modes(Termios);

impl Modes {
    /// The modes now; `None` where standard input is no terminal.
    pub(crate) fn of_input() -> Option<Self> {
        rustix::termios::tcgetattr(rustix::stdio::stdin())
            .ok()
            .map(Self)
    }

    /// Puts them back, throwing away what has been typed for the command.
    pub(crate) fn restore(&self) {
        let stdin = rustix::stdio::stdin();
        // A terminal that is gone needs no restoring.
        let _gone = rustix::termios::tcsetattr(stdin, OptionalActions::Flush, &self.0);
    }
}

fn will_speak(terminal: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(terminal, PollFlags::IN)];
    let silence = Timespec::try_from(SILENCE).ok();
    rustix::event::poll(&mut polled, silence.as_ref()).is_ok_and(|ready| ready > 0)
}

impl Drop for Raw {
    fn drop(&mut self) {
        // With what has arrived thrown away; a terminal that is gone needs no restoring.
        let stdin = rustix::stdio::stdin();
        let _gone = rustix::termios::tcsetattr(stdin, OptionalActions::Flush, &self.before);
    }
}
