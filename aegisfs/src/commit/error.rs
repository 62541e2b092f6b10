//! What can go wrong on the way back, as a whole. What goes wrong with one item is a [`Reason`].
//!
//! [`Reason`]: super::Reason

use std::fmt::Display;
use std::io;

use aegis_policies::journal::JournalError;

use super::reason::Reason;

/// Why a plan, a freeze, a landing or its reversal did not happen. The host's tree is then as it
/// was before, unless it is one of the last two.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The file system refused.
    #[error("{doing} `{name}`: {source}")]
    Io {
        /// What was attempted.
        doing: &'static str,
        /// The name, escaped.
        name: String,
        /// What the file system said.
        source: io::Error,
    },
    /// Frozen content is not what was approved.
    #[error("the frozen content of `{name}` is not what was approved; nothing was landed")]
    Tampered {
        /// The item, escaped.
        name: String,
    },
    /// The approval is for another set of changes.
    #[error("the approval is for manifest {approved}, but this one is {frozen}")]
    WrongApproval {
        /// The manifest that was approved.
        approved: String,
        /// The manifest that is to land.
        frozen: String,
    },
    /// The project is no longer what it was when the landing was reviewed.
    #[error("the project has changed since the review: `{name}`: {reason}")]
    Outdated {
        /// The item, escaped.
        name: String,
        /// Why it may not land any more.
        reason: Reason,
    },
    /// A record of a landing can not be read.
    #[error("the landing record `{name}` is damaged: {reason}")]
    Record {
        /// The record's path, escaped.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// There is nothing to take back.
    #[error("this session has no landing that could be undone")]
    NothingToUndo,
    /// Another process is freezing or landing this session.
    #[error("another review or landing of this session is under way; end it first")]
    Busy,
    /// The journal could not be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// libgit2 could not read what the project has.
    #[error("reading the repository: {0}")]
    Git(#[from] git2::Error),
    /// A landing failed, and so did taking back what it had done until then. The next landing,
    /// reversal or recovery tries again.
    #[error("{cause}; and taking back what was done until then failed: {left}")]
    HalfBack {
        /// Why the landing failed.
        cause: Box<Self>,
        /// What could not be taken back.
        left: Box<Self>,
    },
    /// A landing that was interrupted earlier is still not whole; nothing new was begun.
    #[error("an interrupted landing of session `{session}` can not be finished yet: {source}")]
    Interrupted {
        /// The session's id.
        session: String,
        /// What stands against it.
        source: Box<Self>,
    },
}

/// Says what was being done when a system call failed.
pub(crate) trait Doing<T> {
    /// Turns the failure into a [`CommitError::Io`].
    fn doing(self, doing: &'static str, name: &dyn Display) -> Result<T, CommitError>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, doing: &'static str, name: &dyn Display) -> Result<T, CommitError> {
        self.map_err(|source| CommitError::Io {
            doing,
            name: name.to_string(),
            source: source.into(),
        })
    }
}
