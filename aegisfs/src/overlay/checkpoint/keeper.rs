//! Taking checkpoints while a session is served, without holding it up: what is put down is read
//! back from the journal by a thread of its own, so nobody waits and no lock is taken.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use aegis_policies::Journal;

use super::super::error::OverlayError;
use super::super::relocations::Relocations;
use super::super::replay::{self, Replayed, Upto};
use super::file::Folder;
use crate::layout::SessionDir;

/// Bytes of the journal between two checkpoints; some 40,000 entries, which replay in less than
/// 100 ms.
const STEP: u64 = 4 << 20;

/// At the end of serving, fewer bytes than these are not worth a checkpoint.
const LEAST: u64 = 1 << 20;

/// Takes checkpoints of one session.
#[derive(Debug)]
pub(crate) struct Keeper {
    session: SessionDir,
    relocations: Relocations,
    journal: Arc<Journal>,
    progress: Arc<Progress>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// How far the checkpoints are, in bytes of the journal.
#[derive(Debug)]
struct Progress {
    /// Where the newest one is.
    taken: AtomicU64,
    /// Where the next one is due; `u64::MAX` while one is being taken.
    due: AtomicU64,
}

impl Keeper {
    /// Keeps the checkpoints of a session that has just been replayed.
    pub(crate) fn new(
        session: &SessionDir,
        relocations: Relocations,
        journal: Arc<Journal>,
        replayed: &Replayed,
    ) -> Self {
        let taken = replayed.begun;
        let keeper = Self {
            session: session.clone(),
            relocations,
            journal,
            progress: Arc::new(Progress {
                taken: AtomicU64::new(taken),
                due: AtomicU64::new(taken.saturating_add(STEP)),
            }),
            thread: Mutex::default(),
        };
        keeper.note(replayed.position.bytes());
        keeper
    }

    /// Notes that the journal has grown to this many bytes.
    pub(crate) fn note(&self, bytes: u64) {
        let due = &self.progress.due;
        if bytes < due.load(Ordering::Relaxed) || due.swap(u64::MAX, Ordering::Relaxed) == u64::MAX
        {
            return;
        }
        let (session, relocations) = (self.session.clone(), self.relocations.clone());
        let progress = Arc::clone(&self.progress);
        let thread = thread::Builder::new().name("checkpoint".to_owned());
        let thread = thread.spawn(move || progress.take(&session, &relocations, STEP, bytes));
        let mut slot = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        *slot = thread.ok();
    }
}

impl Drop for Keeper {
    /// The clean end of serving: the next start finds a checkpoint that is near.
    fn drop(&mut self) {
        let thread = self
            .thread
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            let _ended = thread.join();
        }
        let bytes = self.journal.position().bytes();
        if bytes.saturating_sub(self.progress.taken.load(Ordering::Relaxed)) >= LEAST {
            let (session, relocations) = (&self.session, &self.relocations);
            self.progress.take(session, relocations, LEAST, bytes);
        }
    }
}

impl Progress {
    /// Takes a checkpoint if the journal has `least` bytes more than at the newest one.
    fn take(&self, session: &SessionDir, relocations: &Relocations, least: u64, bytes: u64) {
        // There is nobody to tell: without a checkpoint the next start takes longer, and what is
        // wrong with the journal is named there.
        let taken = take(session, relocations, least).ok().flatten();
        if let Some(taken) = &taken {
            self.taken.store(taken.bytes, Ordering::Relaxed);
        }
        // A large tree is worth fewer checkpoints: each costs as much as it is large.
        let step = STEP.max(taken.map_or(0, |taken| taken.size));
        let due = bytes.saturating_add(step);
        self.due.store(due, Ordering::Relaxed);
    }
}

/// A checkpoint that was taken.
struct Taken {
    /// Bytes of the journal before it.
    bytes: u64,
    /// Its own.
    size: u64,
}

fn take(
    session: &SessionDir,
    relocations: &Relocations,
    least: u64,
) -> Result<Option<Taken>, OverlayError> {
    let replayed = replay::replay(session, relocations, Upto::End)?;
    let bytes = replayed.position.bytes();
    if bytes.saturating_sub(replayed.begun) < least {
        return Ok(None);
    }
    let refused = |error: io::Error| {
        rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO)
    };
    let folder = Folder::make(session)?;
    let written = folder.write(&replayed.position, relocations, &replayed.shadow);
    let size = written.map_err(refused)?;
    Ok(Some(Taken { bytes, size }))
}
