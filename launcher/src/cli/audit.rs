//! `aegis-os audit`: the journal of a session, for people and for programs.

pub mod copy;
mod history;
mod json;
mod text;
mod verify;

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use aegis_policies::journal;

use self::history::History;
use super::Outcome;
use crate::error::CommandError;
use crate::session;

/// Shows every effect of a session with the decision that allowed or refused it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, or the first letters of its id.
    session: Option<String>,
    /// One JSON object per line.
    #[arg(long)]
    json: bool,
    /// Check instead that the whole record holds: the chain of all entries, and that every
    /// checkpoint is the tree that they lead to. The chain value that is printed, kept elsewhere,
    /// shows a record that was cut or written anew.
    #[arg(long)]
    verify: bool,
}

/// Prints the journal.
///
/// # Errors
/// When the session or its journal can not be read.
pub fn run(args: &Args) -> Outcome {
    let session = session::look_up(args.session.as_deref())?;
    if args.verify {
        return verify::run(&session, args.json);
    }
    let mut output = BufWriter::new(io::stdout().lock());
    print(&session.dir().journal(), args.json, &mut output)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the entries of the journal in `directory` to `output`, one line each, while the session
/// may still be running.
///
/// As text, entries that only explain others (which program a process number stood for, what a
/// decision said) are told with the entries that refer to them.
///
/// # Errors
/// When the journal can not be read or is damaged; what lies before the damage has been written. A
/// reader that went away (`| head`) is none.
pub fn print(directory: &Path, json: bool, output: &mut dyn Write) -> Result<(), CommandError> {
    let mut history = History::default();
    let written = journal::read(directory)?.try_for_each(|item| {
        let (seq, entry) = item?;
        history.note(&entry);
        let line = if json {
            Some(json::line(seq, &entry, &history))
        } else {
            text::line(&entry, &history)
        };
        line.map_or(Ok(()), |line| writeln!(output, "{line}"))
            .map_err(writing)
    });
    let flushed = output.flush().map_err(writing);
    match written.and(flushed) {
        Err(CommandError::Io { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => {
            Ok(())
        }
        done => done,
    }
}

fn writing(source: io::Error) -> CommandError {
    CommandError::io("writing to standard output", source)
}

#[cfg(test)]
mod tests;
