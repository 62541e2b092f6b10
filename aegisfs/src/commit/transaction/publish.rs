//! Giving the prepared files their names, and checking what comes out for it.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use aegis_policies::RelPath;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::super::beneath::{Place, hash, names, open_file_at, reopen};
use super::super::error::Doing as _;
use super::super::reason::Reason;
use super::super::state::{Observed, State};
use super::floor::Floor;
use super::revert::Own;
use super::step::{Act, Step};
use super::{Fate, Stop, Transaction};

/// Whether the names of a step hold what it expects.
pub(super) fn expect(floor: &Floor<'_>, step: &Step) -> Result<(), Reason> {
    match &step.act {
        Act::Move { from } => {
            require(&observe(floor, from)?, &step.new)?;
            require(&observe(floor, &step.path)?, &State::Absent)
        }
        // What these take the place of is removed by an earlier step.
        Act::MakeDirectory | Act::Fill => Ok(()),
        // A directory may be one that this landing makes; the step looks again itself.
        Act::Chmod if step.old.is_directory() => Ok(()),
        Act::RemoveDirectory => {
            let observed = observe(floor, &step.path)?;
            if observed.state.is_directory() {
                Ok(())
            } else {
                Err(Reason::ChangedJustNow)
            }
        }
        Act::Replace => {
            let observed = observe(floor, &step.path)?;
            require(&observed, &step.old)?;
            require_single(&observed)
        }
        _ => require(&observe(floor, &step.path)?, &step.old),
    }
}

fn observe(floor: &Floor<'_>, path: &RelPath) -> Result<Observed, Reason> {
    floor.tree().observe(path).map_err(Reason::unreadable)
}

fn require(observed: &Observed, state: &State) -> Result<(), Reason> {
    if observed.state == *state {
        Ok(())
    } else {
        Err(Reason::ChangedJustNow)
    }
}

/// A replaced file would stay what it was under its other names.
fn require_single(observed: &Observed) -> Result<(), Reason> {
    match (&observed.state, observed.links()) {
        (State::File { .. }, links) if links > 1 => Err(Reason::HardLinked(links)),
        _ => Ok(()),
    }
}

impl Transaction<'_> {
    /// Does one step.
    pub(super) fn publish(&mut self, index: usize, step: &Step) -> Result<Fate, Stop> {
        let place = self.floor.place(step)?;
        match &step.act {
            Act::MakeDirectory => self.make_directory(index, step, &place),
            Act::Chmod => self.chmod(step, &place),
            Act::Replace => self.replace(index, step, &place),
            Act::Create | Act::Fill => self.create(index, step, &place),
            Act::Clear | Act::Remove | Act::RemoveDirectory => self.remove(index, step, &place),
            Act::Move { from } => {
                let from = self.floor.place_of(from)?;
                self.move_here(step, &from, &place)
            }
        }
    }

    fn make_directory(&mut self, index: usize, step: &Step, place: &Place) -> Result<Fate, Stop> {
        let mode = step.new.mode().unwrap_or(0o700);
        if !self.floor.make_directory(place.spot())? {
            return Ok(Fate::Already);
        }
        // Before anything else can fail: whatever takes this back has to know whose it is.
        if let Some(made) = self.prepared.made.get_mut(index) {
            *made = true;
        }
        // What made place for the directory is gone: without it, all goes back.
        let opened = self.floor.open_up(place.spot(), mode);
        opened.doing("open up", &step.path)?;
        Ok(Fate::Done)
    }

    fn chmod(&mut self, step: &Step, place: &Place) -> Result<Fate, Stop> {
        let Some(mode) = step.new.mode() else {
            return Ok(Fate::Already);
        };
        self.floor.set_mode(&step.path, place, &step.old, mode)?;
        Ok(Fate::Done)
    }

    fn replace(&mut self, index: usize, step: &Step, place: &Place) -> Result<Fate, Stop> {
        let temporary = self.floor.temporary(index, step)?;
        if let Err(error) = self.floor.exchange(temporary.spot(), place.spot()) {
            return self.give_up(index, step, error);
        }
        (self.floor.hook)("verify");
        let verdict = match temporary.observe() {
            Ok(displaced) => {
                require(&displaced, &step.old).and_then(|()| require_single(&displaced))
            }
            Err(error) => Err(Reason::unreadable(error)),
        };
        self.settle(index, step, verdict)
    }

    fn create(&mut self, index: usize, step: &Step, place: &Place) -> Result<Fate, Stop> {
        let temporary = self.floor.temporary(index, step)?;
        match self.floor.rename(temporary.spot(), place.spot()) {
            Ok(()) => Ok(Fate::Done),
            Err(error) => self.give_up(index, step, error),
        }
    }

    fn remove(&mut self, index: usize, step: &Step, place: &Place) -> Result<Fate, Stop> {
        let temporary = self.floor.temporary(index, step)?;
        if let Err(error) = self.floor.rename(place.spot(), temporary.spot()) {
            return self.give_up(index, step, error);
        }
        (self.floor.hook)("verify");
        let verdict = if step.act == Act::RemoveDirectory {
            require_empty(&temporary)
        } else {
            match temporary.observe() {
                Ok(displaced) => require(&displaced, &step.old),
                Err(error) => Err(Reason::unreadable(error)),
            }
        };
        self.settle(index, step, verdict)
    }

    fn move_here(&mut self, step: &Step, from: &Place, place: &Place) -> Result<Fate, Stop> {
        self.floor
            .rename(from.spot(), place.spot())
            .map_err(changed_just_now)?;
        (self.floor.hook)("verify");
        let moved = place.observe();
        if moved.as_ref().is_ok_and(|moved| moved.state == step.new) {
            return Ok(Fate::Done);
        }
        self.floor.rename(place.spot(), from.spot())?;
        Err(Reason::ChangedJustNow.into())
    }

    /// Takes the step back when what came out is not what was expected.
    fn settle(
        &mut self,
        index: usize,
        step: &Step,
        verdict: Result<(), Reason>,
    ) -> Result<Fate, Stop> {
        let Err(reason) = verdict else {
            return Ok(Fate::Done);
        };
        self.floor.revert(index, step, self.own(index))?;
        Err(reason.into())
    }

    /// Removes the step's temporary file after a call that changed nothing.
    fn give_up(&mut self, index: usize, step: &Step, error: io::Error) -> Result<Fate, Stop> {
        self.floor.revert(index, step, self.own(index))?;
        Err(changed_just_now(error))
    }

    fn own(&self, index: usize) -> Own {
        let inode = self.prepared.inodes.get(index).copied().flatten();
        let made = self.prepared.made.get(index).copied().unwrap_or(false);
        Own {
            inode,
            made,
            is_prepared: true,
        }
    }
}

