//! The words for a landing that did not happen.

use aegisfs::commit::CommitError;

use crate::error::CommandError;

/// Says what a failed freeze, landing or reversal means for the person.
#[must_use]
pub fn failed(error: CommitError) -> CommandError {
    let next = match &error {
        CommitError::Io { .. } => "see to that and try again; the project is as it was",
        CommitError::Tampered { .. } => {
            "something changed the session's own folder: find out what, and land again"
        }
        CommitError::WrongApproval { .. } => "look at the changes again with `aegis-os review`",
        CommitError::Record { .. } => {
            "keep the session's folder: what the landing displaced is in it"
        }
        CommitError::NothingToUndo => "`aegis-os sessions` lists the sessions",
        _ => "",
    };
    CommandError::told("nothing was changed", error, next)
}
