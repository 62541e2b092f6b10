//! Positions that can be gone back to.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use aegis_policies::journal::{Event, Generation, SnapshotCause, VerdictId};

use super::{Overlay, Result, Snapshot};

impl Overlay {
    /// Notes the present tree as one that can be gone back to. Nothing is copied, now or for it:
    /// what is written later is written elsewhere.
    ///
    /// # Errors
    /// [`super::OverlayError::Journal`] when it can not be put on record.
    pub fn snapshot(&self, name: Option<String>, cause: SnapshotCause) -> Result<Snapshot> {
        let writing = self.writing.write().unwrap_or_else(PoisonError::into_inner);
        let mut shadow = self.write();
        let taken = name.clone();
        let event = Event::Snapshot { name: taken, cause };
        let journal = self.gate.journal();
        let seq = journal.append(0, VerdictId::default(), event)?;
        let at = u64::try_from(super::now()).unwrap_or(0);
        let snapshot = shadow.snapshot(seq, at, name, cause);
        self.generation
            .store(shadow.generation().0, Ordering::Release);
        drop(writing);
        self.remove_freed(&mut shadow);
        Ok(snapshot)
    }

    /// The snapshots that are kept, oldest first.
    #[must_use]
    pub fn snapshots(&self) -> Vec<Snapshot> {
        self.read().history().snapshots().to_vec()
    }

    /// How often the tree has been put aside.
    pub(super) fn generation(&self) -> Generation {
        Generation(self.generation.load(Ordering::Acquire))
    }
}
