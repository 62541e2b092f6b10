//! Approved: a person has said yes to exactly this manifest.

use super::error::CommitError;
use super::frozen::Frozen;
use super::state::Digest;

/// A yes. It is made from what a person answered, and names the one manifest that it is for.
#[derive(Debug)]
pub struct Approval {
    manifest: Digest,
}

impl Approval {
    /// A person has been shown the review of the manifest and has said yes.
    #[must_use]
    pub const fn by_person(manifest: Digest) -> Self {
        Self { manifest }
    }
}

/// What may land.
#[derive(Debug)]
pub struct Approved(Frozen);

impl Frozen {
    /// Binds the approval to what was frozen.
    ///
    /// # Errors
    /// [`CommitError::WrongApproval`] when the yes was for something else.
    pub fn approve(self, approval: &Approval) -> Result<Approved, CommitError> {
        // The entries are private to this room and can not change; counting again costs little.
        let manifest = super::frozen::manifest(&self.entries);
        if manifest == approval.manifest {
            return Ok(Approved(self));
        }
        Err(CommitError::WrongApproval {
            approved: approval.manifest.to_string(),
            frozen: manifest.to_string(),
        })
    }
}

impl Approved {
    pub(crate) fn into_frozen(self) -> Frozen {
        self.0
    }
}
