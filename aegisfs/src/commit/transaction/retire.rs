//! After the commit: what was displaced moves into the landing's directory.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, openat, renameat, renameat_with, symlinkat, unlinkat,
};

use super::super::beneath::{Place, observe_at, open_file_at};
use super::super::carry;
use super::super::error::{CommitError, Doing as _};
use super::super::landing::{Committed, DONE};
use super::super::state::State;
use super::floor::Floor;
use super::revert::is_gone;
use super::step::{Act, Step};

/// Whether nothing of a landing is out of reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whole {
    Yes,
    No,
}

impl Whole {
    pub(super) const fn and(self, other: Self) -> Self {
        match self {
            Self::Yes => other,
            Self::No => Self::No,
        }
    }
}

fn has(store: &OwnedFd, name: &str) -> io::Result<bool> {
    match rustix::fs::statat(store, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(true),
        Err(rustix::io::Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

impl Floor<'_> {
    /// Moves what was displaced, and says in the record that the landing is over, unless a folder
    /// with something in it has been moved away: then a later call finds it, or nobody does.
    pub(super) fn finish(
        &self,
        steps: &[Step],
        committed: &Committed,
    ) -> Result<Whole, CommitError> {
        let whole = self.retire(steps, &committed.done)?;
        if whole == Whole::Yes {
            self.landing.write(DONE, &(), self.hook)?;
        }
        Ok(whole)
    }

    /// Moves everything that the finished steps displaced; may be called again.
    fn retire(&self, steps: &[Step], done: &[bool]) -> Result<Whole, CommitError> {
        let store = self.landing.displaced()?;
        let mut result = Ok(Whole::Yes);
        for (index, (step, done)) in steps.iter().zip(done).enumerate() {
            if *done && step.displaces() {
                let retired = self.retire_one(index, step, &store);
                let retired = retired.doing("keep the old", &step.path);
                // What fails for one does not keep the others in the project.
                result = result.and_then(|whole| Ok(whole.and(retired?)));
            }
        }
        self.sync(&store).doing("sync", &"the displaced files")?;
        result
    }

    fn retire_one(&self, index: usize, step: &Step, store: &OwnedFd) -> io::Result<Whole> {
        let temporary = match self.temporary(index, step) {
            Ok(temporary) => temporary,
            Err(error) if is_gone(&error) => return Ok(Whole::No),
            Err(error) => return Err(error),
        };
        let name = index.to_string();
        if temporary.inode()?.is_none() {
            let is_kept = step.act == Act::RemoveDirectory || has(store, &name)?;
            return Ok(if is_kept { Whole::Yes } else { Whole::No });
        }
        if step.act == Act::RemoveDirectory {
            self.retire_directory(step, &temporary)?;
        } else {
            self.retire_file(&temporary, store, &name)?;
        }
        Ok(Whole::Yes)
    }

    fn retire_file(&self, temporary: &Place, store: &OwnedFd, name: &str) -> io::Result<()> {
        (self.hook)("retire");
        match renameat_with(
            &temporary.parent,
            temporary.name.as_slice(),
            store,
            name,
            RenameFlags::empty(),
        ) {
            Err(rustix::io::Errno::XDEV) => self.retire_across(temporary, store, name),
            other => Ok(other?),
        }
    }

    /// A directory that someone who had it open put something into gets its name back.
    fn retire_directory(&self, step: &Step, temporary: &Place) -> io::Result<()> {
        match self.remove_directory(temporary.spot()) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                self.rename(temporary.spot(), self.place(step)?.spot())
            }
            other => other,
        }
    }

    /// Copies to another file system; the original goes only when the copy is on the disk and the
    /// same.
    fn retire_across(&self, temporary: &Place, store: &OwnedFd, name: &str) -> io::Result<()> {
        let part = format!("{name}.part");
        loop {
            unlinkat(store, &part, AtFlags::empty()).ok();
            let state = temporary.observe()?.state;
            (self.hook)("retire: copy");
            match &state {
                State::Symlink { target } => symlinkat(target.as_slice(), store, &part)?,
                _ => {
                    let copied = self.copy_across(temporary, store, &part);
                    // Half a copy on a full disk would take the room of what comes after it.
                    if copied.is_err() {
                        unlinkat(store, &part, AtFlags::empty()).ok();
                    }
                    copied?;
                }
            }
            let same = observe_at(store.as_fd(), part.as_bytes())?.state == state
                && temporary.observe()?.state == state;
            if same {
                break;
            }
        }
        (self.hook)("retire: rename");
        renameat(store, &part, store, name)?;
        self.sync(store)?;
        self.unlink(temporary.spot())
    }

    fn copy_across(&self, temporary: &Place, store: &OwnedFd, part: &str) -> io::Result<()> {
        let from = open_file_at(temporary.parent.as_fd(), &temporary.name)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let to = openat(store, part, flags, Mode::RUSR | Mode::WUSR)?;
        carry::copy(&from, &to)?;
        carry::carry_ownership(&from, &to)?;
        self.chmod(&to, rustix::fs::fstat(&from)?.st_mode & 0o7777)?;
        carry::carry_times(&from, &to)?;
        self.sync(&to)
    }
}
