//! Plan: what would land, as plain data. Nothing is copied and nothing is touched.

use std::collections::{BTreeSet, HashMap};

use aegis_policies::journal::{Baseline, NodeKind};
use aegis_policies::label::Labels;
use aegis_policies::{Actor, Effect, Gate, Kind, RelPath, Reversibility, Scope};

use super::beneath::hash;
use super::error::CommitError;
use super::git;
use super::item::{Action, Group, Item};
use super::moves::Moves;
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
    moves: Moves,
}

impl Plan {
    /// Makes a plan of the `changes` that lie at or below a path of `select`; of all when it is
    /// empty. The directories that a selected name needs come with it, and so does the old name of
    /// what was moved there. An old name alone is left: what it held would be lost.
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
        let mut moves = moves(&changes, &relocations);
        let (chosen, rest) = narrow(changes, select);
        let landed = |change: &Change| past.landed(&change.path).is_some();
        let rest = rest.into_iter().filter(landed);
        let rest: Vec<_> = rest.filter(|change| change.moved_from.is_some()).collect();
        let mut items = Vec::new();
        for (change, is_chosen) in with(chosen, true).chain(with(rest, false)) {
            let item = read(site, &past, change, labels);
            if item.refusal.is_none() && item.base == item.agent {
                moves.arrive(item.path);
            } else if is_chosen {
                items.push(item);
            }
        }
        items.sort_by(|one, other| one.path.cmp(&other.path));
        follow_moved_files(&mut items);
        rules::apply(site, &mut items, labels);
        let mut plan = Self { items, moves };
        plan.settle();
        Ok(plan)
    }

    /// The items.
    #[must_use]
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Asks the gate about every item: what it forbids is refused, and what it leaves to a person
    /// gets a question of its own.
    pub fn judge(&mut self, gate: &Gate, actor: &Actor) {
        for item in self.items.iter_mut().filter(|item| item.refusal.is_none()) {
            match gate.judge(actor, effect(item)) {
                Ok(_) => {}
                Err(refusal) if refusal.askable => item.question = Some(refusal.reason),
                Err(refusal) => item.refuse(Reason::Policy(refusal.reason)),
            }
        }
        self.settle();
    }

    /// Leaves out what a person does not want to land.
    pub fn decline(&mut self, declined: &dyn Fn(&Item) -> bool) {
        for item in self.items.iter_mut().filter(|item| declined(item)) {
            item.refuse(Reason::Declined);
        }
        self.settle();
    }

    pub(crate) fn into_parts(self) -> (Vec<Item>, Moves) {
        (self.items, self.moves)
    }

    /// Refuses what hangs on something that is refused.
    fn settle(&mut self) {
        super::shapes::refuse_orphans(&mut self.items);
        let lands = self.items.iter().filter(|item| item.refusal.is_none());
        let arriving: BTreeSet<RelPath> = lands
            .filter(|item| item.agent != State::Absent)
            .map(|item| item.path.clone())
            .collect();
        let going = self.items.iter_mut().filter(|item| item.takes_away());
        for item in going.filter(|item| item.group == Group::Files) {
            if let Some(to) = self
                .moves
                .stranded(&item.path, &|path| arriving.contains(path))
            {
                item.refuse(Reason::MovedAway(to.to_string()));
            }
        }
    }
}

fn with(changes: Vec<Change>, mark: bool) -> impl Iterator<Item = (Change, bool)> {
    changes.into_iter().map(move |change| (change, mark))
}

/// What was moved where, by the name that it had at first and by the one that the host has for it
/// since an earlier landing.
fn moves(changes: &[Change], relocations: &Relocations) -> Moves {
    let mut moves = Moves::default();
    for change in changes.iter().filter(|change| change.after.is_some()) {
        if let Some(from) = change.moved_from.as_ref() {
            let now = relocations.locate(from).into_owned();
            for from in [from.clone(), now] {
                if from != change.path {
                    moves.note(from, change.path.clone());
                }
            }
        }
    }
    moves
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

/// What is selected, the new directories above it, and the old name of what was moved; and the
/// rest.
fn narrow(changes: Vec<Change>, select: &[RelPath]) -> (Vec<Change>, Vec<Change>) {
    if select.is_empty() {
        return (changes, Vec::new());
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
    changes.into_iter().partition(|change| {
        chosen(&change.path)
            || (above(&change.path) && is_directory(change))
            || (left.contains(&change.path) && change.after.is_none())
    })
}

fn read(site: &Site<'_>, past: &Past, change: Change, labels: &dyn Fn(&RelPath) -> Labels) -> Item {
    let mut base = match past.landed(&change.path) {
        Some(state) => state.clone(),
        None => started_from(site, past, &change),
    };
    let (agent, refusal) = match agent_side(site, &change) {
        Ok(state) => (state, None),
        Err(reason) => (State::Other, Some(reason)),
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
        question: None,
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

fn agent_side(site: &Site<'_>, change: &Change) -> Result<State, Reason> {
    let Some(after) = &change.after else {
        return Ok(State::Absent);
    };
    let sha256 = match &after.content {
        Some(content) if rules::is_file(&after.kind) => hash_content(site, content)?,
        _ => UNKNOWN,
    };
    Ok(State::new(&after.kind, after.mode, sha256))
}

fn hash_content(site: &Site<'_>, content: &Content) -> Result<Digest, Reason> {
    let mut file = site.open_content(content).map_err(Reason::unreadable)?;
    if let Some(size) = excessive(file.size()?, file.held()?) {
        return Err(Reason::TooLarge(size));
    }
    let sha256 = hash(&mut file);
    sha256.map_err(|error| Reason::of_content(&file, error))
}

/// The size of a file that would take too long to read. Making a file of holes costs the agent
/// nothing, reading it costs as much as reading data.
fn excessive(size: u64, held: u64) -> Option<u64> {
    let is_hollow = size > HOLLOW && held < size / 16;
    (size > LARGEST || is_hollow).then_some(size)
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

/// The largest file that lands, in bytes.
const LARGEST: u64 = 64 << 30;
/// The largest file that lands when most of it is holes, in bytes.
const HOLLOW: u64 = 1 << 30;

/// The hash of content that nobody read: no file has it.
pub(super) const UNKNOWN: Digest = Digest::new([0; 32]);
