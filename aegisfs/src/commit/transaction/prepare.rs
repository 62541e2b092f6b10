//! New files under temporary names, complete and on the disk before any of them is published.

use std::io::ErrorKind;
use std::os::fd::{AsFd as _, OwnedFd};

use super::super::beneath::{Place, open_file_at};
use super::super::carry;
use super::super::error::{CommitError, Doing as _};
use super::super::landing::Landing;
use super::super::reason::Reason;
use super::super::site::open_private;
use super::super::state::{Digest, State};
use super::step::{Act, Phase, Source, Step};
use super::{Fate, Stop, Transaction};

/// Above this number of files, one syncfs(2) is cheaper than an fsync(2) for each.
const FEW: usize = 8;

impl Transaction<'_> {
    pub(super) fn prepare(&mut self) -> Result<(), CommitError> {
        let count = self
            .steps
            .iter()
            .filter(|step| step.has_temporary())
            .count();
        let make = if count > FEW {
            Self::make
        } else {
            Self::make_and_sync
        };
        self.each(Phase::Objects..=Phase::Fill, make)?;
        self.hold_git_together()?;
        if count > FEW {
            self.floor.sync_all()?;
        }
        Ok(())
    }

    fn make_and_sync(&mut self, index: usize, step: &Step) -> Result<Fate, Stop> {
        let file = self.make_one(index, step)?;
        file.map_or(Ok(()), |file| self.floor.sync(&file))?;
        Ok(Fate::Pending)
    }

    fn make(&mut self, index: usize, step: &Step) -> Result<Fate, Stop> {
        self.make_one(index, step)?;
        Ok(Fate::Pending)
    }

    /// Makes a step's temporary name and notes its inode.
    fn make_one(&mut self, index: usize, step: &Step) -> Result<Option<OwnedFd>, Stop> {
        if let Act::Move { from } = &step.act {
            let inode = self.floor.place_of(from)?.inode()?;
            self.note(index, inode);
            return Ok(None);
        }
        if !step.has_temporary() {
            return Ok(None);
        }
        let temporary = self.floor.temporary(index, step)?;
        let made = self.fill(step, &temporary);
        // Also for one that was made in part: that inode is ours to remove.
        self.note(index, temporary.inode()?);
        if made.is_err() {
            self.floor.unlink(temporary.spot())?;
        }
        made
    }

    fn note(&mut self, index: usize, inode: Option<u64>) {
        if let Some(slot) = self.prepared.inodes.get_mut(index) {
            *slot = inode;
        }
    }

    fn fill(&mut self, step: &Step, temporary: &Place) -> Result<Option<OwnedFd>, Stop> {
        match &step.new {
            State::Symlink { target } => {
                self.floor.symlink(target, temporary.spot())?;
                Ok(None)
            }
            State::File { sha256, mode } => {
                if self.link(step, temporary)? {
                    return Ok(None);
                }
                let file = self.floor.create(temporary.spot())?;
                self.copy(step, *sha256, &file)?;
                self.dress(step, &file)?;
                self.floor.chmod(&file, *mode)?;
                Ok(Some(file))
            }
            _ => Ok(None),
        }
    }

    /// Makes the temporary name another link to that of an earlier step; whether it could.
    fn link(&self, step: &Step, temporary: &Place) -> Result<bool, Stop> {
        let Some(index) = step.link_of else {
            return Ok(false);
        };
        let Some(first) = self.steps.get(index) else {
            return Ok(false);
        };
        if self.fates.get(index) != Some(&Fate::Pending) {
            return Ok(false);
        }
        let first = self.floor.temporary(index, first)?;
        // A file system without hard links gets two files.
        Ok(self.floor.link(first.spot(), temporary.spot()).is_ok())
    }

    fn copy(&self, step: &Step, approved: Digest, to: &OwnedFd) -> Result<(), Stop> {
        let from = self.open_source(step, approved)?;
        (self.floor.hook)("copy");
        let copied = carry::copy(&from, to)?;
        if copied == approved {
            return Ok(());
        }
        Err(Stop::All(CommitError::Tampered {
            name: step.path.to_string(),
        }))
    }

    fn open_source(&self, step: &Step, approved: Digest) -> Result<OwnedFd, Stop> {
        let session = self.floor.site.session();
        let path = match &step.source {
            Source::Stage => session.stage().join(approved.to_string()),
            Source::Displaced { landing, step } => {
                Landing::open(session, landing)?.displaced_path(*step)
            }
        };
        match open_private(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound && step.source != Source::Stage => {
                Err(Stop::Step(Reason::NotKept))
            }
            opened => Ok(opened.doing("open frozen content of", &step.path)?),
        }
    }

    /// Gives the new file what belongs to the file it replaces, or, when a landing is taken back,
    /// what belonged to the file that was there.
    fn dress(&self, step: &Step, file: &OwnedFd) -> Result<(), Stop> {
        if let (Source::Displaced { .. }, State::File { sha256, .. }) = (&step.source, &step.new) {
            let source = self.open_source(step, *sha256)?;
            carry::carry_ownership(&source, file)?;
            carry::carry_times(&source, file)?;
        } else if step.act == Act::Replace && matches!(step.old, State::File { .. }) {
            let place = self.floor.place(step)?;
            let old = open_file_at(place.parent.as_fd(), &place.name)?;
            carry::carry_ownership(&old, file)?;
        }
        Ok(())
    }
}
