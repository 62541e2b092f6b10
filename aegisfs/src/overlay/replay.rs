//! The shadow of a session at a position of its journal: one function for everybody who needs it.

use aegis_policies::journal::{self, Seq};

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
    let mut replayed = Replayed {
        shadow: Shadow::over(relocations.clone()),
        next: 0,
    };
    for item in journal::read(&session.journal())? {
        let (seq, entry) = item?;
        if upto == Upto::Entry(seq) {
            break;
        }
        let misfit = |reason| OverlayError::Replay { seq, reason };
        let done = replayed.shadow.replay(entry);
        done.map_err(|reason| misfit(reason.0))?;
        replayed.next = seq + 1;
    }
    Ok(replayed)
}
