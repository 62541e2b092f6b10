//! What the journal says about a session's effects, counted.

use std::collections::BTreeMap;

use aegis_policies::journal::{self, Entry, Event, JournalError, VerdictId};
use aegis_policies::path::escape;

use super::super::Session;
use super::super::clock::Moment;

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
    /// Permitted connections that did not come about, by kind and reason.
    pub failed: BTreeMap<(&'static str, String), Tally>,
    /// The landings that are in force, over all runs.
    pub landings: Landings,
    /// Connections by host and port.
    pub connections: BTreeMap<String, u64>,
    /// Requests by upstream.
    pub requests: BTreeMap<String, u64>,
    verdicts: BTreeMap<u32, String>,
}

/// The landings that have not been taken back, oldest first: how many names, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Landings(Vec<(u64, Moment)>);

impl Landings {
    /// How many names they brought in all.
    #[must_use]
    pub fn names(&self) -> u64 {
        self.0.iter().map(|(names, _)| names).sum()
    }

    /// When the last one was.
    #[must_use]
    pub fn last(&self) -> Option<Moment> {
        self.0.last().map(|(_, at)| *at)
    }

    /// Takes note of a landing of `names`, or that the last one was taken back.
    fn note(&mut self, names: u64, at: Moment, undo: bool) {
        if undo {
            self.0.pop();
        } else if names > 0 {
            self.0.push((names, at));
        }
    }
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
            landings: std::mem::take(&mut self.landings),
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
                let failed = reason.strip_prefix(aegis_egress::FAILED);
                let (tallies, reason) = match failed {
                    Some(reason) => (&mut self.failed, reason),
                    None => (&mut self.refused, reason.as_str()),
                };
                let key = (effect.kind.name(), escape(reason.as_bytes()));
                tallies
                    .entry(key)
                    .or_default()
                    .add(effect.scope.to_string());
            }
            Event::Landed { paths, undo, .. } => {
                let at = Moment::from_millis(entry.at / 1_000_000);
                self.landings.note(paths, at, undo);
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
