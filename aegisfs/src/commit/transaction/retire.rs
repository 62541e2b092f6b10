//! After the commit: what was displaced moves into the landing's directory.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{Mode, OFlags, RenameFlags, openat, renameat, renameat_with, symlinkat, unlinkat};

use super::super::beneath::{Place, is_absence, observe_at, open_file_at};
use super::super::carry;
use super::super::error::{CommitError, Doing as _};
use super::super::state::State;
use super::floor::Floor;
use super::step::{Act, Step};

impl Floor<'_> {
    /// Moves everything that the finished steps displaced; may be called again.
    pub(super) fn retire(&self, steps: &[Step], done: &[bool]) -> Result<(), CommitError> {
        let store = self.landing.displaced()?;
        for (index, (step, done)) in steps.iter().zip(done).enumerate() {
            if *done && step.displaces() {
                self.retire_one(index, step, &store)
                    .doing("keep the old", &step.path)?;
            }
        }
        self.sync(&store).doing("sync", &"the displaced files")
    }

    fn retire_one(&self, index: usize, step: &Step, store: &OwnedFd) -> io::Result<()> {
        let temporary = match self.temporary(index, step) {
            Ok(temporary) => temporary,
            Err(error) if is_absence(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        if temporary.inode()?.is_none() {
            return Ok(());
        }
        if step.act == Act::RemoveDirectory {
            return self.retire_directory(step, &temporary);
        }
        let name = index.to_string();
        (self.hook)("retire");
        match renameat_with(
            &temporary.parent,
            temporary.name.as_slice(),
            store,
            &name,
            RenameFlags::empty(),
        ) {
            Err(rustix::io::Errno::XDEV) => self.retire_across(&temporary, store, &name),
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
            unlinkat(store, &part, rustix::fs::AtFlags::empty()).ok();
            let state = temporary.observe()?.state;
            (self.hook)("retire: copy");
            match &state {
                State::Symlink { target } => symlinkat(target.as_slice(), store, &part)?,
                _ => self.copy_across(temporary, store, &part)?,
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
