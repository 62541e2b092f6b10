//! Long text goes through a pager when a person reads it.

use std::io::{self, IsTerminal, Write};
use std::process::{Command, Stdio};

use crate::cli::talk;
use crate::error::CommandError;

/// Writes the pieces that `text` gives to standard output; through the pager when that is a
/// terminal.
///
/// # Errors
/// When the stream refuses.
pub fn show<I: Iterator<Item = String>>(text: impl Fn() -> I) -> Result<(), CommandError> {
    if io::stdout().is_terminal() && page(text()).is_ok() {
        return Ok(());
    }
    text().try_for_each(|piece| talk::print(&piece))
}

/// Runs what `AEGIS_PAGER` or `PAGER` says, as a shell would, or `less`. A pager that is quit before
/// it has read everything is no failure.
fn page(mut text: impl Iterator<Item = String>) -> io::Result<()> {
    let chosen = ["AEGIS_PAGER", "PAGER"]
        .iter()
        .find_map(|name| std::env::var_os(name).filter(|value| !value.is_empty()));
    let mut child = start(chosen.unwrap_or_else(|| "less -FRX".into()))?;
    if let Some(mut input) = child.stdin.take() {
        let written = text.try_for_each(|piece| input.write_all(piece.as_bytes()));
        written.or_else(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Ok(()),
            _ => Err(error),
        })?;
    }
    // A shell that did not find the pager says so by its status, having shown nothing.
    match child.wait()?.code() {
        Some(NOT_FOUND | NOT_EXECUTABLE) => Err(io::ErrorKind::NotFound.into()),
        _ => Ok(()),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the pager that the person has chosen"
)]
fn start(command: std::ffi::OsString) -> io::Result<std::process::Child> {
    // LESSSECURE: less must not offer a shell, an editor or a log file from within a review.
    Command::new("/bin/sh")
        .arg("-c")
        .arg(command)
        .env("LESSSECURE", "1")
        .stdin(Stdio::piped())
        .spawn()
}

const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;
