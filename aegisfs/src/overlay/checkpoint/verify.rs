//! The whole check of a session's record: every frame of the journal, and that each checkpoint is
//! what the journal leads to.

use aegis_policies::journal::Seq;

use super::super::error::OverlayError;
use super::super::relocations::Relocations;
use super::super::replay::{self, Upto};
use super::file::Folder;
use super::{Dismissed, newest};
use crate::layout::SessionDir;

/// What was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Entries of the journal; the chain holds over all of them.
    pub entries: Seq,
    /// The chain value of the last one. A copy of it elsewhere shows a journal that was rewritten.
    pub chain: [u8; 32],
    /// Checkpoints that are what the journal leads to.
    pub checkpoints: usize,
    /// Checkpoints that are not, or can not be read.
    pub dismissed: Vec<Dismissed>,
}

/// Reads the journal from entry 0, rebuilds the tree from it, and compares the checkpoints with it.
///
/// # Errors
/// [`OverlayError`] when the journal is damaged or does not lead to a tree.
pub fn verify(session: &SessionDir, relocations: &Relocations) -> Result<Verified, OverlayError> {
    let whole = replay::replay_whole(session, relocations, Upto::End)?;
    let mut verified = Verified {
        entries: whole.position.next(),
        chain: whole.position.chain(),
        checkpoints: 0,
        dismissed: Vec::new(),
    };
    let folder = Folder::open(session)?;
    for seq in folder.map_or(Ok(Vec::new()), |folder| folder.list())? {
        let search = newest(session, relocations, seq);
        verified.dismissed.extend(search.dismissed);
        let Some(found) = search.found.filter(|it| it.position.next() == seq) else {
            continue;
        };
        let until = replay::replay_whole(session, relocations, Upto::Entry(seq))?;
        let chained = until.position.chain() == found.position.chain();
        if chained && until.shadow == found.shadow {
            verified.checkpoints += 1;
        } else {
            verified
                .dismissed
                .push(Dismissed::new(session, seq, DIFFERS));
        }
    }
    verified.dismissed.dedup();
    Ok(verified)
}

const DIFFERS: &str = "it is not what the journal leads to";
