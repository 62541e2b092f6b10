//! Positions that can be gone back to.

use std::fmt;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use aegis_policies::journal::{Event, Generation, ShadowOp, SnapshotCause};

use super::{Overlay, OverlayError, Result, Snapshot};

/// Longest name of a snapshot, in bytes.
const LONGEST: usize = 64;

/// What a person calls a snapshot: letters, digits, `.`, `_` and `-`, beginning with a letter, a digit
/// or `_`, and not a number, which would name an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotName(String);

/// Why a text is no name of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotNameError {
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// It is too long.
    #[error("it is longer than 64 characters")]
    TooLong,
    /// It holds something else than names may.
    #[error(
        "it may hold letters, digits, `.`, `_` and `-`, and begins with none of the last but `_`"
    )]
    Characters,
    /// It is a number.
    #[error("a number names an entry of the journal")]
    Number,
}

/// How much has happened since a tree was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pulse {
    /// Changes of names, attributes and content.
    pub changes: u64,
    /// Movements of a branch of the project's repository.
    pub commits: u64,
}

impl SnapshotName {
    /// Parses a name.
    ///
    /// # Errors
    /// [`SnapshotNameError`] says what is wrong with it.
    pub fn parse(text: &str) -> std::result::Result<Self, SnapshotNameError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if text.is_empty() {
            Err(SnapshotNameError::Empty)
        } else if text.len() > LONGEST {
            Err(SnapshotNameError::TooLong)
        } else if !text.bytes().all(plain) || text.starts_with(['.', '-']) {
            Err(SnapshotNameError::Characters)
        } else if text.bytes().all(|byte| byte.is_ascii_digit()) {
            Err(SnapshotNameError::Number)
        } else {
            Ok(Self(text.to_owned()))
        }
    }
}

impl fmt::Display for SnapshotName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Overlay {
    /// Notes the present tree as one that can be gone back to. Nothing is copied, now or for it:
    /// what is written later is written elsewhere.
    ///
    /// # Errors
    /// [`OverlayError::NameTaken`] when another snapshot has the name, [`OverlayError::Journal`]
    /// when it can not be put on record.
    pub fn snapshot(&self, name: Option<SnapshotName>, cause: SnapshotCause) -> Result<Snapshot> {
        let writing = self.writing.write().unwrap_or_else(PoisonError::into_inner);
        let mut shadow = self.write();
        let name = name.map(|name| name.0);
        let taken = |snapshot: &Snapshot| name.is_some() && snapshot.name == name;
        if shadow.history().snapshots().iter().any(taken) {
            return Err(OverlayError::NameTaken);
        }
        let recorded = name.clone();
        let recorded = self.note_own(Event::Snapshot {
            name: recorded,
            cause,
        })?;
        let snapshot = shadow.snapshot(recorded.seq, recorded.at, name, cause);
        self.generation
            .store(shadow.generation().0, Ordering::Release);
        drop(writing);
        self.remove_freed(&mut shadow);
        Ok(snapshot)
    }

    /// As [`Overlay::snapshot`], where the tree has changed since the last one, or there is none.
    ///
    /// # Errors
    /// As there.
    pub fn snapshot_changes(&self, cause: SnapshotCause) -> Result<Option<Snapshot>> {
        let known = {
            let shadow = self.read();
            !shadow.history().has_changed() && !shadow.history().snapshots().is_empty()
        };
        if known {
            return Ok(None);
        }
        self.snapshot(None, cause).map(Some)
    }

    /// The snapshots that are kept, oldest first.
    #[must_use]
    pub fn snapshots(&self) -> Vec<Snapshot> {
        self.read().history().snapshots().to_vec()
    }

    /// How much has happened.
    #[must_use]
    pub fn pulse(&self) -> Pulse {
        Pulse {
            changes: self.changes.load(Ordering::Relaxed),
            commits: self.commits.load(Ordering::Relaxed),
        }
    }

    /// How often the tree has been put aside.
    pub(super) fn generation(&self) -> Generation {
        Generation(self.generation.load(Ordering::Acquire))
    }

    /// Notes that something is about to change.
    pub(super) fn note_change(&self, operation: &ShadowOp) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        // git makes a commit known by giving a lock file the name of a branch (gitrepository-layout(5)).
        if let ShadowOp::Rename { to, .. } = operation
            && to.as_bytes().starts_with(b".git/refs/heads/")
        {
            self.commits.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_not_be_taken_for_anything_else() {
        let parsed = |text: &str| SnapshotName::parse(text).map(|name| name.to_string());
        for good in ["before", "v1.2", "_", "1a", "a-b"] {
            assert_eq!(parsed(good).as_deref(), Ok(good));
        }
        assert_eq!(parsed(""), Err(SnapshotNameError::Empty));
        assert_eq!(parsed("12"), Err(SnapshotNameError::Number));
        assert_eq!(parsed(&"a".repeat(65)), Err(SnapshotNameError::TooLong));
        for bad in ["-x", ".x", "a b", "a/b", "a@b", "\u{e4}", "a\n"] {
            assert_eq!(parsed(bad), Err(SnapshotNameError::Characters), "{bad}");
        }
    }
}
