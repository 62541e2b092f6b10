//! The journal: one append-only, checksummed, hash-chained log per session.
//!
//! It is both the audit trail and the state of the shadow: the name space that the agent sees is
//! the replay of its [`ShadowOp`] entries. `append` returns after write(2), so nothing that was
//! acknowledged is lost when the server is killed. The format is in docs/JOURNAL.md.

mod event;
mod frame;
mod position;
mod process;
mod read;
mod segment;
mod shadow;
mod write;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use event::{Entry, Event, Outcome, SnapshotCause, VerdictId};
pub use position::Position;
pub use process::{ExecutableLookup, executable_of};
pub use read::Entries;
pub use shadow::{
    Baseline, Displaced, FirstTouch, Generation, LowerFile, NodeId, NodeKind, ShadowOp,
};

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
    /// A position that was kept elsewhere is not one of this journal.
    #[error("it is not a position of journal segment `{segment}`: {reason}")]
    Unfit {
        /// The segment's path.
        segment: PathBuf,
        /// What does not fit.
        reason: &'static str,
    },
    /// An entry does not fit into a frame.
    #[error("an entry of kind `{event}` is larger than a journal frame can be")]
    TooLarge {
        /// The kind of the entry.
        event: &'static str,
    },
}

/// An entry that has been appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its number.
    pub seq: Seq,
    /// Its time, in nanoseconds since the Unix epoch.
    pub at: u64,
    /// Bytes of the journal with it.
    pub bytes: u64,
}

/// How a journal is written.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A segment that has reached this many bytes is followed by a new one.
    pub segment_bytes: u64,
    /// Where the executable of a process that was not seen before comes from.
    pub executable: ExecutableLookup,
}

/// The writing end. One per session; shared by the guard, the proxy and the lander.
#[derive(Debug)]
pub struct Journal {
    writer: Mutex<write::Writer>,
    verdicts: AtomicU32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            executable: executable_of,
        }
    }
}

impl Journal {
    /// Starts the journal of a new session in an empty directory.
    ///
    /// # Errors
    /// [`JournalError`] when the first segment can not be created, such as when there is one.
    pub fn create(directory: &Path) -> Result<Self, JournalError> {
        Self::create_with(directory, Options::default())
    }

    /// [`Journal::create`] with other than the usual options.
    ///
    /// # Errors
    /// As for [`Journal::create`].
    pub fn create_with(directory: &Path, options: Options) -> Result<Self, JournalError> {
        Ok(Self::new(write::Writer::create(directory, options)?))
    }

    /// Opens the journal of an earlier run, cutting a torn tail at the last whole entry.
    ///
    /// The caller holds the session's lock: two writers would cut each other's entries.
    ///
    /// # Errors
    /// [`JournalError`] when a segment can not be read or an entry before the tail is damaged.
    pub fn resume(directory: &Path) -> Result<Self, JournalError> {
        Self::resume_with(directory, Options::default())
    }

    /// [`Journal::resume`] with other than the usual options.
    ///
    /// # Errors
    /// As for [`Journal::resume`].
    pub fn resume_with(directory: &Path, options: Options) -> Result<Self, JournalError> {
        let entries = Entries::open(directory)?;
        let writer = write::Writer::resume(directory, options, entries)?;
        Ok(Self::new(writer))
    }

    /// [`Journal::resume`] that verifies only what lies behind `position`.
    ///
    /// # Errors
    /// [`JournalError::Unfit`] when the position is not one of this journal, and as for
    /// [`Journal::resume`].
    pub fn resume_at(directory: &Path, position: &Position) -> Result<Self, JournalError> {
        let entries = Entries::open_at(directory, position)?;
        let writer = write::Writer::resume(directory, Options::default(), entries)?;
        Ok(Self::new(writer))
    }

    /// Appends one entry; it is in the file when this returns.
    ///
    /// A process that is named for the first time gets an [`Event::Process`] entry before it.
    ///
    /// # Errors
    /// [`JournalError`] when it could not be written whole (such as on a full disk); nothing of it
    /// is then in the log.
    pub fn append(&self, pid: u32, verdict: VerdictId, event: Event) -> Result<Seq, JournalError> {
        Ok(self.append_stamped(pid, verdict, event)?.seq)
    }

    /// [`Journal::append`] that also tells the time that the entry got.
    ///
    /// # Errors
    /// As for [`Journal::append`].
    pub fn append_stamped(
        &self,
        pid: u32,
        verdict: VerdictId,
        event: Event,
    ) -> Result<Recorded, JournalError> {
        self.writer().append(pid, verdict, event)
    }

