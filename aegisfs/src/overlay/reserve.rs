//! Disk space that is kept so that a full disk can be emptied again: a removal has to be written to
//! the journal first. It is taken at the first change: a tree that is only read takes nothing.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, fallocate, open, openat, unlinkat};
use rustix::io::Errno;

use crate::layout::SessionDir;

const NAME: &str = "reserve";
/// Bytes kept; some two thousand records of removals. Whatever is removed that has content of its own
/// makes more room than its record takes.
const SIZE: u64 = 256 << 10;

/// The reserve of a session.
#[derive(Debug)]
pub(crate) struct Reserve {
    session: OwnedFd,
    held: Mutex<bool>,
    /// Whether it has been tried to take it.
    begun: AtomicBool,
}

impl Reserve {
    /// # Errors
    /// When the session's directory can not be opened.
    pub(crate) fn open(session: &SessionDir) -> Result<Self, Errno> {
        let reserve = Self::none(session)?;
        reserve.begun.store(false, Ordering::Relaxed);
        Ok(reserve)
    }

    /// No reserve, for a tree in which nothing is removed.
    ///
    /// # Errors
    /// When the session's directory can not be opened.
    pub(crate) fn none(session: &SessionDir) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            session: open(session.root(), flags, Mode::empty())?,
            held: Mutex::new(false),
            begun: AtomicBool::new(true),
        })
    }

    /// Takes the space before the first change. A disk that is full already has no reserve.
    pub(crate) fn begin(&self) {
        if !self.begun.load(Ordering::Relaxed) && !self.begun.swap(true, Ordering::Relaxed) {
            self.refill();
        }
    }

    /// Gives the space up, also that of an earlier server; tells whether there was any.
    pub(crate) fn release(&self) -> bool {
        let mut held = self.held();
        *held = false;
        unlinkat(&self.session, NAME, AtFlags::empty()).is_ok()
    }

    /// Takes the space again when there is enough.
    pub(crate) fn refill(&self) {
        let mut held = self.held();
        if *held {
            return;
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        *held = openat(&self.session, NAME, flags, mode)
            .and_then(|file| fallocate(file, FallocateFlags::empty(), 0, SIZE))
            .is_ok();
        if !*held {
            // Half a reserve is in the way of what would fit instead.
            let _ = unlinkat(&self.session, NAME, AtFlags::empty());
        }
    }

    fn held(&self) -> MutexGuard<'_, bool> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
