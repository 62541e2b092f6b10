//! Positions of a session's journal, as people name them.

use std::os::fd::BorrowedFd;

use aegis_policies::journal::{self, Event};
use aegis_policies::path::escape;
use aegisfs::commit;
use aegisfs::overlay::past::{self, Past, Snapshots};
use aegisfs::overlay::{Relocations, Snapshot};

use super::serve::ServeError;
use super::{Project, Session};
use crate::error::CommandError;

/// The snapshots of a session.
///
/// # Errors
/// When its journal can not be replayed.
pub fn snapshots(session: &Session) -> Result<Snapshots, CommandError> {
    let found = past::snapshots(session.dir(), &relocations(session)?);
    found.map_err(|error| ServeError::from(error).into())
}

/// The entry that `given` names: by its number, or by the name of the snapshot that it took.
///
/// # Errors
/// When no snapshot has that name, or the number is none.
pub fn entry(session: &Session, given: &str) -> Result<u64, CommandError> {
    if !given.is_empty() && given.bytes().all(|byte| byte.is_ascii_digit()) {
        return given.parse().map_err(|_| none(given));
    }
    let snapshots = snapshots(session)?.kept;
    let named = snapshots
        .iter()
        .find(|one| one.name.as_deref() == Some(given));
    named
        .map(|snapshot| snapshot.seq)
        .ok_or_else(|| none(given))
}

/// The tree of a session after the entry `last`, or as it is now.
///
/// # Errors
/// When there is no such entry, or the journal can not be replayed.
pub fn open<'a>(
    session: &'a Session,
    project: &'a Project,
    last: Option<u64>,
) -> Result<Past<'a>, CommandError> {
    let directory: BorrowedFd<'a> = project.directory();
    let opened = Past::open(session.dir(), directory, relocations(session)?, last);
    opened.map_err(|error| ServeError::from(error).into())
}

/// What landings of the session have made of the project.
///
/// # Errors
/// When their records can not be read.
pub fn relocations(session: &Session) -> Result<Relocations, CommandError> {
    let relocations = commit::relocations(session.dir());
    relocations.map_err(|error| ServeError::from(error).into())
}

/// The landings in force that were made after an entry.
///
/// # Errors
/// When the journal can not be read.
pub fn landings_since(session: &Session, entry: u64) -> Result<usize, CommandError> {
    let mut landings = 0_usize;
    for item in journal::read(&session.dir().journal())? {
        let (seq, what) = item?;
        match what.event {
            Event::Landed { undo: false, .. } if seq > entry => landings += 1,
            Event::Landed { undo: true, .. } if seq > entry => {
                landings = landings.saturating_sub(1);
            }
            _ => {}
        }
    }
    Ok(landings)
}

/// A snapshot in a word: its name, or why it was taken.
#[must_use]
pub fn word(snapshot: &Snapshot) -> String {
    match &snapshot.name {
        Some(name) => escape(name.as_bytes()),
        None => format!("({})", snapshot.cause.name()),
    }
}

fn none(given: &str) -> CommandError {
    CommandError::told(
        &format!(
            "`{}` is no snapshot of the session",
            escape(given.as_bytes())
        ),
        "none that is kept has that name",
        "`aegis-os snapshots` lists them; an entry of `aegis-os audit --json` can be named by its \
         number",
    )
}
