//! The shadow of a session at a position of its journal: one function for everybody who needs it.

use std::collections::{BTreeMap, BTreeSet};

use aegis_policies::journal::{self, Event, Seq};

use super::error::OverlayError;
use super::relocations::Relocations;
use super::shadow::Shadow;
use crate::layout::SessionDir;

/// How much of a journal is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upto {
    /// All of it.
    End,
    /// The entries before this one.
    Entry(Seq),
}

/// What a replay gives.
#[derive(Debug)]
pub(crate) struct Replayed {
    /// The state.
    pub(crate) shadow: Shadow,
    /// The number of entries that made it: the next one has this number.
    pub(crate) next: Seq,
}

/// The shadow of a session at a position of its journal; `relocations` is what landings of the
/// session have made of the project. It reads, and changes nothing.
///
/// # Errors
/// [`OverlayError::Journal`] when an entry can not be read, [`OverlayError::Replay`] when one does
/// not follow from those before it.
pub(crate) fn replay(
    session: &SessionDir,
    relocations: &Relocations,
    upto: Upto,
) -> Result<Replayed, OverlayError> {
    let mut targets = BTreeSet::new();
    loop {
        let before = targets.len();
        let replayed = pass(session, relocations, upto, &mut targets)?;
        // What a rewind goes back to is kept on the way there, so its number must be known by then.
        if targets.len() == before {
            return Ok(replayed);
        }
    }
}

/// Replays once; `targets` are the entries that rewinds go back to, as far as they are known. When
/// there are more, they are noted, and the result is not of use.
fn pass(
    session: &SessionDir,
    relocations: &Relocations,
    upto: Upto,
    targets: &mut BTreeSet<Seq>,
) -> Result<Replayed, OverlayError> {
    let mut replayed = Replayed {
        shadow: Shadow::over(relocations.clone()),
        next: 0,
    };
    let mut past: BTreeMap<Seq, Shadow> = BTreeMap::new();
    let mut useless = false;
    for item in journal::read(&session.journal())? {
        let (seq, entry) = item?;
        if upto == Upto::Entry(seq) {
            break;
        }
        if let Event::Rewound { to } = &entry.event {
            useless |= targets.insert(*to);
        }
        if useless {
            continue;
        }
        let misfit = |reason| OverlayError::Replay { seq, reason };
        let done = replayed
            .shadow
            .replay(seq, entry, |to| past.get(&to).cloned());
        done.map_err(|reason| misfit(reason.0))?;
        if targets.contains(&seq) {
            past.insert(seq, replayed.shadow.clone());
        }
        replayed.next = seq + 1;
    }
    Ok(replayed)
}
