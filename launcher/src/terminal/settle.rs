//! The user's terminal put in order, so that words of ours look like what they are.
//!
//! A program can leave a terminal in a state in which the next words do not appear, or appear to be
//! others. Nothing here changes a terminal that is in order, and nothing is cleared that was said.

use std::io::{self, IsTerminal};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

/// ECMA-48 and xterm's control sequences (ctlseqs). What moves the cursor stands between saving and
/// restoring it.
const ORDER: &str = concat!(
    // CAN ends a sequence or string that was begun and would swallow what follows.
    "\x18",
    // Nothing of what is collected for a synchronized update is held back.
    "\x1b[?2026l",
    // Saved here, because xterm restores the cursor even where the other screen is not shown.
    "\x1b7\x1b[?1049l",
    // A soft reset: insert mode, origin mode, margins, character sets, protection.
    "\x1b[!p",
    // Letters are letters: ASCII in both sets, the first one chosen.
    "\x1b(B\x1b)B\x0f",
    // Plain, not reversed, no link, a cursor that is seen, lines that wrap.
    "\x1b[0m\x1b[?5l\x1b]8;;\x1b\\\x1b[?25h\x1b[?7h",
    // The whole screen scrolls.
    "\x1b7\x1b[?69l\x1b[r\x1b8",
    // The mouse, the focus and pasting send nothing; keys are sent as usual.
    "\x1b[?9l\x1b[?1000l\x1b[?1001l\x1b[?1002l\x1b[?1003l\x1b[?1004l",
    "\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1016l\x1b[?2004l",
    "\x1b[?1l\x1b>\x1b[>4;0m\x1b[=0u",
    // What the cursor was moved up before would stand below our words.
    "\x1b[J",
);
/// A terminal that takes nothing for so long is stopped.
const PATIENCE: Duration = Duration::from_secs(1);

/// Puts the terminal on standard output or standard error in order; where there is none, or one
/// without control sequences, nothing is done.
pub fn settle() {
    if let Some(terminal) = terminal().filter(|terminal| can_take(*terminal)) {
        // A terminal that is gone shows nothing.
        let _gone = rustix::io::write(terminal, ORDER.as_bytes());
    }
}

fn terminal() -> Option<BorrowedFd<'static>> {
    let kind = std::env::var_os("TERM").unwrap_or_default();
    if kind.is_empty() || kind == "dumb" {
        return None;
    }
    if io::stdout().is_terminal() {
        return Some(rustix::stdio::stdout());
    }
    io::stderr().is_terminal().then(rustix::stdio::stderr)
}

fn can_take(terminal: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(terminal, PollFlags::OUT)];
    let patience = Timespec::try_from(PATIENCE).ok();
    rustix::event::poll(&mut polled, patience.as_ref()).is_ok_and(|ready| ready > 0)
}
