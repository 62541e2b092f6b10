//! Where the entrances name what is wanted and the gate judges it.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use aegis_policies::journal::{Event, JournalError, VerdictId};
use aegis_policies::{Actor, Effect, Gate, Kind, Permit, Refusal, Reversibility, Scope};

use crate::allow::Listing;
use crate::name::Authority;

/// The gate as this room uses it, and the sums of the session.
#[derive(Debug)]
pub(crate) struct Desk {
    gate: Arc<Gate>,
    agent: Arc<str>,
    pub(crate) tally: Tally,
    /// Keyed at random, so that an agent can not choose names that collide with a noted refusal.
    hasher: RandomState,
    noted: Mutex<HashSet<u64>>,
}

/// What passed through the door so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) connections: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
}

impl Desk {
    pub(crate) fn new(gate: Arc<Gate>, agent: Arc<str>) -> Self {
        Self {
            gate,
            agent,
            tally: Tally::default(),
            hasher: RandomState::new(),
            noted: Mutex::default(),
        }
    }

    /// Asks for a connection to `destination`.
    pub(crate) fn connect(&self, destination: &Authority, listing: Listing) -> Verdict {
        let scope = Scope::Endpoint {
            host: destination.host.bare(),
            port: destination.port,
            listed: listing != Listing::Absent,
        };
        self.judge(Kind::NetConnect, scope)
    }

    /// Asks for one thing that leaves the machine. A refusal is in the journal when this returns.
    pub(crate) fn judge(&self, kind: Kind, scope: Scope) -> Verdict {
        let verdict = self.gate.judge(&self.actor(), leaving(kind, scope));
        if verdict.is_err() {
            self.tally.refused.fetch_add(1, Ordering::Relaxed);
        }
        verdict.map_err(Box::new)
    }

    /// Journals that the door stops what has no name to judge, or what its own tables exclude.
    pub(crate) fn block(&self, kind: Kind, scope: Scope, reason: &str) {
        let event = Event::Blocked {
            effect: leaving(kind, scope),
            reason: reason.to_owned(),
        };
        if self.is_news(&event) {
            // Nothing happens, so there is nothing to stop when the disk is full.
            drop(
                self.gate
                    .journal()
                    .append(self.actor().pid, VerdictId::default(), event),
            );
        }
    }

    /// Journals that the door stops what `permit` allows.
    pub(crate) fn block_permitted(&self, permit: &Permit, reason: &str) {
        let effect = permit.effect().clone();
        let event = Event::Blocked {
            effect,
            reason: reason.to_owned(),
        };
        if self.is_news(&event) {
            drop(self.gate.record(permit, event));
        }
    }

    /// Journals that what `permit` allows was begun and did not come about.
    pub(crate) fn fail(&self, permit: &Permit, reason: &str) {
        let effect = permit.effect().clone();
        let reason = format!("{FAILED}{reason}");
        self.record(permit, Event::Blocked { effect, reason });
    }

    /// Counts a refusal; `false` when the same one is on the record already, so that a loop can not
    /// fill the disk with its own refusals.
    fn is_news(&self, event: &Event) -> bool {
        self.tally.refused.fetch_add(1, Ordering::Relaxed);
        let Event::Blocked { effect, reason } = event else {
            return true;
        };
        let mark = self.hasher.hash_one((effect, reason));
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() >= MOST_NOTED {
            noted.clear();
        }
        noted.insert(mark)
    }

    /// Puts on record what is about to leave the machine, so that no end of this process can hide it.
    ///
    /// # Errors
    /// [`JournalError`] when that is not possible; nothing may leave then.
    pub(crate) fn begin(&self, permit: &Permit) -> Result<(), JournalError> {
        let effect = permit.effect().clone();
        self.gate.record(permit, Event::Begun { effect }).map(drop)
    }

    pub(crate) fn record(&self, permit: &Permit, event: Event) {
        // The bytes are gone already; the next judgement fails when the journal can not be written.
        drop(self.gate.record(permit, event));
    }

    /// Which process it is can not be told from an accepted socket.
    fn actor(&self) -> Actor {
        Actor {
            agent: Arc::clone(&self.agent),
            pid: 0,
        }
    }
}

/// The gate's word. A refusal is large and rare, so it is boxed.
pub(crate) type Verdict = Result<Permit, Box<Refusal>>;

fn leaving(kind: Kind, scope: Scope) -> Effect {
    Effect {
        kind,
        scope,
        reversibility: Reversibility::Irreversible,
    }
}

/// How the reason of an [`Event::Blocked`] begins when nobody refused: a permitted connection failed.
pub const FAILED: &str = "failed: ";

/// Refusals remembered at one time.
const MOST_NOTED: usize = 8192;
