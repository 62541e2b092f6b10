//! What a session did, in a few lines: from its journal and its tree.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use aegis_policies::Scope;
use aegis_policies::journal::{self, Entry, Event, JournalError, VerdictId};
use aegis_policies::path::escape;
use aegisfs::overlay::changes::Change;

use super::launch::Finished;
use super::{Session, changes, find};
use crate::error::CommandError;

/// How many names a line shows before it only counts.
const SHOWN: usize = 4;

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

/// How many names changed, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Names that the host does not have.
    pub created: usize,
    /// Names whose content, type or mode differs.
    pub modified: usize,
    /// Names that are gone.
    pub deleted: usize,
    /// Names that hold what had another name.
    pub moved: usize,
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
                    .add(named(&effect.scope));
            }
            Event::Blocked { effect, reason } => {
                let key = (effect.kind.name(), escape(reason.as_bytes()));
                self.refused.entry(key).or_default().add(named(&effect.scope));
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
    fn add(&mut self, name: String) {
        self.count += 1;
        if self.first.len() <= SHOWN && !self.first.contains(&name) {
            self.first.push(name);
        }
    }
}

impl Counts {
    /// Counts `changes`; git's own records are left out.
    #[must_use]
    pub fn of(changes: &[Change]) -> Self {
        let mut counts = Self::default();
        for change in work(changes) {
            let counter = match (&change.moved_from, &change.before, &change.after) {
                (_, _, None) => &mut counts.deleted,
                (Some(_), _, Some(_)) => &mut counts.moved,
                (None, None, Some(_)) => &mut counts.created,
                (None, Some(_), Some(_)) => &mut counts.modified,
            };
            *counter += 1;
        }
        counts
    }

    /// As `2 created, 1 deleted`; empty when nothing changed.
    #[must_use]
    pub fn shown(&self) -> String {
        let parts = [
            (self.created, "created"),
            (self.modified, "modified"),
            (self.moved, "moved"),
            (self.deleted, "deleted"),
        ];
        let shown = parts.iter().filter(|(count, _)| *count > 0);
        shown
            .map(|(count, how)| format!("{count} {how}"))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// The changes that are work of the agent: without git's own records, and without the old name of
/// what was moved, which its new name stands for.
fn work(changes: &[Change]) -> impl Iterator<Item = &Change> {
    let left: BTreeSet<_> = changes
        .iter()
        .filter_map(|change| change.moved_from.as_ref())
        .collect();
    changes.iter().filter(move |change| {
        let is_old_name = change.after.is_none() && left.contains(&change.path);
        !is_old_name && !is_git_record(change)
    })
}

fn is_git_record(change: &Change) -> bool {
    change.path.as_bytes().starts_with(b".git/") || change.path.as_bytes() == b".git"
}

/// The lines that end a run.
///
/// # Errors
/// When the session's journal or tree can not be read.
pub fn of_run(finished: &Finished) -> Result<String, CommandError> {
    let session = &finished.session;
    let changed = changes(session)?;
    let mut text = format!("aegis-os: session {}", session.id());
    if finished.status != 0 {
        let _ok = write!(text, " (exit status {})", finished.status);
    }
    let mut shown = lines(&changed, &Effects::read(session, Span::LastRun)?);
    shown.push(("next", next(session, !changed.is_empty())));
    for (title, content) in shown {
        let _ok = write!(text, "\n  {title:8} {content}");
    }
    Ok(text)
}

/// What changed, was refused and went over the network, each line with its title.
#[must_use]
pub fn lines(changed: &[Change], effects: &Effects) -> Vec<(&'static str, String)> {
    let mut lines = vec![("changed", shown_changes(changed))];
    let titles = std::iter::once("refused").chain(std::iter::repeat(""));
    for (title, ((kind, policies), tally)) in titles.zip(&effects.refused) {
        lines.push((title, shown_refusal(kind, policies, tally)));
    }
    let requests = effects
        .requests
        .iter()
        .map(|(name, count)| format!("{name} ({count} requests)"));
    let tunnels = effects
        .connections
        .iter()
        .map(|(name, count)| format!("{name} ({count} connections)"));
    let network: Vec<_> = requests.chain(tunnels).collect();
    if !network.is_empty() {
        lines.push(("network", network.join(", ")));
    }
    lines
}

fn shown_changes(changed: &[Change]) -> String {
    let records = if changed.iter().any(is_git_record) {
        "git's records"
    } else {
        ""
    };
    let names: Vec<_> = work(changed)
        .map(|change| change.path.to_string())
        .collect();
    if names.is_empty() {
        return if records.is_empty() {
            "nothing".to_owned()
        } else {
            records.to_owned()
        };
    }
    let first = names
        .iter()
        .take(SHOWN)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    let more = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let and = if records.is_empty() { "" } else { "; " };
    format!(
        "{}: {first}{more}{and}{records}",
        Counts::of(changed).shown()
    )
}

fn shown_refusal(kind: &str, policies: &str, tally: &Tally) -> String {
    let names: Vec<_> = tally.first.iter().take(SHOWN).cloned().collect();
    let dots = if tally.first.len() > SHOWN {
        ", ..."
    } else {
        ""
    };
    let by = if policies.is_empty() {
        "no policy permits it"
    } else {
        policies
    };
    format!(
        "{} x {kind}: {}{dots} ({by})",
        tally.count,
        names.join(", ")
    )
}

fn named(scope: &Scope) -> String {
    match scope {
        Scope::Shadow { path, .. } | Scope::Project { path, .. } => path.to_string(),
        Scope::Endpoint { host, port, .. } => format!("{}:{port}", escape(host.as_bytes())),
        Scope::Request {
            upstream,
            method,
            path,
        } => escape(format!("{upstream} {method} {path}").as_bytes()),
        other => other.class().to_owned(),
    }
}

/// The commands that make sense now; they name the session when another one would be meant.
fn next(session: &Session, has_changes: bool) -> String {
    let is_meant = find(None).is_ok_and(|meant| meant.id() == session.id());
    let (option, argument) = if is_meant {
        (String::new(), String::new())
    } else {
        (
            format!(" --session {}", session.id()),
            format!(" {}", session.id()),
        )
    };
    if has_changes {
        format!(
            "`aegis-os diff{option}`, `aegis-os review{option}`, `aegis-os land{option}` or \
             `aegis-os discard{argument}`"
        )
    } else {
        format!("`aegis-os audit{argument}` or `aegis-os discard{argument}`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_counted_and_a_few_are_named() {
        let mut tally = Tally::default();
        for number in 0..9 {
            tally.add(format!("f{}", number % 6));
        }
        let shown = shown_refusal("fs.write", "vcs.locked", &tally);
        assert_eq!(shown, "9 x fs.write: f0, f1, f2, f3, ... (vcs.locked)");
    }
}
