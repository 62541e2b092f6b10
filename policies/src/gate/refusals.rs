//! Refusals on record: each once, so that a loop can not fill the disk with its own refusals.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::mem;
use std::sync::{Mutex, PoisonError};

use crate::effect::{Actor, Effect};
use crate::journal::{Event, Journal, JournalError, VerdictId};

/// Refusals remembered in each of the two generations.
const CAPACITY: usize = 8192;

/// The refusals that have an entry, the recent ones of them.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    // Keyed at random, so that an agent can not choose names that collide with a noted refusal.
    hasher: RandomState,
    noted: Mutex<Generations>,
}

/// A memory that forgets about the oldest half when it is full.
#[derive(Debug, Default)]
struct Generations {
    young: HashSet<u64>,
    old: HashSet<u64>,
}

impl Refusals {
    /// Writes the refusal of `effect` unless the same process was refused the same before.
    pub(super) fn note(
        &self,
        journal: &Journal,
        actor: &Actor,
        effect: &Effect,
        verdict: VerdictId,
    ) -> Result<(), JournalError> {
        let mark = self.hasher.hash_one((actor.pid, effect));
        if self
            .noted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .has(mark)
        {
            return Ok(());
        }
        journal.append(
            actor.pid,
            verdict,
            Event::Refused {
                effect: effect.clone(),
            },
        )?;
        self.noted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .keep(mark);
        Ok(())
    }
}

impl Generations {
    fn has(&mut self, mark: u64) -> bool {
        if self.young.contains(&mark) {
            return true;
        }
        let known = self.old.contains(&mark);
        if known {
            self.keep(mark);
        }
        known
    }

    fn keep(&mut self, mark: u64) {
        if self.young.len() >= CAPACITY {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(mark);
    }
}
