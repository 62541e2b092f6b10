//! Landed: the approved changes are in the project, and the record says how to take them back.

use std::collections::{BTreeMap, BTreeSet};

use aegis_policies::RelPath;
use aegis_policies::journal::{Event, Journal, VerdictId};

use super::approve::Approved;
use super::error::CommitError;
use super::frozen::{Entry, Frozen};
use super::item::Action;
use super::landing::{Hook, Landing, Purpose, Settled};
use super::lock::ProjectLock;
use super::reason::Reason;
use super::site::Site;
use super::state::{Digest, State};
use super::transaction::{Act, Fate, Floor, Step, Transaction, arrange};
use crate::merge::Tier;

/// What a landing, or the reversal of one, did.
#[derive(Debug)]
pub struct Landed {
    /// Its id.
    pub id: String,
    /// By name, what became of it.
    pub results: Vec<Outcome>,
    /// What could not be done after the names had changed, in words.
    pub unfinished: Vec<String>,
}

/// What became of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The name.
    pub path: RelPath,
    /// What was to be done.
    pub action: Action,
    /// What happened.
    pub result: Result<Done, Reason>,
}

/// How a name came to hold what it was to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// As the agent left it.
    Landed,
    /// Merged with what the host had.
    Merged,
    /// The host had it already.
    Already,
}

impl Landed {
    /// How many names changed in the project.
    #[must_use]
    pub fn changed(&self) -> usize {
        let changed =
            |outcome: &&Outcome| matches!(outcome.result, Ok(Done::Landed | Done::Merged));
        self.results.iter().filter(changed).count()
    }

    /// The names that were left alone.
    pub fn left(&self) -> impl Iterator<Item = (&Outcome, &Reason)> {
        self.results
            .iter()
            .filter_map(|outcome| Some((outcome, outcome.result.as_ref().err()?)))
    }
}

impl Approved {
    /// Brings the changes into the project. Afterwards the project holds all of them that nothing
    /// on the host stood against, or, when this fails, none.
    ///
    /// # Errors
    /// [`CommitError`] when nothing could be landed.
    pub fn land(self, site: &Site<'_>, journal: Option<&Journal>) -> Result<Landed, CommitError> {
        self.land_with(site, journal, &|_| {})
    }

    pub(crate) fn land_with(
        self,
        site: &Site<'_>,
        journal: Option<&Journal>,
        hook: Hook<'_>,
    ) -> Result<Landed, CommitError> {
        let frozen = self.into_frozen();
        let paths: Vec<&RelPath> = frozen.entries.iter().map(|entry| &entry.path).collect();
        let (lock, _) = ProjectLock::acquire(site, &paths, hook)?;
        still_in_shape(&frozen, site)?;
        site.bring_up(&paths)?;
        let landing = Landing::create(site.session())?;
        let steps = steps(&frozen);
        let floor = Floor {
            site: *site,
            landing: &landing,
            hook,
        };
        let ended = Transaction::new(floor, steps.clone()).run(
            Purpose::Land,
            frozen.manifest,
            &|fates| settled(&frozen, &steps, fates),
        )?;
        let mut landed = report(&frozen, landing.id(), &steps, &ended.fates);
        landed.conclude(keep_bases(&frozen, landing.id(), site));
        landed.note(journal, frozen.manifest, Undo::No);
        landed.release(lock, ended.unfinished);
        Ok(landed)
    }
}

impl Landed {
    fn conclude(&mut self, outcome: Result<(), CommitError>) {
        self.unfinished
            .extend(outcome.err().map(|error| error.to_string()));
    }

    /// Notes the landing in the session's journal.
    pub(crate) fn note(&mut self, journal: Option<&Journal>, manifest: Digest, undo: Undo) {
        let event = Event::Landed {
            landing: self.id.clone(),
            manifest: manifest.to_string(),
            paths: self.changed() as u64,
            undo: undo == Undo::Yes,
        };
        if let Some(journal) = journal {
            let noted = journal.append(0, VerdictId::default(), event);
            self.conclude(noted.and_then(|_| journal.sync()).map_err(Into::into));
        }
    }

    /// Gives the project free; while displaced files wait to be put away, the lock remembers whose.
    pub(crate) fn release(&mut self, lock: ProjectLock, unfinished: Option<CommitError>) {
        match unfinished {
            Some(error) => self.conclude(Err(error)),
            None => lock.release(),
        }
    }
}

/// Whether a landing reverses an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undo {
    Yes,
    No,
}

/// Another session may have landed since the review: what is harmless by itself may not be beside
/// what the project holds now.
fn still_in_shape(frozen: &Frozen, site: &Site<'_>) -> Result<(), CommitError> {
    let refused = super::shapes::judge(site.tree(), &frozen.entries);
    let Some((number, reason)) = refused.into_iter().next() else {
        return Ok(());
    };
    let entry = frozen.entries.get(number);
    let name = entry.map_or_else(String::new, |entry| entry.path.to_string());
    Err(CommitError::Outdated { name, reason })
}

fn steps(frozen: &Frozen) -> Vec<Step> {
    let entries = &frozen.entries;
    let sources: BTreeMap<usize, &RelPath> = entries
        .iter()
        .filter_map(|entry| Some((entry.moved_to?, &entry.path)))
        .collect();
    let mut steps = Vec::new();
    for (item, entry) in entries.iter().enumerate() {
        if entry.moved_to.is_some() {
            continue;
        }
        if let Some(from) = sources.get(&item) {
            let act = Act::Move {
                from: (*from).clone(),
            };
            let (old, new) = (entry.old.clone(), entry.new.clone());
            steps.push(Step::new(item, entry.path.clone(), act, old, new));
        } else {
            steps.extend(Step::between(item, &entry.path, &entry.old, &entry.new));
        }
    }
    carry(&mut steps, frozen);
    arrange(&mut steps);
    join_links(&mut steps, entries);
    steps
}

