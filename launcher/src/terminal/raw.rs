//! The user's terminal in raw mode, put back on every way out.

use std::io;

use rustix::termios::{OptionalActions, Termios};

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
}

impl Drop for Raw {
    fn drop(&mut self) {
        // What the command asked the terminal is answered by input, which is not for the user's
        // shell to read. A terminal that is gone needs no restoring.
        let stdin = rustix::stdio::stdin();
        let _gone = rustix::termios::tcsetattr(stdin, OptionalActions::Flush, &self.before);
    }
}
