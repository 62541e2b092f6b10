//! The gate: the one place where an effect becomes a permit or a refusal, and a record.

use std::sync::Arc;

use crate::effect::{Actor, Effect};
use crate::journal::{Event, Journal, JournalError, Seq, VerdictId};
use crate::label::Labels;
use crate::path::RelPath;

/// Judges effects against a policy and journals what it decides.
#[derive(Debug)]
pub struct Gate {
    journal: Arc<Journal>,
}

/// The right to carry out one effect. Only [`Gate::judge`] makes one.
#[derive(Debug)]
pub struct Permit {
    actor: Actor,
    effect: Effect,
    verdict: VerdictId,
}

/// Why an effect may not happen now.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// The effect that was refused.
    pub effect: Effect,
    /// Whether a person could allow it.
    pub askable: bool,
    /// The ids of the policies that decided.
    pub policies: Arc<[String]>,
    /// The reason in words, from the policy's annotation.
    pub reason: String,
}

impl Gate {
    /// The labels of a path, from the tables this gate was built with.
    #[must_use]
    pub fn labels(&self, _path: &RelPath) -> Labels {
        unimplemented!()
    }

    /// Judges one effect.
    ///
    /// # Errors
    /// [`Refusal`] when policy forbids it or leaves it to a person; the refusal is in the journal
    /// before this returns. An effect whose record can not be written is refused.
    pub fn judge(&self, _actor: &Actor, _effect: Effect) -> Result<Permit, Refusal> {
        unimplemented!()
    }

    /// Writes what the holder of a permit did (or is about to do) to the journal.
    ///
    /// # Errors
    /// [`JournalError`] when the record could not be written; the act must then not happen.
    pub fn record(&self, permit: &Permit, event: Event) -> Result<Seq, JournalError> {
        self.journal.append(permit.actor.pid, permit.verdict, event)
    }

    /// The journal this gate writes to.
    #[must_use]
    pub fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }
}

impl Permit {
    /// The effect that is allowed.
    #[must_use]
    pub const fn effect(&self) -> &Effect {
        &self.effect
    }

    /// Who may carry it out.
    #[must_use]
    pub const fn actor(&self) -> &Actor {
        &self.actor
    }
}
