//! Plan: what would land, as plain data. Nothing is copied and nothing is touched.

use std::collections::{BTreeSet, HashMap};
use std::io;

use aegis_policies::journal::{Baseline, NodeKind};
use aegis_policies::label::Labels;
use aegis_policies::{Actor, Effect, Gate, Kind, RelPath, Reversibility, Scope};

use super::beneath::hash;
use super::error::CommitError;
use super::git;
use super::item::{Action, Item};
use super::past::Past;
use super::reason::Reason;
use super::rules;
use super::site::Site;
use super::state::{Digest, State};
use crate::overlay::changes::{Change, Content};
use crate::overlay::{Relocations, noted_base};

/// What the agent changed, item by item, sorted by path, with what may not land marked.
#[derive(Debug)]
pub struct Plan {
    items: Vec<Item>,
}

impl Plan {
    /// Makes a plan of the `changes` that lie at or below a path of `select`; of all when it is
    /// empty. The directories that a selected name needs come with it.
    ///
    /// # Errors
    /// [`CommitError`] when the records of earlier landings can not be read.
    pub fn new(
        site: &Site<'_>,
        changes: Vec<Change>,
        select: &[RelPath],
        labels: &dyn Fn(&RelPath) -> Labels,
    ) -> Result<Self, CommitError> {
        let past = Past::read(site.session())?;
        let relocations = past.relocations();
        let mut items = Vec::new();
        for change in narrow(changes, select) {
            let item = read(site, (&past, &relocations), change, labels);
            if item.refusal.is_some() || item.base != item.agent {
                items.push(item);
            }
        }
        items.sort_by(|one, other| one.path.cmp(&other.path));
        follow_moved_files(&mut items);
        rules::apply(site, &mut items);
        Ok(Self { items })
    }

    /// The items.
    #[must_use]
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Asks the gate about every item: what it forbids is refused, what it permits needs no yes
    /// from a person.
    pub fn judge(&mut self, gate: &Gate, actor: &Actor) {
        for item in self.items.iter_mut().filter(|item| item.refusal.is_none()) {
            match gate.judge(actor, effect(item)) {
                Ok(permit) => item.permit = Some(permit),
                Err(refusal) if refusal.askable => {}
                Err(refusal) => item.refuse(Reason::Policy(refusal.reason)),
            }
        }
        super::shapes::refuse_orphans(&mut self.items);
    }

    /// Leaves out what a person does not want to land.
    pub fn decline(&mut self, declined: &dyn Fn(&Item) -> bool) {
        for item in self.items.iter_mut().filter(|item| declined(item)) {
            item.refuse(Reason::Declined);
        }
        super::shapes::refuse_orphans(&mut self.items);
    }

    pub(crate) fn into_items(self) -> Vec<Item> {
        self.items
    }
}

/// A file that the agent only moved still has the host's content, whatever that is by now: taking
/// its old name away loses nothing.
fn follow_moved_files(items: &mut [Item]) {
    let followed: HashMap<RelPath, Digest> = items
        .iter()
        .filter_map(|item| match (&item.content, &item.moved_from) {
            (Some(Content::Host(at)), Some(from)) if at == from => {
                Some((from.clone(), item.agent.sha256()?))
            }
            _ => None,
        })
        .collect();
    for item in items.iter_mut().filter(|item| item.agent == State::Absent) {
        if let (Some(sha256), State::File { mode, .. }) = (followed.get(&item.path), &item.base) {
            item.base = State::File {
                sha256: *sha256,
                mode: *mode,
            };
        }
    }
}

fn effect(item: &Item) -> Effect {
    let kind = if item.is_sensitive() {
        Kind::WorkspaceCommitSensitive
    } else {
        Kind::WorkspaceCommit
    };
    let scope = Scope::Project {
        path: item.path.clone(),
        labels: item.labels,
    };
    Effect {
        kind,
        scope,
        reversibility: Reversibility::Compensable,
    }
}

/// Keeps what is selected, the new directories above it, and the old name of what was moved.
fn narrow(changes: Vec<Change>, select: &[RelPath]) -> Vec<Change> {
    if select.is_empty() {
        return changes;
    }
    let chosen = |path: &RelPath| select.iter().any(|selected| path.starts_with(selected));
    let above = |path: &RelPath| select.iter().any(|selected| selected.starts_with(path));
    let left: BTreeSet<RelPath> = changes
        .iter()
        .filter(|change| chosen(&change.path))
        .filter_map(|change| change.moved_from.clone())
        .collect();
    let is_directory = |change: &Change| {
        change
            .after
            .as_ref()
            .is_some_and(|after| after.kind == NodeKind::Directory)
    };
    changes
        .into_iter()
        .filter(|change| {
            chosen(&change.path)
                || (above(&change.path) && is_directory(change))
                || (left.contains(&change.path) && change.after.is_none())
        })
        .collect()
}

