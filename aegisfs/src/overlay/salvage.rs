//! What can be saved of a session whose record is damaged. Nothing is written to the session.
//!
//! The tree is that of the entries before the damage. Where a checkpoint lies behind it, the entries
//! after that one follow from it, and only the record between is lost.

use std::io;
use std::os::fd::BorrowedFd;

use aegis_policies::journal::Seq;
use rustix::fs::stat;
use rustix::io::Errno;

use super::changes::{self, Change, Content};
use super::checkpoint;
use super::content::TICK;
use super::error::OverlayError;
use super::reader::ContentFile;
use super::relocations::Relocations;
use super::replay::{Replayed, replay_sound};
use super::shadow::Shadow;
use crate::layout::SessionDir;

/// The part of a session that can be saved.
#[derive(Debug)]
pub struct Salvage {
    pub(crate) shadow: Shadow,
    pub(crate) relocations: Relocations,
    /// The entry before which the saved part ends.
    pub next: Seq,
    /// The time of the last saved entry, in nanoseconds since the Unix epoch.
    pub at: u64,
    /// The entry of the checkpoint through which the first damage was passed by.
    pub passed_by: Option<Seq>,
    /// What is damaged, in the order of the journal; empty for a session that is whole. With a
    /// checkpoint behind the first damage there may be another one after it.
    pub damage: Vec<OverlayError>,
}

/// A name that the session changed, and what is left of it.
#[derive(Debug)]
pub struct Saved {
    /// The change.
    pub change: Change,
    /// Its content.
    pub state: State,
}

/// What is left of the content of a name.
#[derive(Debug)]
pub enum State {
    /// All of it, as far as the record goes.
    Whole,
    /// It has been written to after the last saved entry.
    Newer,
    /// A part is lost: the host's file changed before all of it was copied.
    Torn,
    /// It can not be read.
    Lost(io::Error),
}

/// Finds out what can be saved of a session that nobody serves. `relocations` is what landings of
/// the session have made of the project.
///
/// # Errors
/// [`OverlayError::Journal`] when there is no journal at all.
pub fn salvage(session: &SessionDir, relocations: Relocations) -> Result<Salvage, OverlayError> {
    let (begun, damage) = replay_sound(session, &relocations, || None);
    let Some(damage) = damage else {
        return Ok(Salvage::of(begun, relocations, Vec::new(), None));
    };
    if begun.position.bytes() == 0 && is_absent(&damage) {
        return Err(damage);
    }
    for seq in checkpoint::list(session) {
        let base = || checkpoint::salvage(session, &relocations, seq);
        if seq <= begun.position.next() || base().is_none() {
            continue;
        }
        let (rest, further) = replay_sound(session, &relocations, base);
        let damage = [Some(damage), further].into_iter().flatten().collect();
        return Ok(Salvage::of(rest, relocations, damage, Some(seq)));
    }
    Ok(Salvage::of(begun, relocations, vec![damage], None))
}

impl Salvage {
    fn of(
        replayed: Replayed,
        relocations: Relocations,
        damage: Vec<OverlayError>,
        passed_by: Option<Seq>,
    ) -> Self {
        Self {
            next: replayed.position.next(),
            at: replayed.position.at(),
            shadow: replayed.shadow,
            relocations,
            passed_by,
            damage,
        }
    }

    /// What the session had changed, and what is left of each name, parents before what is in them.
    ///
    /// # Errors
    /// [`OverlayError`] when the project can not be read.
    pub fn files(
        &self,
        session: &SessionDir,
        project: BorrowedFd<'_>,
    ) -> Result<Vec<Saved>, OverlayError> {
        let changes = changes::of_shadow(&self.shadow, session, project, &self.relocations)?;
        let saved = changes.into_iter().map(|change| {
            let state = self.state(&change, project);
            Saved { change, state }
        });
        Ok(saved.collect())
    }

    /// Opens the content of a changed file for reading.
    ///
    /// # Errors
    /// What the file system said.
    pub fn open(&self, content: &Content, project: BorrowedFd<'_>) -> io::Result<ContentFile> {
        ContentFile::of(content, project, &|| self.relocations.clone())
    }

    fn state(&self, change: &Change, project: BorrowedFd<'_>) -> State {
        let Some(content) = change
            .after
            .as_ref()
            .and_then(|after| after.content.as_ref())
        else {
            return State::Whole;
        };
        match self.open(content, project) {
            Err(error) => State::Lost(error),
            Ok(file) if file.is_torn() => State::Torn,
            Ok(_) if self.is_newer(content) => State::Newer,
            Ok(_) => State::Whole,
        }
    }

    /// Whether content of the session has been written to after the last saved entry.
    fn is_newer(&self, content: &Content) -> bool {
        let Content::Shadow(path) = content else {
            return false;
        };
        let at = i64::try_from(self.at).unwrap_or(i64::MAX);
        // Not the modification time, which the agent can set back.
        stat(path).is_ok_and(|stat| {
            let changed = stat.st_ctime.saturating_mul(1_000_000_000);
            changed.saturating_add_unsigned(stat.st_ctime_nsec) > at.saturating_add(TICK)
        })
    }
}

