//! Carrying a list of steps out so that a crash at any point leaves the host's tree as it was
//! before or as it is after, and no version of a file that the host wrote is ever lost.
//!
//! 1. the intent is on the disk before anything changes
//! 2. directories let their owner in, and every name is compared with what the step expects
//! 3. directories are made, and new files under temporary names, hashed while they are copied
//! 4. the inodes of those are on the disk before the first of them is published
//! 5. publishing exchanges names; what comes out is compared with what was expected, and exchanged
//!    back when it is something else
//! 6. the directories are forced to the disk, then get the permission bits that they are to have in
//!    the end, the deepest first, and then the commit record is written
//! 7. what was displaced moves into the landing's directory, where `undo` finds it
//!
//! [`recover`] decides every step by what it finds, and may itself be interrupted.

mod floor;
mod prepare;
mod publish;
mod recover;
mod retire;
mod revert;
mod step;

pub(crate) use floor::Floor;
pub use recover::Recovered;
pub(crate) use recover::{interrupted, recover};
pub(crate) use step::{Act, Source, Step, arrange};

use std::collections::{BTreeMap, BTreeSet};

use aegis_policies::RelPath;
use rustix::io::Errno;

use super::error::{CommitError, Doing as _};
use super::item::Group;
use super::landing::{
    COMMITTED, Committed, DONE, INTENT, Intent, PREPARED, Prepared, Purpose, Settled,
};
use super::reason::Reason;
use super::state::Digest;
use step::Phase;

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Not yet.
    Pending,
    /// Done.
    Done,
    /// The host had it already.
    Already,
    /// Left alone.
    Left(Reason),
}

/// What keeps one step, or all of them, from going on.
#[derive(Debug)]
pub(crate) enum Stop {
    /// This step is left alone.
    Step(Reason),
    /// Nothing can go on.
    All(CommitError),
}

/// How a landing ended that has happened.
#[derive(Debug)]
pub(crate) struct Ended {
    /// By step, how it ended.
    pub(crate) fates: Vec<Fate>,
    /// Why what was displaced could not be put away yet.
    pub(crate) unfinished: Option<CommitError>,
}

/// A landing under way.
pub(crate) struct Transaction<'a> {
    floor: Floor<'a>,
    steps: Vec<Step>,
    fates: Vec<Fate>,
    prepared: Prepared,
}

impl<'a> Transaction<'a> {
    /// A landing of `steps`, which are in order already.
    pub(crate) fn new(floor: Floor<'a>, steps: Vec<Step>) -> Self {
        let fates = vec![Fate::Pending; steps.len()];
        let prepared = Prepared {
            inodes: vec![None; steps.len()],
            made: vec![false; steps.len()],
        };
        Self {
            floor,
            steps,
            fates,
            prepared,
        }
    }

    /// Carries the steps out. `settle` says, from how each step ended, what the record is to keep.
    pub(crate) fn run(
        mut self,
        purpose: Purpose,
        manifest: Digest,
        settle: &dyn Fn(&[Fate]) -> Vec<Settled>,
    ) -> Result<Ended, CommitError> {
        let intent = Intent {
            purpose,
            manifest,
            steps: self.steps.clone(),
        };
        self.floor.landing.write(INTENT, &intent, self.floor.hook)?;
        if let Err(error) = self.act() {
            return Err(self.give_back(error));
        }
        let unfinished = match self.commit(settle) {
            // The landing has happened. What can not be put away now is put away by the next
            // recovery.
            Ok(committed) => self.floor.finish(&self.steps, &committed).err(),
            Err(error) if self.floor.landing.has(COMMITTED) => Some(error),
            Err(error) => return Err(self.give_back(error)),
        };
        Ok(Ended {
            fates: self.fates,
            unfinished,
        })
    }

    /// Takes everything back; says why, and whether something of it is left.
    fn give_back(&self, error: CommitError) -> CommitError {
        if let Err(left) = self.revert_all() {
            return CommitError::HalfBack {
                cause: Box::new(error),
                left: Box::new(left),
            };
        }
        // Without this record the next landing takes back what has been taken back already.
        self.floor.landing.write(DONE, &(), self.floor.hook).ok();
        error
    }

