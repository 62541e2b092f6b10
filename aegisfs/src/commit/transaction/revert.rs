//! Taking one step back, whatever part of it was done. Decides by what is there, so that it may be
//! called again after it was interrupted.
//!
//! INVARIANT: only what this landing made itself, unchanged, is removed. Anything else that turns
//! up under a temporary name is the host's, and goes back to its name or into the landing's
//! directory.

use std::io;

use super::super::beneath::Place;
use super::floor::Floor;
use super::step::{Act, Step};

/// What the landing knows of its own part in a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    /// The inode that it made or was to move.
    pub(super) inode: Option<u64>,
    /// Whether it made the directory.
    pub(super) made: bool,
    /// Whether it got as far as to note these; before that, nothing of its own is published.
    pub(super) is_prepared: bool,
}

impl Floor<'_> {
    pub(super) fn revert(&self, index: usize, step: &Step, own: Own) -> io::Result<()> {
        let place = match self.place(step) {
            Ok(place) => place,
            Err(error) if is_gone(&error) => return self.keep_homeless(index, step),
            Err(error) => return Err(error),
        };
        match &step.act {
            Act::MakeDirectory => self.unmake_directory(&place, own),
            Act::Chmod => self.restore_mode(step, &place),
            Act::Replace => self.unreplace(index, step, &place, own),
            Act::Create | Act::Fill => self.uncreate(index, step, &place, own),
            Act::Clear | Act::Remove | Act::RemoveDirectory => {
                let temporary = self.temporary(index, step)?;
                self.put_back(index, &temporary, &place)
            }
            Act::Move { from } => {
                let from = self.place_of(from)?;
                if own.inode.is_some() && place.inode()? == own.inode && from.inode()?.is_none() {
                    self.rename(place.spot(), from.spot())?;
                }
                Ok(())
            }
        }
    }

    /// Whether what the step displaced lies in a folder that has been moved away.
    pub(super) fn is_away(&self, step: &Step) -> bool {
        step.displaces()
            && self
                .tree()
                .passage(&step.shelter)
                .is_err_and(|error| is_gone(&error))
    }

    fn unmake_directory(&self, place: &Place, own: Own) -> io::Result<()> {
        if own.is_prepared && !own.made {
            return Ok(());
        }
        match self.remove_directory(place.spot()) {
            // It is not there, or the host has put something into it.
            Err(error) if !is_real(&error) => Ok(()),
            other => other,
        }
    }

    fn restore_mode(&self, step: &Step, place: &Place) -> io::Result<()> {
        let (Some(old), Some(_)) = (step.old.mode(), step.new.mode()) else {
            return Ok(());
        };
        match self.set_mode(&step.path, place, &step.new, old) {
            Err(super::Stop::All(super::CommitError::Io { source, .. })) => Err(source),
            // The host has changed it since: then it is the host's.
            _ => Ok(()),
        }
    }

    fn unreplace(&self, index: usize, step: &Step, place: &Place, own: Own) -> io::Result<()> {
        let temporary = self.temporary(index, step)?;
        let Some(there) = temporary.inode()? else {
            return Ok(());
        };
        if is_ours(there, own) {
            return self.discard(index, step, &temporary, own);
        }
        if place.inode()? != own.inode {
            // The host has replaced our file since: its newest version stays.
            return self.keep(index, &temporary);
        }
        self.exchange(temporary.spot(), place.spot())?;
        if temporary.inode()? == own.inode {
            return self.discard(index, step, &temporary, own);
        }
        // Between the look and the exchange the host has replaced our file. What came out now is
        // newer than what went back.
        self.exchange(temporary.spot(), place.spot())?;
        self.keep(index, &temporary)
    }

    fn uncreate(&self, index: usize, step: &Step, place: &Place, own: Own) -> io::Result<()> {
        let temporary = self.temporary(index, step)?;
        if temporary.inode()?.is_some() {
            return self.discard(index, step, &temporary, own);
        }
        if own.inode.is_none() || place.inode()? != own.inode {
            return Ok(());
        }
        self.rename(place.spot(), temporary.spot())?;
        if temporary.inode()? == own.inode && self.observe_own(&temporary)?.state == step.new {
            return self.unlink(temporary.spot());
        }
        // The host has written to it or replaced it: it is the host's now.
        self.put_back(index, &temporary, place)
    }

    /// Removes our own file from its temporary name, unless the host wrote to it while it was
    /// published.
    fn discard(&self, index: usize, step: &Step, temporary: &Place, own: Own) -> io::Result<()> {
        let observed = self.observe_own(temporary)?;
        let is_untouched = !own.is_prepared || observed.state == step.new;
        if is_untouched && observed.inode().is_some_and(|there| is_ours(there, own)) {
            return self.unlink(temporary.spot());
        }
        self.keep(index, temporary)
    }

    /// Gives what was displaced its name back.
    fn put_back(&self, index: usize, temporary: &Place, place: &Place) -> io::Result<()> {
        if temporary.inode()?.is_none() {
            return Ok(());
        }
        match self.rename(temporary.spot(), place.spot()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.keep(index, temporary)
            }
            other => other,
        }
    }

    /// The host has taken the step's directory away: what was displaced from it has no name to go
    /// back to, and nothing else of the step is left.
    fn keep_homeless(&self, index: usize, step: &Step) -> io::Result<()> {
        match self.temporary(index, step) {
            Ok(temporary) if step.displaces() && temporary.inode()?.is_some() => {
                self.keep(index, &temporary)
            }
            Ok(_) => Ok(()),
            Err(error) if is_gone(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Moves a version of the host's that has no name any more into the landing's directory.
    fn keep(&self, index: usize, temporary: &Place) -> io::Result<()> {
        let name = format!("kept-{index}");
        let to = (self.landing.directory(), name.as_bytes());
        match self.rename(temporary.spot(), to) {
            // On another file system, or kept once before: it stays where it is, under the
            // temporary name, and nothing is lost.
            Err(error) if !is_real(&error) => Ok(()),
            other => other,
        }
    }
}

fn is_ours(inode: u64, own: Own) -> bool {
    !own.is_prepared || own.inode == Some(inode)
}

/// Whether the way to a name is gone, or has become a link or a mount.
pub(super) fn is_gone(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV)
    )
}

/// Errors that say "nothing to do" rather than "could not".
fn is_real(error: &io::Error) -> bool {
    !matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::DirectoryNotEmpty
            | io::ErrorKind::AlreadyExists
            | io::ErrorKind::CrossesDevices
            | io::ErrorKind::NotADirectory
    )
}