/// Whether there is nothing that could be damaged.
fn is_absent(error: &OverlayError) -> bool {
    use aegis_policies::journal::JournalError;
    matches!(error, OverlayError::Journal(JournalError::Io { source, .. })
        if Errno::from_io_error(source) == Some(Errno::NOENT))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::super::checkpoint::tests::{Bed, step, whole};
    use super::super::replay::Upto;
    use super::*;

    /// What happens to a journal's segments.
    #[derive(Clone, Debug)]
    enum Harm {
        Flip(Index, Index, u32),
        Zero(Index, Index),
        Cut(Index, Index),
        Remove(Index),
        Replace(Index, Index),
        Insert(Index, Index, Vec<u8>),
    }

    fn harm() -> impl Strategy<Value = Harm> {
        let index = any::<Index>;
        prop_oneof![
            4 => (index(), index(), 0_u32..8).prop_map(|(file, at, bit)| Harm::Flip(file, at, bit)),
            2 => (index(), index()).prop_map(|(file, at)| Harm::Zero(file, at)),
            2 => (index(), index()).prop_map(|(file, at)| Harm::Cut(file, at)),
            1 => index().prop_map(Harm::Remove),
            1 => (index(), index()).prop_map(|(file, by)| Harm::Replace(file, by)),
            1 => (index(), index(), proptest::collection::vec(any::<u8>(), 1..80))
                .prop_map(|(file, at, bytes)| Harm::Insert(file, at, bytes)),
        ]
    }

    fn segments(session: &SessionDir) -> Vec<PathBuf> {
        let names = fs::read_dir(session.journal()).unwrap();
        let mut files: Vec<_> = names.map(|name| name.unwrap().path()).collect();
        files.sort();
        files
    }

    fn inflict(session: &SessionDir, harm: &Harm) {
        let files = segments(session);
        if files.is_empty() {
            return;
        }
        let change = |file: &Index, change: &dyn Fn(&mut Vec<u8>)| {
            let path = &files[file.index(files.len())];
            let mut bytes = fs::read(path).unwrap();
            change(&mut bytes);
            fs::write(path, bytes).unwrap();
        };
        match harm {
            Harm::Flip(file, at, bit) => change(file, &|bytes| {
                let at = at.index(bytes.len().max(1));
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << bit;
                }
            }),
            Harm::Zero(file, at) => change(file, &|bytes| {
                let at = at.index(bytes.len() + 1);
                let end = bytes.len().min(at + 100);
                bytes[at..end].fill(0);
            }),
            Harm::Cut(file, at) => change(file, &|bytes| bytes.truncate(at.index(bytes.len() + 1))),
            Harm::Remove(file) => fs::remove_file(&files[file.index(files.len())]).unwrap(),
            Harm::Replace(file, by) => {
                let other = fs::read(&files[by.index(files.len())]).unwrap();
                change(file, &|bytes| bytes.clone_from(&other));
            }
            Harm::Insert(file, at, more) => change(file, &|bytes| {
                let at = at.index(bytes.len() + 1);
                bytes.splice(at..at, more.iter().copied());
            }),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..Default::default() })]

        /// Whatever happens to the journal: what is saved is the very state that it had at that
        /// entry, and nothing is lost without a word but a tail that was never whole.
        #[test]
        fn what_is_saved_is_what_was(
            steps in proptest::collection::vec(step(), 1..50),
            harms in proptest::collection::vec(harm(), 1..3),
        ) {
            let bed = Bed::walked(steps);
            let session = bed.session();
            let end = bed.replayed().position.next();
            let states: Vec<Shadow> = (0..=end).map(|seq| whole(&bed, Upto::Entry(seq))).collect();
            harms.iter().for_each(|harm| inflict(&session, harm));
            let Ok(saved) = salvage(&session, Relocations::default()) else {
                prop_assert!(segments(&session).is_empty());
                return Ok(());
            };
            prop_assert!(saved.next <= end);
            prop_assert_eq!(&saved.shadow, &states[usize::try_from(saved.next).unwrap()]);
            // What never reached the disk is missing at the end, or reads as zeros.
            let unwritten = |harm: &Harm| {
                matches!(harm, Harm::Remove(_) | Harm::Cut(..) | Harm::Zero(..))
            };
            if saved.next < end && saved.damage.is_empty() {
                let torn = harms.iter().any(unwritten) || end - saved.next == 1;
                prop_assert!(torn, "{} of {end} without a word", saved.next);
            }
        }
    }

    #[test]
    fn a_checkpoint_behind_the_damage_saves_the_whole_tree() {
        let mut steps = super::super::checkpoint::tests::made(40);
        steps.push(super::super::checkpoint::tests::Step::Checkpoint);
        steps.extend(super::super::checkpoint::tests::made(43).split_off(40));
        let bed = Bed::walked(steps);
        let before = bed.replayed().shadow;
        fs::remove_file(&segments(&bed.session())[0]).unwrap();
        let saved = salvage(&bed.session(), Relocations::default()).unwrap();
        assert_eq!((saved.next, saved.passed_by), (43, Some(40)));
        assert_eq!(saved.shadow, before);
        let damage: Vec<_> = saved.damage.iter().map(ToString::to_string).collect();
        assert!(
            damage[0].contains("00000000.aej` is damaged at byte 0 (entry 0)"),
            "{damage:?}"
        );
        assert_eq!(damage.len(), 1);
    }
}