fn read(
    site: &Site<'_>,
    (past, relocations): (&Past, &Relocations),
    mut change: Change,
    labels: &dyn Fn(&RelPath) -> Labels,
) -> Item {
    if let Some(Content::Host(from)) = change
        .after
        .as_mut()
        .and_then(|after| after.content.as_mut())
    {
        *from = relocations.locate(from).into_owned();
    }
    let mut base = match past.landed(&change.path) {
        Some(state) => state.clone(),
        None => started_from(site, past, &change),
    };
    let (agent, refusal) = match agent_side(site, &change) {
        Ok(state) => (state, None),
        Err(error) => (State::Other, Some(Reason::unreadable(error))),
    };
    follow_host(&change, &mut base, &agent);
    let (content, node) = change
        .after
        .map_or((None, 0), |after| (after.content, after.node));
    let moved_from = change.moved_from.filter(|from| *from != change.path);
    Item {
        action: Action::between(&base, &agent, moved_from.is_some()),
        base,
        agent,
        content,
        node,
        moved_from,
        labels: labels(&change.path),
        group: git::group(&change.path),
        refusal,
        permit: None,
        path: change.path,
    }
}

/// Content that is the host's own under this very name changes when the host changes it, and that is
/// nothing that the agent did.
fn follow_host(change: &Change, base: &mut State, agent: &State) {
    let content = change
        .after
        .as_ref()
        .and_then(|after| after.content.as_ref());
    let (Some(Content::Host(at)), Some(sha256)) = (content, agent.sha256()) else {
        return;
    };
    if *at == change.path {
        *base = match base.mode() {
            Some(mode) => State::File { sha256, mode },
            None => agent.clone(),
        };
    }
}

fn agent_side(site: &Site<'_>, change: &Change) -> io::Result<State> {
    let Some(after) = &change.after else {
        return Ok(State::Absent);
    };
    let sha256 = match &after.content {
        Some(content) if rules::is_file(&after.kind) => hash_content(site, content)?,
        _ => UNKNOWN,
    };
    Ok(State::new(&after.kind, after.mode, sha256))
}

fn hash_content(site: &Site<'_>, content: &Content) -> io::Result<Digest> {
    hash(std::fs::File::from(site.open_content(content)?))
}

/// What the host had when the agent first touched the name. Where the content was not read then
/// and the file is still the very same one, it is read now.
fn started_from(site: &Site<'_>, past: &Past, change: &Change) -> State {
    let Some(baseline) = &change.before else {
        return State::Absent;
    };
    let state = |sha256| State::new(&baseline.kind, baseline.mode, sha256);
    let noted = || noted_base(site.session(), baseline);
    if let Some(sha256) = baseline.sha256.or_else(noted) {
        return state(Digest::new(sha256));
    }
    if !rules::is_file(&baseline.kind) {
        return state(UNKNOWN);
    }
    if let Some(seen) = past.seen(&change.path) {
        return seen.clone();
    }
    // A failure to look leaves the content unknown; the freeze, which looks again, says why.
    if let Ok(now) = site.tree().observe(&change.path)
        && now
            .stat
            .as_ref()
            .is_some_and(|stat| is_same_file(baseline, stat))
    {
        return state(now.state.sha256().unwrap_or(UNKNOWN));
    }
    state(UNKNOWN)
}

/// ctime can not be set back, so an equal one means that nothing was written.
fn is_same_file(baseline: &Baseline, stat: &rustix::fs::Stat) -> bool {
    let nanoseconds = |seconds: i64, rest: u64| {
        i64::try_from(rest)
            .ok()
            .and_then(|rest| seconds.checked_mul(1_000_000_000)?.checked_add(rest))
    };
    baseline.ino == stat.st_ino
        && u64::try_from(stat.st_size) == Ok(baseline.size)
        && nanoseconds(stat.st_mtime, stat.st_mtime_nsec) == Some(baseline.mtime)
        && nanoseconds(stat.st_ctime, stat.st_ctime_nsec) == Some(baseline.ctime)
}

/// The hash of content that nobody read: no file has it.
const UNKNOWN: Digest = Digest::new([0; 32]);