    fn commit(&self, settle: &dyn Fn(&[Fate]) -> Vec<Settled>) -> Result<Committed, CommitError> {
        let done = self.fates.iter().map(|fate| *fate == Fate::Done).collect();
        let settled = settle(&self.fates);
        let committed = Committed { done, settled };
        let landing = self.floor.landing;
        landing
            .write(COMMITTED, &committed, self.floor.hook)
            .or_else(|error| landing.erase(COMMITTED).and(Err(error)))?;
        Ok(committed)
    }

    fn act(&mut self) -> Result<(), CommitError> {
        self.each(Phase::Open..=Phase::Open, Self::publish)?;
        self.check()?;
        self.hold_moved();
        self.each(Phase::Clear..=Phase::Directories, Self::publish)?;
        self.prepare()?;
        self.hold_places()?;
        self.floor
            .landing
            .write(PREPARED, &self.prepared, self.floor.hook)?;
        self.each(Phase::Objects..=Phase::Packs, Self::publish)?;
        self.each(Phase::Files..=Phase::Files, Self::publish)?;
        self.hold_git_together()?;
        self.each(Phase::References..=Phase::Heads, Self::publish)?;
        self.hold_git_together()?;
        self.hold_moved();
        self.each(Phase::Gone..=Phase::Fill, Self::publish)?;
        self.hold_places()?;
        self.sync()?;
        self.each(Phase::Seal..=Phase::Seal, Self::publish)
    }

    /// Leaves steps alone whose name no longer holds what was approved.
    fn check(&mut self) -> Result<(), CommitError> {
        let waiting = |fate: &Fate| *fate == Fate::Pending;
        for (step, fate) in self.steps.iter().zip(&mut self.fates) {
            if waiting(fate)
                && let Err(reason) = publish::expect(&self.floor, step)
            {
                *fate = Fate::Left(reason);
            }
        }
        let opened = |(step, fate): (&Step, &Fate)| step.group == Group::Git && !waiting(fate);
        if self.steps.iter().zip(&self.fates).any(opened) {
            return self.hold_git_together();
        }
        self.propagate_git();
        Ok(())
    }

    /// Does `action` for every pending step of these phases.
    fn each(
        &mut self,
        phases: std::ops::RangeInclusive<Phase>,
        action: fn(&mut Self, usize, &Step) -> Result<Fate, Stop>,
    ) -> Result<(), CommitError> {
        for index in 0..self.steps.len() {
            let Some(step) = self.steps.get(index).cloned() else {
                break;
            };
            if phases.contains(&step.phase()) && self.fates.get(index) == Some(&Fate::Pending) {
                let fate = match action(self, index, &step) {
                    Ok(fate) => fate,
                    Err(Stop::Step(reason)) => Fate::Left(reason),
                    Err(Stop::All(error)) => return Err(error),
                };
                self.set_fate(index, fate);
            }
        }
        Ok(())
    }

    fn set_fate(&mut self, index: usize, fate: Fate) {
        if let Some(slot) = self.fates.get_mut(index) {
            *slot = fate;
        }
    }

    /// Leaves old names alone whose content was to come under another name and did not.
    fn hold_moved(&mut self) {
        let left: BTreeMap<usize, RelPath> = self
            .steps
            .iter()
            .zip(&self.fates)
            .filter(|(_, fate)| matches!(fate, Fate::Left(_)))
            .map(|(step, _)| (step.item, step.path.clone()))
            .collect();
        for (step, fate) in self.steps.iter().zip(&mut self.fates) {
            let carriers = &step.carried_by;
            let is_lost = carriers.iter().all(|item| left.contains_key(item));
            let to = carriers.iter().find_map(|item| left.get(item));
            if let Some(to) = to.filter(|_| is_lost && *fate == Fate::Pending) {
                *fate = Fate::Left(Reason::MovedAway(to.to_string()));
            }
        }
    }

    /// Leaves alone, or gives its name back to, what was to make place for something that does not
    /// come.
    fn hold_places(&mut self) -> Result<(), CommitError> {
        let missing: BTreeMap<RelPath, Reason> = self
            .steps
            .iter()
            .zip(&self.fates)
            .filter(|(step, _)| matches!(step.act, Act::Fill | Act::MakeDirectory))
            .filter_map(|(step, fate)| match fate {
                Fate::Left(reason) => Some((step.path.clone(), reason.clone())),
                _ => None,
            })
            .collect();
        for index in (0..self.steps.len()).rev() {
            let makes_place = |step: &&Step| matches!(step.act, Act::Clear | Act::RemoveDirectory);
            let step = self.steps.get(index).filter(makes_place);
            let Some(reason) = step.and_then(|step| missing.get(&step.path)) else {
                continue;
            };
            match self.fates.get(index) {
                Some(Fate::Done) => self.revert(index)?,
                Some(Fate::Pending) => {}
                _ => continue,
            }
            self.set_fate(index, Fate::Left(reason.clone()));
        }
        Ok(())
    }

