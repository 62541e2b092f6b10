//! What the journal says about a session's effects, counted.

use std::collections::BTreeMap;

use aegis_policies::journal::{self, Entry, Event, JournalError, VerdictId};
use aegis_policies::path::escape;

use super::super::Session;

/// How many names are kept of what happened often.
const KEPT: usize = 5;

/// How often something happened, and to what at first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How often.
    pub count: u64,
    /// The first few names, fit for a terminal, each once.
    pub first: Vec<String>,
}

/// What the journal says about a session's effects.
#[derive(Debug, Default)]
pub struct Effects {
    /// What was refused, by kind and by the policies that decided.
    pub refused: BTreeMap<(&'static str, String), Tally>,
    /// Connections by host and port.
    pub connections: BTreeMap<String, u64>,
    /// Requests by upstream.
    pub requests: BTreeMap<String, u64>,
    verdicts: BTreeMap<u32, String>,
}

/// Which part of a session's journal is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// All runs.
    Whole,
    /// The last run.
    LastRun,
}

impl Effects {
    /// Reads the journal of `session`.
    ///
    /// # Errors
    /// When it can not be read or is damaged.
    pub fn read(session: &Session, span: Span) -> Result<Self, JournalError> {
        let mut effects = Self::default();
        for item in journal::read(&session.dir().journal())? {
            let (_, entry) = item?;
            if span == Span::LastRun && matches!(entry.event, Event::Started { .. }) {
                effects.begin_again();
            }
            effects.take(entry);
        }
        Ok(effects)
    }

    fn begin_again(&mut self) {
        *self = Self {
            verdicts: std::mem::take(&mut self.verdicts),
            ..Self::default()
        };
    }

    fn take(&mut self, entry: Entry) {
        match entry.event {
            Event::Verdict { id, policies, .. } => {
                self.verdicts.insert(id.0, policies.join(", "));
            }
            Event::Refused { effect } => {
                let key = (effect.kind.name(), self.policies(entry.verdict));
                self.refused
                    .entry(key)
                    .or_default()
                    .add(effect.scope.to_string());
            }
            Event::Blocked { effect, reason } => {
                let key = (effect.kind.name(), escape(reason.as_bytes()));
                self.refused
                    .entry(key)
                    .or_default()
                    .add(effect.scope.to_string());
            }
            Event::Tunnel { host, port, .. } => {
                let name = format!("{}:{port}", escape(host.as_bytes()));
                *self.connections.entry(name).or_default() += 1;
            }
            Event::Request { upstream, .. } => {
                *self
                    .requests
                    .entry(escape(upstream.as_bytes()))
                    .or_default() += 1;
            }
            _ => {}
        }
    }

    fn policies(&self, verdict: VerdictId) -> String {
        self.verdicts.get(&verdict.0).cloned().unwrap_or_default()
    }
}

impl Tally {
    pub(super) fn add(&mut self, name: String) {
        self.count += 1;
        if self.first.len() < KEPT && !self.first.contains(&name) {
            self.first.push(name);
        }
    }
}
