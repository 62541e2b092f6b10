//! After a crash: landings that were not committed are taken back, the others are finished.

use super::super::error::{CommitError, Doing as _};
use super::super::landing::{
    self, COMMITTED, Committed, DONE, Hook, INTENT, Intent, Landing, PARTLY, PREPARED, Prepared,
};
use super::super::site::Site;
use super::floor::Floor;
use super::retire::Whole;
use super::revert::Own;
use crate::layout::SessionDir;

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
///
/// A landing that has something in a folder that is not there now stays interrupted, and is seen to
/// again by the next call.
pub(crate) fn recover(site: &Site<'_>, hook: Hook<'_>) -> Result<Recovered, CommitError> {
    let mut recovered = Recovered::default();
    for (landing, intent) in interrupted(site.session())? {
        let floor = Floor {
            site: *site,
            landing: &landing,
            hook,
        };
        let committed = landing.read::<Committed>(COMMITTED)?;
        let (whole, count) = match &committed {
            Some(committed) => (
                floor.finish(&intent.steps, committed)?,
                &mut recovered.finished,
            ),
            None => (take_back(&floor, &intent)?, &mut recovered.taken_back),
        };
        if whole == Whole::Yes {
            *count += 1;
        }
    }
    Ok(recovered)
}

/// The landings of a session that are neither taken back nor finished, the newest first.
pub(crate) fn interrupted(session: &SessionDir) -> Result<Vec<(Landing, Intent)>, CommitError> {
    let mut found = Vec::new();
    for id in landing::identifiers(session)?.iter().rev() {
        let landing = Landing::open(session, id)?;
        if landing.read::<()>(DONE)?.is_none()
            && let Some(intent) = landing.read::<Intent>(INTENT)?
        {
            found.push((landing, intent));
        }
    }
    Ok(found)
}

fn take_back(floor: &Floor<'_>, intent: &Intent) -> Result<Whole, CommitError> {
    let prepared: Option<Prepared> = floor.landing.read(PREPARED)?;
    let is_again = floor.landing.read::<()>(PARTLY)?.is_some();
    let (mut whole, mut result) = (Whole::Yes, Ok(()));
    for (index, step) in intent.steps.iter().enumerate().rev() {
        // What had no original has been seen to, and its inode's number may be another file's now.
        if is_again && !step.displaces() {
            continue;
        }
        let reverted = floor.revert(index, step, own(prepared.as_ref(), index));
        result = result.and(reverted.doing("take back", &step.path));
        if floor.is_away(step) {
            whole = Whole::No;
        }
    }
    result.and(floor.sync_all())?;
    let record = match whole {
        Whole::Yes => DONE,
        Whole::No => PARTLY,
    };
    floor.landing.write(record, &(), floor.hook)?;
    Ok(whole)
}

fn own(prepared: Option<&Prepared>, index: usize) -> Own {
    prepared.map_or(
        Own {
            inode: None,
            made: false,
            is_prepared: false,
        },
        |prepared| Own {
            inode: prepared.inodes.get(index).copied().flatten(),
            made: prepared.made.get(index).copied().unwrap_or(false),
            is_prepared: true,
        },
    )
}
