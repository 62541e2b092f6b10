//! The words for a landing that did not happen, or not to its end.

use aegisfs::commit::CommitError;

use crate::error::CommandError;

/// Says what a failed freeze, landing or reversal means for the person.
#[must_use]
pub fn failed(error: CommitError) -> CommandError {
    let (what, next) = words(&error);
    CommandError::told(what, error, next)
}

const fn words(error: &CommitError) -> (&'static str, &'static str) {
    const NOTHING: &str = "nothing was changed";
    match error {
        CommitError::Io { .. } => (
            NOTHING,
            "see to that and try again; the project is as it was",
        ),
        CommitError::Tampered { .. } => (
            NOTHING,
            "something changed the session's own folder: find out what, and land again",
        ),
        CommitError::WrongApproval { .. } | CommitError::Outdated { .. } => {
            (NOTHING, "look at the changes again with `aegis-os review`")
        }
        CommitError::Record { .. } => (
            NOTHING,
            "keep the session's folder: what the landing displaced is in it",
        ),
        CommitError::NothingToUndo => (NOTHING, "`aegis-os sessions` lists the sessions"),
        CommitError::HalfBack { .. } => (
            "some changes are in the project",
            "see to what is named, then `aegis-os land` or `aegis-os undo` takes the rest back \
             first; until then, keep files called `.aegis-...`",
        ),
        CommitError::Interrupted { .. } => (
            "nothing new was begun",
            "see to what is named and try again; until then, keep files called `.aegis-...`, which \
             hold what was there before",
        ),
        _ => (NOTHING, ""),
    }
}