    /// Behind the entry that was appended last.
    #[must_use]
    pub fn position(&self) -> Position {
        self.writer().end().clone()
    }

    /// Forces everything appended so far to the disk (fdatasync(2)).
    ///
    /// # Errors
    /// [`JournalError`] when the disk refused.
    pub fn sync(&self) -> Result<(), JournalError> {
        let segment = self.writer().segment();
        segment.sync()
    }

    /// An id that no verdict of this journal has.
    pub(crate) fn fresh_verdict(&self) -> VerdictId {
        VerdictId(
            self.verdicts
                .fetch_add(1, Ordering::Relaxed)
                .wrapping_add(1),
        )
    }

    fn new(writer: write::Writer) -> Self {
        Self {
            verdicts: AtomicU32::new(writer.end().past.verdict),
            writer: Mutex::new(writer),
        }
    }

    /// A thread that panicked inside left the writer at its last whole entry, so the lock's poison
    /// says nothing.
    fn writer(&self) -> MutexGuard<'_, write::Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a journal from its first entry; needs no running session, and tolerates a torn tail.
///
/// # Errors
/// [`JournalError`] when a segment can not be opened; each item may be a [`JournalError::Damaged`],
/// after which nothing follows.
pub fn read(directory: &Path) -> Result<Entries, JournalError> {
    Entries::open(directory)
}

/// Reads a journal from a position on, which an earlier reading of it gave.
///
/// # Errors
/// [`JournalError::Unfit`] when the position is not one of this journal; else as for [`read`].
pub fn read_from(directory: &Path, position: &Position) -> Result<Entries, JournalError> {
    Entries::open_at(directory, position)
}

/// [`read_from`] that does not ask for the segments before: for what can be saved of a journal that
/// is damaged there.
///
/// # Errors
/// As for [`read_from`].
pub fn read_behind(directory: &Path, position: &Position) -> Result<Entries, JournalError> {
    Entries::open_behind(directory, position)
}

/// EIO (errno(3)), the same number on every system we run on.
const INPUT_OUTPUT_ERROR: i32 = 5;

impl JournalError {
    /// What an operation fails with whose record could not be written (errno(3)).
    #[must_use]
    pub fn errno(&self) -> i32 {
        let number = match self {
            Self::Io { source, .. } => source.raw_os_error(),
            _ => None,
        };
        number.unwrap_or(INPUT_OUTPUT_ERROR)
    }

    fn io(segment: &Path, source: io::Error) -> Self {
        Self::Io {
            segment: segment.to_owned(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::frame::Tip;
    use super::*;

    fn example() -> Vec<Entry> {
        let entry = |at, pid, verdict, event| Entry {
            at,
            pid,
            verdict: VerdictId(verdict),
            event,
        };
        let command = vec![b"make".to_vec(), b"test".to_vec()];
        let path = crate::RelPath::parse(b"src/main.rs").unwrap();
        vec![
            entry(1_700_000_000_000_000_000, 0, 0, Event::Started { command }),
            entry(1_700_000_000_000_000_001, 4242, 1, Event::Read { path }),
        ]
    }

    /// The bytes of the code block in docs/JOURNAL.md that is marked as hexadecimal.
    fn documented() -> Vec<u8> {
        let text = include_str!("../../../docs/JOURNAL.md");
        let (_, block) = text.split_once("```hex\n").unwrap();
        let (block, _) = block.split_once("```").unwrap();
        let digits: Vec<u8> = block.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    #[test]
    fn the_documented_example_reads_as_it_says() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(segment::path(directory.path(), 0), documented()).unwrap();
        let entries: Vec<_> = read(directory.path())
            .unwrap()
            .map(|item| item.unwrap().1)
            .collect();
        assert_eq!(entries, example());
    }

    #[test]
    fn the_documented_example_is_what_is_written() {
        let directory = tempfile::tempdir().unwrap();
        drop(segment::create(directory.path(), 0, Tip::START).unwrap());
        let mut bytes = fs::read(segment::path(directory.path(), 0)).unwrap();
        let tip = example().iter().fold(Tip::START, |tip, entry| {
            tip.encode(&mut bytes, entry).unwrap()
        });
        assert_eq!(tip.seq, 2);
        let shown: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(bytes, documented(), "{}", shown.join(" "));
    }
}
