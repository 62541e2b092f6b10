//! What a session did, in a few lines: from its journal and its tree.

use std::collections::BTreeMap;
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
    /// Counts `changes`.
    #[must_use]
    pub fn of(changes: &[Change]) -> Self {
        let mut counts = Self::default();
        for change in changes {
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
    text.push_str(&lines(&changed, &Effects::read(session, Span::LastRun)?));
    line(&mut text, "next", &next(session, !changed.is_empty()));
    Ok(text)
}

/// What changed, was refused and went over the network; each line begins with a line feed.
#[must_use]
pub fn lines(changed: &[Change], effects: &Effects) -> String {
    let mut text = String::new();
    line(&mut text, "changed", &shown_changes(changed));
    let mut title = "refused";
    for ((kind, policies), tally) in &effects.refused {
        line(&mut text, title, &shown_refusal(kind, policies, tally));
        title = "";
    }
    let requests = effects
        .requests
        .iter()
        .map(|(name, count)| format!("{name} ({count} requests)"));
    let tunnels = effects.connections.iter().map(|(name, count)| match count {
        1 => name.clone(),
        _ => format!("{name} ({count} connections)"),
    });
    let network: Vec<_> = requests.chain(tunnels).collect();
    if !network.is_empty() {
        line(&mut text, "network", &network.join(", "));
    }
    text
}

fn line(text: &mut String, title: &str, content: &str) {
    let _ok = write!(text, "\n  {title:8} {content}");
}

fn shown_changes(changed: &[Change]) -> String {
    if changed.is_empty() {
        return "nothing".to_owned();
    }
    let names: Vec<_> = changed
        .iter()
        .take(SHOWN)
        .map(|change| change.path.to_string())
        .collect();
    let counts = Counts::of(changed).shown();
    format!(
        "{counts}: {}{}",
        names.join(", "),
        more(changed.len().saturating_sub(names.len()))
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

fn more(count: usize) -> String {
    if count == 0 {
        String::new()
    } else {
        format!(" and {count} more")
    }
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