/// Notes for each removal where what it takes away is to land.
fn carry(steps: &mut [Step], frozen: &Frozen) {
    let numbers: BTreeMap<&RelPath, usize> = frozen
        .entries
        .iter()
        .enumerate()
        .map(|(number, entry)| (&entry.path, number))
        .collect();
    let there: BTreeSet<&RelPath> = frozen.same.iter().map(|entry| &entry.path).collect();
    for step in steps {
        let goes = matches!(step.act, Act::Remove | Act::Clear);
        let is_there = |path: &RelPath| there.contains(path);
        if goes && frozen.moves.stranded(&step.path, &is_there).is_some() {
            let names = frozen.moves.names(&step.path).iter();
            step.carried_by = names
                .filter_map(|name| numbers.get(name).copied())
                .collect();
        }
    }
}

/// Two names of one file of the shadow become two names of one file.
fn join_links(steps: &mut [Step], entries: &[Entry]) {
    let mut first: BTreeMap<u64, (usize, State)> = BTreeMap::new();
    for (index, step) in steps.iter_mut().enumerate() {
        let Some(entry) = entries.get(step.item).filter(|_| step.has_temporary()) else {
            continue;
        };
        if !matches!(step.new, State::File { .. }) || entry.tier == Some(Tier::Lines) {
            continue;
        }
        match first.get(&entry.node) {
            Some((index, state)) if *state == step.new => step.link_of = Some(*index),
            Some(_) => {}
            None => {
                first.insert(entry.node, (index, step.new.clone()));
            }
        }
    }
}

/// By entry, the reason why it was left alone, if it was.
fn verdicts(entries: &[Entry], steps: &[Step], fates: &[Fate]) -> Vec<Option<Reason>> {
    let mut verdicts: Vec<Option<Reason>> = vec![None; entries.len()];
    for (step, fate) in steps.iter().zip(fates) {
        let is_seal = step.act == Act::Chmod && !entries.get(step.item).is_some_and(is_chmod);
        if let (Fate::Left(reason), Some(slot), false) =
            (fate, verdicts.get_mut(step.item), is_seal)
        {
            slot.get_or_insert_with(|| reason.clone());
        }
    }
    for (index, entry) in entries.iter().enumerate() {
        let reason = entry
            .moved_to
            .and_then(|to| verdicts.get(to).cloned().flatten());
        if let (Some(reason), Some(slot)) = (reason, verdicts.get_mut(index)) {
            *slot = Some(reason);
        }
    }
    verdicts
}

fn is_chmod(entry: &Entry) -> bool {
    entry.old.noun() == entry.new.noun()
}

fn settled(frozen: &Frozen, steps: &[Step], fates: &[Fate]) -> Vec<Settled> {
    let verdicts = verdicts(&frozen.entries, steps, fates);
    let landed = frozen.entries.iter().zip(verdicts).enumerate();
    let mut settled: Vec<Settled> = landed
        .filter(|(_, (_, verdict))| verdict.is_none())
        .map(|(index, (entry, _))| of(entry, Some(entry.moved_to.unwrap_or(index))))
        .collect();
    settled.extend(frozen.same.iter().map(|entry| of(entry, None)));
    settled
}

fn of(entry: &Entry, item: Option<usize>) -> Settled {
    Settled {
        path: entry.path.clone(),
        base: entry.base.clone(),
        agent: entry.agent.clone(),
        item,
        tier: entry.tier,
        moved_from: entry.moved_from.clone(),
    }
}

fn report(frozen: &Frozen, id: &str, steps: &[Step], fates: &[Fate]) -> Landed {
    let verdicts = verdicts(&frozen.entries, steps, fates);
    let mut results: Vec<Outcome> = frozen
        .entries
        .iter()
        .zip(verdicts)
        .map(|(entry, verdict)| Outcome {
            path: entry.path.clone(),
            action: entry.action,
            result: match (verdict, entry.tier) {
                (Some(reason), _) => Err(reason),
                (None, Some(Tier::Lines)) => Ok(Done::Merged),
                (None, _) => Ok(Done::Landed),
            },
        })
        .collect();
    let outcome = |path: &RelPath, action, result| Outcome {
        path: path.clone(),
        action,
        result,
    };
    results.extend(
        frozen
            .same
            .iter()
            .map(|entry| outcome(&entry.path, entry.action, Ok(Done::Already))),
    );
    results.extend(
        frozen
            .left
            .iter()
            .map(|left| outcome(&left.path, left.action, Err(left.reason.clone()))),
    );
    results.sort_by(|one, other| one.path.cmp(&other.path));
    Landed {
        id: id.to_owned(),
        results,
        unfinished: Vec::new(),
    }
}

/// Keeps what the agent left, as the base of the next merge, and the index that landed, so that
/// undo knows it when git on the host has refreshed it; then empties the stage.
fn keep_bases(frozen: &Frozen, id: &str, site: &Site<'_>) -> Result<(), CommitError> {
    use super::error::Doing as _;
    for entry in &frozen.entries {
        if entry.path.as_bytes() == b".git/index"
            && let Some(sha256) = entry.new.sha256()
        {
            let to = site.session().landings().join(id).join("index");
            let bytes = std::fs::read(frozen.stage.path(sha256)).doing("read", &entry.path)?;
            std::fs::write(&to, bytes).doing("write", &to.display())?;
        }
        if let Some(sha256) = entry.agent.sha256() {
            frozen
                .stage
                .keep_as_base(sha256)
                .doing("keep the base of", &entry.path)?;
        }
    }
    frozen.stage.clear()
}