impl Floor<'_> {
    /// Changes the permission bits of what is at `place`, if it is still `expected`.
    pub(super) fn set_mode(
        &self,
        path: &RelPath,
        place: &Place,
        expected: &State,
        mode: u32,
    ) -> Result<(), Stop> {
        if expected.is_directory() {
            return self.set_directory_mode(path, expected, mode);
        }
        let file = open_file_at(place.parent.as_fd(), &place.name)?;
        if state_of(&file, expected)? != *expected {
            return Err(Reason::ChangedJustNow.into());
        }
        self.chmod(&file, mode)?;
        Ok(self.sync(&file)?)
    }

    /// The same for a directory, which may let nobody in before, or after.
    fn set_directory_mode(&self, path: &RelPath, expected: &State, mode: u32) -> Result<(), Stop> {
        let passage = self.tree().passage(path)?;
        if state_of(&passage, expected)? != *expected {
            return Err(Reason::ChangedJustNow.into());
        }
        let mode = mode | super::floor::inherited(&passage)?;
        let directory = if let Ok(directory) = reopen(&passage) {
            self.chmod(&directory, mode)?;
            Ok(directory)
        } else {
            self.chmod_closed(&passage, mode)?;
            reopen(&passage)
        };
        match directory {
            Ok(directory) => Ok(self.sync(&directory)?),
            Err(_) => Ok(self.sync_all()?),
        }
    }

    /// What is under a name of our own, even when its permission bits keep its owner from reading.
    pub(super) fn observe_own(&self, place: &Place) -> io::Result<Observed> {
        match place.observe() {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.observe_closed(place)
            }
            other => other,
        }
    }

    fn observe_closed(&self, place: &Place) -> io::Result<Observed> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let passage = openat(&place.parent, place.name.as_slice(), flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&passage)?;
        self.chmod_closed(&passage, stat.st_mode & 0o7777 | 0o400)?;
        let file = reopen(&passage);
        self.chmod_closed(&passage, stat.st_mode & 0o7777)?;
        let sha256 = hash(std::fs::File::from(file?))?;
        let mode = stat.st_mode & 0o7777;
        Ok(Observed {
            state: State::File { sha256, mode },
            stat: Some(stat),
        })
    }
}

/// The state of an open file, of the same kind as `like`.
fn state_of(file: &OwnedFd, like: &State) -> io::Result<State> {
    let mode = rustix::fs::fstat(file)?.st_mode;
    match like {
        State::Directory { .. } => Ok(State::Directory {
            mode: mode & super::super::state::DIRECTORY_BITS,
        }),
        _ => {
            let sha256 = hash(std::fs::File::from(file.try_clone()?))?;
            Ok(State::File {
                sha256,
                mode: mode & 0o7777,
            })
        }
    }
}

fn require_empty(place: &Place) -> Result<(), Reason> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(&place.parent, place.name.as_slice(), flags, Mode::empty());
    let names = names(directory.map_err(io::Error::from)?.as_fd())?;
    if names.is_empty() {
        Ok(())
    } else {
        Err(Reason::NotEmpty)
    }
}

/// A name that appeared or vanished since it was looked at.
fn changed_just_now(error: io::Error) -> Stop {
    match Errno::from_io_error(&error) {
        Some(Errno::EXIST | Errno::NOENT | Errno::NOTDIR) => Stop::Step(Reason::ChangedJustNow),
        _ => error.into(),
    }
}
