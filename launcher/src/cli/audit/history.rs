//! What earlier entries said about the numbers that later ones use.

use std::collections::HashMap;

use aegis_policies::journal::{Entry, Event, Outcome, VerdictId};

/// The processes and decisions that the journal has named so far.
#[derive(Debug, Default)]
pub(super) struct History {
    executables: HashMap<u32, Vec<u8>>,
    verdicts: HashMap<VerdictId, Decision>,
}

/// What a decision said.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) outcome: Outcome,
    pub(super) policies: Vec<String>,
}

impl History {
    pub(super) fn note(&mut self, entry: &Entry) {
        match &entry.event {
            Event::Process { exe } => {
                self.executables.insert(entry.pid, exe.clone());
            }
            Event::Verdict {
                id,
                outcome,
                policies,
                ..
            } => {
                let decision = Decision {
                    outcome: *outcome,
                    policies: policies.clone(),
                };
                self.verdicts.insert(*id, decision);
            }
            _ => {}
        }
    }

    /// The executable of the process of an entry; `None` for the launcher and for what is unknown.
    pub(super) fn executable(&self, entry: &Entry) -> Option<&[u8]> {
        self.executables
            .get(&entry.pid)
            .map(Vec::as_slice)
            .filter(|path| !path.is_empty())
    }

    /// The decision that an entry refers to.
    pub(super) fn decision(&self, entry: &Entry) -> Option<&Decision> {
        self.verdicts.get(&entry.verdict)
    }
}
