//! The shadow, put down at a position of the journal, so that a replay need not start at entry 0.
//!
//! A checkpoint is a short cut and nothing more. It is taken from a replay, not from the live tree;
//! it counts only when the journal has the same chain value at its position; and all of them can be
//! removed at any time.

mod file;
mod keeper;
#[cfg(test)]
pub(crate) mod tests;
mod verify;

use std::path::PathBuf;

use aegis_policies::Journal;
use aegis_policies::journal::{self, JournalError, Position, Seq};

pub(crate) use keeper::Keeper;
pub use verify::{Verified, verify};

use super::relocations::Relocations;
use super::shadow::Shadow;
use crate::layout::SessionDir;
use file::{Flaw, Folder, Opened};

/// The shadow at a position.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    pub(crate) position: Position,
    pub(crate) shadow: Shadow,
}

/// A checkpoint that is not used, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dismissed {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// What looking for a checkpoint gives.
#[derive(Debug, Default)]
pub(crate) struct Search {
    pub(crate) found: Option<Checkpoint>,
    pub(crate) dismissed: Vec<Dismissed>,
}

/// The newest checkpoint that fits the journal and has no entry from number `limit` on.
///
/// One that was taken before a landing is passed over without a word: with what has landed, the
/// journal says something else.
pub(crate) fn newest(session: &SessionDir, relocations: &Relocations, limit: Seq) -> Search {
    let mut search = Search::default();
    let read = |opened: Opened| {
        if opened.head.relocations != *relocations {
            return Ok(None);
        }
        let position = opened.head.position.clone();
        let shadow = opened.shadow()?;
        Ok(Some(Checkpoint { position, shadow }))
    };
    search.found = find(session, limit, &mut search.dismissed, read);
    search
}

/// The entries behind which there are checkpoints, newest first.
pub(crate) fn list(session: &SessionDir) -> Vec<Seq> {
    let folder = Folder::open(session).ok().flatten();
    let seqs = folder.map_or(Ok(Vec::new()), |folder| folder.list());
    seqs.unwrap_or_default()
}

/// One of them, when it can be read, was taken with the same `relocations`, and fits the segment that
/// it is in, whatever became of those before.
pub(crate) fn salvage(
    session: &SessionDir,
    relocations: &Relocations,
    seq: Seq,
) -> Option<Checkpoint> {
    let opened = Folder::open(session).ok()??.read(seq).ok()?;
    let position = opened.head.position.clone();
    journal::read_behind(&session.journal(), &position).ok()?;
    if opened.head.relocations != *relocations {
        return None;
    }
    let shadow = opened.shadow().ok()?;
    Some(Checkpoint { position, shadow })
}

/// Opens the journal of an earlier run, as [`Journal::resume`] does, but verifies only what lies
/// behind the newest checkpoint, if there is one that fits.
///
/// # Errors
/// As for [`Journal::resume`].
pub fn resume_journal(session: &SessionDir) -> Result<Journal, JournalError> {
    let directory = session.journal();
    let position = |opened: Opened| Ok(Some(opened.head.position));
    match find(session, Seq::MAX, &mut Vec::new(), position) {
        Some(position) => Journal::resume_at(&directory, &position),
        None => Journal::resume(&directory),
    }
}

/// What `read` makes of the newest checkpoint below `limit` of which it makes anything.
fn find<T>(
    session: &SessionDir,
    limit: Seq,
    dismissed: &mut Vec<Dismissed>,
    read: impl Fn(Opened) -> Result<Option<T>, Flaw>,
) -> Option<T> {
    let folder = Folder::open(session).ok()??;
    let seqs = folder.list().unwrap_or_default();
    for seq in seqs.into_iter().filter(|seq| *seq <= limit) {
        let found = folder.read(seq).and_then(|opened| {
            let fits = journal::read_from(&session.journal(), &opened.head.position);
            fits.map_err(|error| Flaw::Form(unfit(&error)))?;
            read(opened)
        });
        match found {
            Ok(Some(found)) => return Some(found),
            Ok(None) => {}
            Err(flaw) => dismissed.push(Dismissed::new(session, seq, flaw)),
        }
    }
    None
}

impl Dismissed {
    pub(crate) fn new(session: &SessionDir, seq: Seq, reason: impl ToString) -> Self {
        Self {
            file: session.checkpoints().join(file::file_name(seq)),
            reason: reason.to_string(),
        }
    }
}

/// Why the journal has no such position.
const fn unfit(error: &JournalError) -> &'static str {
    match error {
        JournalError::Unfit { reason, .. } => reason,
        _ => "the journal can not be read there",
    }
}
