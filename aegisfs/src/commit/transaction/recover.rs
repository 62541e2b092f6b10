//! After a crash: landings that were not committed are taken back, the others are finished.

use super::super::error::{CommitError, Doing as _};
use super::super::landing::{
    self, COMMITTED, Committed, DONE, Hook, INTENT, Intent, Landing, PREPARED, Prepared,
};
use super::super::site::Site;
use super::floor::Floor;
use super::revert::Own;

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Landings that were taken back.
    pub taken_back: usize,
    /// Landings that were finished.
    pub finished: usize,
}

/// Takes back or finishes every interrupted landing of the session, the newest first. The caller
/// holds the project's landing lock.
pub(crate) fn recover(site: &Site<'_>, hook: Hook<'_>) -> Result<Recovered, CommitError> {
    let mut recovered = Recovered::default();
    for id in landing::identifiers(site.session())?.iter().rev() {
        let landing = Landing::open(site.session(), id)?;
        if landing.read::<()>(DONE)?.is_some() {
            continue;
        }
        let Some(intent) = landing.read::<Intent>(INTENT)? else {
            continue;
        };
        let floor = Floor {
            site: *site,
            landing: &landing,
            hook,
        };
        if let Some(committed) = landing.read::<Committed>(COMMITTED)? {
            floor.retire(&intent.steps, &committed.done)?;
            recovered.finished += 1;
        } else {
            take_back(&floor, &intent)?;
            recovered.taken_back += 1;
        }
        landing.write(DONE, &(), hook)?;
    }
    Ok(recovered)
}

fn take_back(floor: &Floor<'_>, intent: &Intent) -> Result<(), CommitError> {
    let prepared: Option<Prepared> = floor.landing.read(PREPARED)?;
    for (index, step) in intent.steps.iter().enumerate().rev() {
        let own = match &prepared {
            None => Own {
                inode: None,
                made: false,
                is_prepared: false,
            },
            Some(prepared) => Own {
                inode: prepared.inodes.get(index).copied().flatten(),
                made: prepared.made.get(index).copied().unwrap_or(false),
                is_prepared: true,
            },
        };
        floor
            .revert(index, step, own)
            .doing("take back", &step.path)?;
    }
    floor.sync_all()
}
