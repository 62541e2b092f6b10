//! Why an operation on the tree failed, and the number that the kernel gets for it.

use aegis_policies::Refusal;
use aegis_policies::journal::JournalError;
use rustix::io::Errno;

/// Why an operation on the tree failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OverlayError {
    /// The name or node is not there any more.
    #[error("the node is gone")]
    Stale,
    /// The name leads elsewhere than when the permit was given; the caller judges again.
    #[error("the name moved while the permit was asked for")]
    Moved,
    /// Policy forbids it, or leaves it to a person.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The host kept changing the file while its content was taken.
    #[error("the host keeps changing the file")]
    Busy,
    /// The session lies inside the project, so the tree would hold itself.
    #[error("the session's directory lies inside the project")]
    SessionInsideProject,
    /// The journal holds an entry that does not follow from those before it.
    #[error("journal entry {seq} does not fit the tree: {reason}")]
    Replay {
        /// The entry.
        seq: u64,
        /// What does not fit.
        reason: &'static str,
    },
    /// An operation does not fit the tree; a fault of ours.
    #[error("the operation does not fit the tree: {0}")]
    Misfit(&'static str),
    /// Another snapshot has the name.
    #[error("another snapshot has that name")]
    NameTaken,
    /// The record could not be written, so the change did not happen.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Any other reason, as the kernel names it.
    #[error(transparent)]
    Os(#[from] Errno),
}

impl OverlayError {
    /// The number for the kernel. Descriptors that this process has no more of are not the caller's
    /// (EMFILE), but those of the system that it asks (ENFILE).
    #[must_use]
    pub fn errno(&self) -> Errno {
        match self.cause() {
            Errno::MFILE => Errno::NFILE,
            other => other,
        }
    }

    fn cause(&self) -> Errno {
        match self {
            Self::Stale => Errno::STALE,
            Self::Moved => Errno::AGAIN,
            Self::Refused(refusal) => refusal
                .unrecorded
                .map_or(Errno::ACCESS, Errno::from_raw_os_error),
            Self::Busy => Errno::BUSY,
            Self::NameTaken => Errno::EXIST,
            Self::Journal(error) => Errno::from_raw_os_error(error.errno()),
            Self::SessionInsideProject | Self::Replay { .. } | Self::Misfit(_) => Errno::IO,
            Self::Os(errno) => *errno,
        }
    }
}