    /// Takes every step of the repository's state back when one of them, or an object that they may
    /// lean on, was left alone.
    fn hold_git_together(&mut self) -> Result<(), CommitError> {
        if self.propagate_git() {
            for index in (0..self.steps.len()).rev() {
                if self
                    .steps
                    .get(index)
                    .is_some_and(|step| step.group == Group::Git)
                {
                    self.revert(index)?;
                }
            }
        }
        Ok(())
    }

    /// Marks the repository's state as left alone when part of it is; whether it is.
    fn propagate_git(&mut self) -> bool {
        let left = self
            .steps
            .iter()
            .zip(&self.fates)
            .find_map(|(step, fate)| match fate {
                Fate::Left(reason) if step.group != Group::Files => {
                    Some((step.path.clone(), reason))
                }
                _ => None,
            });
        let Some((path, reason)) = left else {
            return false;
        };
        let together = match reason {
            Reason::GitTogether(_) => reason.clone(),
            other => Reason::GitTogether(format!("`{path}`: {other}")),
        };
        for (step, fate) in self.steps.iter().zip(&mut self.fates) {
            if step.group == Group::Git {
                *fate = Fate::Left(together.clone());
            }
        }
        true
    }

    /// What was left alone has been taken back already. One failure does not keep the rest from
    /// going back.
    fn revert_all(&self) -> Result<(), CommitError> {
        let mut result = Ok(());
        for (index, fate) in self.fates.iter().enumerate().rev() {
            if !matches!(fate, Fate::Left(_)) {
                result = result.and(self.revert(index));
            }
        }
        result.and(self.floor.sync_all())
    }

    fn revert(&self, index: usize) -> Result<(), CommitError> {
        let Some(step) = self.steps.get(index) else {
            return Ok(());
        };
        let made = self.prepared.made.get(index).copied().unwrap_or(false);
        let inode = self.prepared.inodes.get(index).copied().flatten();
        let own = revert::Own {
            inode,
            made,
            is_prepared: true,
        };
        self.floor
            .revert(index, step, own)
            .doing("take back", &step.path)
    }

    /// Forces every directory in which a name changed to the disk.
    fn sync(&self) -> Result<(), CommitError> {
        let mut directories = BTreeSet::new();
        for (step, _) in self
            .steps
            .iter()
            .zip(&self.fates)
            .filter(|(_, fate)| **fate == Fate::Done)
        {
            directories.insert(step.shelter.clone());
            directories.extend(step.path.split_last().map(|(parent, _)| parent));
            if let Act::Move { from } = &step.act {
                directories.extend(from.split_last().map(|(parent, _)| parent));
            }
        }
        directories
            .iter()
            .try_for_each(|path| self.sync_directory(path))
    }

    fn sync_directory(&self, path: &RelPath) -> Result<(), CommitError> {
        match self.floor.tree().directory(path) {
            Ok(directory) => self.floor.sync(&directory).doing("sync", path),
            // It was removed by this landing, or just now by the host.
            Err(error) if super::beneath::is_absence(&error) => Ok(()),
            Err(error) => Err(error).doing("sync", path),
        }
    }
}

/// Tells what concerns one name from what concerns all.
impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(
                Errno::NOSPC
                | Errno::DQUOT
                | Errno::IO
                | Errno::ROFS
                | Errno::NOMEM
                | Errno::MFILE
                | Errno::NFILE,
            ) => Self::All(CommitError::Io {
                doing: "write below",
                name: "the project".to_owned(),
                source: error,
            }),
            _ => Self::Step(error.into()),
        }
    }
}

impl From<CommitError> for Stop {
    fn from(error: CommitError) -> Self {
        Self::All(error)
    }
}

impl From<Reason> for Stop {
    fn from(reason: Reason) -> Self {
        Self::Step(reason)
    }
}
