//! The gate: the one place where an effect becomes a permit or a refusal, and a record.

mod refusals;
mod verdicts;

use std::sync::Arc;

use crate::cedar::{Policy, PolicyError};
use crate::effect::{Actor, Effect};
use crate::journal::{Event, Journal, JournalError, Outcome, Recorded, VerdictId};
use crate::label::{Labeler, Labels, Repository};
use crate::path::RelPath;
use crate::tables::TableError;

use refusals::Refusals;
use verdicts::{Verdict, Verdicts};

/// Judges effects against a policy and journals what it decides.
#[derive(Debug)]
pub struct Gate {
    policy: Policy,
    labeler: Labeler,
    journal: Arc<Journal>,
    verdicts: Verdicts,
    refusals: Refusals,
}

/// Why a gate could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GateError {
    /// A policy is not valid.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A built-in table is not valid.
    #[error(transparent)]
    Table(#[from] TableError),
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
    pub effect: Box<Effect>,
    /// Whether a person could allow it.
    pub askable: bool,
    /// The ids of the policies that decided.
    pub policies: Arc<[String]>,
    /// The reason in words, from the policy's annotation.
    pub reason: String,
    /// No policy refused: the judgement could not be put on record, for this reason of the operating
    /// system's (errno(3)).
    pub unrecorded: Option<i32>,
}

impl Gate {
    /// A gate that judges by `policy`, names paths by `labeler`, and writes to `journal`.
    #[must_use]
    pub fn open(policy: Policy, labeler: Labeler, journal: Arc<Journal>) -> Self {
        let verdicts = Verdicts::default();
        Self {
            policy,
            labeler,
            journal,
            verdicts,
            refusals: Refusals::default(),
        }
    }

    /// A gate with the built-in policy and tables for a project that is a git repository, and with
    /// a person's own policy text in addition.
    ///
    /// # Errors
    /// [`GateError`] when the person's policy is not valid; nothing is then judged by half of it.
    pub fn with_defaults(
        journal: Arc<Journal>,
        user_policy: Option<&str>,
    ) -> Result<Self, GateError> {
        let policy = match user_policy {
            Some(source) => Policy::with_user("policy.cedar", source)?,
            None => Policy::builtin()?,
        };
        Ok(Self::open(
            policy,
            Labeler::embedded(Repository::Present)?,
            journal,
        ))
    }

    /// The labels of a path, from the tables this gate was built with.
    #[must_use]
    pub fn labels(&self, path: &RelPath) -> Labels {
        self.labeler.labels(path)
    }

    /// Judges one effect.
    ///
    /// # Errors
    /// [`Refusal`] when policy forbids it or leaves it to a person; the refusal is in the journal
    /// before this returns. An effect whose record can not be written is refused.
    pub fn judge(&self, actor: &Actor, effect: Effect) -> Result<Permit, Refusal> {
        let verdict = match self
            .verdicts
            .find(&self.policy, &self.journal, actor, &effect)
        {
            Ok(verdict) => verdict,
            Err(error) => return Err(Refusal::unrecorded(effect, &error)),
        };
        if verdict.outcome == Outcome::Allow {
            return Ok(Permit {
                actor: actor.clone(),
                effect,
                verdict: verdict.id,
            });
        }
        match self
            .refusals
            .note(&self.journal, actor, &effect, verdict.id)
        {
            Ok(()) => Err(Refusal::by(&verdict, effect)),
            Err(error) => Err(Refusal::unrecorded(effect, &error)),
        }
    }

    /// Writes what the holder of a permit did (or is about to do) to the journal.
    ///
    /// # Errors
    /// [`JournalError`] when the record could not be written; the act must then not happen.
    pub fn record(&self, permit: &Permit, event: Event) -> Result<Recorded, JournalError> {
        let (pid, verdict) = (permit.actor.pid, permit.verdict);
        self.journal.append_stamped(pid, verdict, event)
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

impl Refusal {
    fn by(verdict: &Verdict, effect: Effect) -> Self {
        Self {
            effect: Box::new(effect),
            askable: verdict.outcome == Outcome::Ask,
            policies: Arc::clone(&verdict.policies),
            reason: verdict.reason.as_ref().to_owned(),
            unrecorded: None,
        }
    }

    /// What is not on the record does not happen.
    fn unrecorded(effect: Effect, error: &JournalError) -> Self {
        Self {
            effect: Box::new(effect),
            askable: false,
            policies: Arc::default(),
            reason: format!("it can not be put on record: {error}"),
            unrecorded: Some(error.errno()),
        }
    }
}
