//! The journal: one append-only, checksummed, hash-chained log per session.
//!
//! It is both the audit trail and the state of the shadow: the name space that the agent sees is
//! the replay of its [`ShadowOp`] entries. `append` returns after write(2), so nothing that was
//! acknowledged is lost when the server is killed.

mod event;
mod shadow;

use std::io;
use std::path::{Path, PathBuf};

pub use event::{Entry, Event, VerdictId};
pub use shadow::{Baseline, LowerFile, NodeId, NodeKind, ShadowOp};

/// The position of an entry, counted from 0 at the start of the session.
pub type Seq = u64;

/// Why the journal could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file system refused.
    #[error("journal segment `{segment}`: {source}")]
    Io {
        /// The segment's path.
        segment: PathBuf,
        /// What the file system said.
        source: io::Error,
    },
    /// An entry in the middle of the log is damaged.
    #[error("journal segment `{segment}` is damaged at byte {offset} (entry {seq}): {reason}")]
    Damaged {
        /// The segment's path.
        segment: PathBuf,
        /// The byte offset of the damaged frame.
        offset: u64,
        /// The entry that should be there.
        seq: Seq,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// The writing end. One per session; shared by the guard, the proxy and the lander.
#[derive(Debug)]
pub struct Journal {}

impl Journal {
    /// Starts the journal of a new session in an empty directory.
    ///
    /// # Errors
    /// [`JournalError`] when the first segment can not be created.
    pub fn create(_directory: &Path) -> Result<Self, JournalError> {
        unimplemented!()
    }

    /// Opens the journal of an earlier run, cutting a torn tail at the last whole entry.
    ///
    /// # Errors
    /// [`JournalError`] when a segment can not be read or an entry before the tail is damaged.
    pub fn resume(_directory: &Path) -> Result<Self, JournalError> {
        unimplemented!()
    }

    /// Appends one entry; it is in the file when this returns.
    ///
    /// # Errors
    /// [`JournalError`] when it could not be written whole (such as on a full disk); nothing of it
    /// is then in the log.
    pub fn append(&self, _pid: u32, _verdict: VerdictId, _event: Event) -> Result<Seq, JournalError> {
        unimplemented!()
    }

    /// Forces everything appended so far to the disk (fdatasync(2)).
    ///
    /// # Errors
    /// [`JournalError`] when the disk refused.
    pub fn sync(&self) -> Result<(), JournalError> {
        unimplemented!()
    }
}

/// Reads a journal from its first entry; needs no running session, and tolerates a torn tail.
///
/// # Errors
/// [`JournalError`] when a segment can not be opened; each item may be a [`JournalError::Damaged`].
pub fn read(
    _directory: &Path,
) -> Result<impl Iterator<Item = Result<(Seq, Entry), JournalError>> + use<>, JournalError> {
    Ok(std::iter::empty())
}
