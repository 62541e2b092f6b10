//! Taking a landing back: each name gets what it held before, unless the host has changed it since.

use std::collections::BTreeSet;

use aegis_policies::RelPath;
use aegis_policies::journal::Journal;

use super::error::CommitError;
use super::git;
use super::item::{Action, Group};
use super::land::{Done, Landed, Outcome, Undo};
use super::landing::{self, COMMITTED, Committed, Hook, INTENT, Intent, Landing, Purpose, Settled};
use super::lock::ProjectLock;
use super::reason::Reason;
use super::site::Site;
use super::state::{Digest, State};
use super::transaction::{Act, Fate, Floor, Source, Step, Transaction, arrange};

/// A landing that can be taken back.
#[derive(Debug)]
pub struct Reversal {
    id: String,
    manifest: Digest,
    steps: Vec<Step>,
    settled: Vec<Settled>,
}

impl Reversal {
    /// The last landing of the session, or the one named `id`, as far as it is still in force.
    /// Objects of the repository stay: commits that the host has made since may need them.
    ///
    /// # Errors
    /// [`CommitError::NothingToUndo`] when there is none.
    pub fn find(site: &Site<'_>, id: Option<&str>) -> Result<Self, CommitError> {
        let mut undone: BTreeSet<(String, RelPath)> = BTreeSet::new();
        let mut ids = landing::identifiers(site.session())?;
        while let Some(candidate) = ids.pop() {
            let landing = Landing::open(site.session(), &candidate)?;
            let intent: Option<Intent> = landing.read(INTENT)?;
            let committed: Option<Committed> = landing.read(COMMITTED)?;
            let (Some(intent), Some(committed)) = (intent, committed) else {
                continue;
            };
            if let Purpose::Undo(of) = &intent.purpose {
                undone.extend(
                    committed
                        .settled
                        .into_iter()
                        .map(|one| (of.clone(), one.path)),
                );
                continue;
            }
            if id.is_some_and(|id| id != candidate) {
                continue;
            }
            let reversal = Self::of(site, &candidate, intent, committed, &undone);
            if !reversal.steps.is_empty() {
                return Ok(reversal);
            }
        }
        Err(CommitError::NothingToUndo)
    }

    /// The landing's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The names that change.
    #[must_use]
    pub fn paths(&self) -> Vec<&RelPath> {
        self.settled.iter().map(|settled| &settled.path).collect()
    }

    /// Takes the landing back.
    ///
    /// # Errors
    /// [`CommitError`] when nothing could be taken back.
    pub fn apply(self, site: &Site<'_>, journal: Option<&Journal>) -> Result<Landed, CommitError> {
        self.apply_with(site, journal, &|_| {})
    }

    pub(crate) fn apply_with(
        self,
        site: &Site<'_>,
        journal: Option<&Journal>,
        hook: Hook<'_>,
    ) -> Result<Landed, CommitError> {
        let (lock, _) = ProjectLock::acquire(site, &self.paths(), hook)?;
        site.bring_up(&self.paths())?;
        let landing = Landing::create(site.session())?;
        let floor = Floor {
            site: *site,
            landing: &landing,
            hook,
        };
        let ended = Transaction::new(floor, self.steps.clone()).run(
            Purpose::Undo(self.id.clone()),
            self.manifest,
            &|fates| {
                self.undone(fates)
                    .into_iter()
                    .filter_map(Result::ok)
                    .collect()
            },
        )?;
        let mut landed = Landed {
            id: landing.id().to_owned(),
            results: self.undone(&ended.fates).into_iter().map(outcome).collect(),
            unfinished: Vec::new(),
        };
        landed.note(journal, self.manifest, Undo::Yes);
        landed.release(lock, ended.unfinished);
        Ok(landed)
    }

    fn of(
        site: &Site<'_>,
        id: &str,
        intent: Intent,
        committed: Committed,
        undone: &BTreeSet<(String, RelPath)>,
    ) -> Self {
        let settled: Vec<Settled> = committed
            .settled
            .into_iter()
            .filter(|settled| settled.item.is_some())
            .filter(|settled| git::group(&settled.path) != Group::Objects)
            .filter(|settled| !undone.contains(&(id.to_owned(), settled.path.clone())))
            .collect();
        let items: BTreeSet<usize> = settled.iter().filter_map(|settled| settled.item).collect();
        let mut steps: Vec<Step> = intent
            .steps
            .iter()
            .enumerate()
            .zip(committed.done)
            .filter(|((_, step), done)| *done && items.contains(&step.item))
            .map(|((index, step), _)| reverse(id, index, step))
            .collect();
        for step in steps
            .iter_mut()
            .filter(|step| step.path.as_bytes() == b".git/index")
        {
            accept_refreshed_index(site, id, step);
        }
        seal(&mut steps);
        arrange(&mut steps);
        Self {
            id: id.to_owned(),
            manifest: intent.manifest,
            steps,
            settled,
        }
    }

    /// By name, whether it was taken back.
    fn undone(&self, fates: &[Fate]) -> Vec<Result<Settled, (RelPath, Reason)>> {
        let left = |item: usize| {
            self.steps
                .iter()
                .zip(fates)
                .find_map(|(step, fate)| match fate {
                    Fate::Left(reason) if step.item == item && step.act != Act::Chmod => {
                        Some(reason)
                    }
                    Fate::Left(reason) if step.item == item && !step.old.is_directory() => {
                        Some(reason)
                    }
                    _ => None,
                })
        };
        let verdict = |settled: &Settled| match settled.item.and_then(left) {
            Some(reason) => Err((settled.path.clone(), reason.clone())),
            None => Ok(settled.clone()),
        };
        self.settled.iter().map(verdict).collect()
    }
}

fn outcome(undone: Result<Settled, (RelPath, Reason)>) -> Outcome {
    match undone {
        Ok(settled) => {
            let action = Action::between(&settled.agent, &settled.base, false);
            Outcome {
                path: settled.path,
                action,
                result: Ok(Done::Landed),
            }
        }
        Err((path, reason)) => Outcome {
            path,
            action: Action::Modify,
            result: Err(reason),
        },
    }
}

/// The step that takes `step` of the landing `id` back.
fn reverse(id: &str, index: usize, step: &Step) -> Step {
    let mut back = Step {
        old: step.new.clone(),
        new: step.old.clone(),
        source: Source::Displaced {
            landing: id.to_owned(),
            step: index,
        },
        link_of: None,
        carried_by: Vec::new(),
        ..step.clone()
    };
    back.act = match &step.act {
        Act::Clear => Act::Fill,
        Act::Fill => Act::Clear,
        Act::MakeDirectory => Act::RemoveDirectory,
        Act::RemoveDirectory => Act::MakeDirectory,
        Act::Create => Act::Remove,
        Act::Remove => Act::Create,
        Act::Replace => Act::Replace,
        Act::Chmod => Act::Chmod,
        Act::Move { from } => {
            back.path = from.clone();
            back.new = step.new.clone();
            back.old = State::Absent;
            Act::Move {
                from: step.path.clone(),
            }
        }
    };
    let parent = back.path.split_last().map(|(parent, _)| parent);
    back.shelter = parent.unwrap_or_else(RelPath::root);
    back
}

/// A directory that comes back is open to its owner until everything in it is there; one that goes
/// needs no permission bits restored, unless they are in the way.
fn seal(steps: &mut Vec<Step>) {
    let going: BTreeSet<RelPath> = paths(steps, &Act::RemoveDirectory);
    steps.retain(|step| {
        let in_the_way = step.old.is_directory() && !step.old.lets_owner_in();
        step.act != Act::Chmod || !going.contains(&step.path) || in_the_way
    });
    let mut seals = Vec::new();
    for step in steps
        .iter_mut()
        .filter(|step| step.act == Act::MakeDirectory)
    {
        if let State::Directory { mode } = step.new
            && mode & 0o700 != 0o700
        {
            let open = State::Directory { mode: mode | 0o700 };
            let sealed = std::mem::replace(&mut step.new, open.clone());
            seals.push(Step::new(
                step.item,
                step.path.clone(),
                Act::Chmod,
                open,
                sealed,
            ));
        }
    }
    steps.append(&mut seals);
}

fn paths(steps: &[Step], act: &Act) -> BTreeSet<RelPath> {
    steps
        .iter()
        .filter(|step| step.act == *act)
        .map(|step| step.path.clone())
        .collect()
}

/// git on the host writes the index anew whenever it looks at the tree; as long as it says the same
/// it is still what was landed.
fn accept_refreshed_index(site: &Site<'_>, id: &str, step: &mut Step) {
    use std::os::fd::AsRawFd as _;
    let landed = site.session().landings().join(id).join("index");
    let Ok(now) = site.tree().observe(&step.path) else {
        return;
    };
    let Ok(file) = site.tree().file(&step.path) else {
        return;
    };
    let host = std::path::PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    if now.state != step.old && git::same_entries(&landed, &host) {
        step.old = now.state;
    }
}
