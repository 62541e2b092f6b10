//! Checkpoints against replays from entry 0.

use std::fs;
use std::path::PathBuf;

use aegis_policies::journal::{Event, Options, ShadowOp, SnapshotCause, VerdictId};
use aegis_policies::{Journal, RelPath};
use proptest::prelude::*;
use proptest::sample::Index;

use super::super::relocations::Relocations;
use super::super::replay::{Replayed, Upto, replay, replay_whole};
use super::super::shadow::Shadow;
use super::super::shadow::tests::operation;
use super::file::Folder;
use super::*;

/// What makes a journal.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Change(Box<ShadowOp>),
    Snapshot,
    Rewind(Index),
    Other,
    Checkpoint,
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => operation().prop_map(|operation| Step::Change(operation.into())),
        2 => Just(Step::Snapshot),
        2 => any::<Index>().prop_map(Step::Rewind),
        1 => Just(Step::Other),
        2 => Just(Step::Checkpoint),
    ]
}

/// A session that has a journal and nothing else.
pub(crate) struct Bed {
    root: tempfile::TempDir,
}

impl Bed {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("journal")).unwrap();
        Self { root }
    }

    pub(crate) fn session(&self) -> SessionDir {
        SessionDir::new(self.root.path().to_owned())
    }

    /// A session with these steps behind it, as far as they fit.
    pub(crate) fn walked(steps: Vec<Step>) -> Self {
        let bed = Self::new();
        let options = Options {
            segment_bytes: 1500,
            ..Options::default()
        };
        let journal = Journal::create_with(&bed.session().journal(), options).unwrap();
        for step in steps {
            bed.walk(&journal, step);
        }
        bed
    }

    fn walk(&self, journal: &Journal, step: Step) {
        let next = journal.position().next();
        let event = match step {
            Step::Change(operation) => {
                let shadow = self.replayed().shadow;
                match shadow.prepare((*operation).clone()) {
                    Ok(_) => Event::Shadow(*operation),
                    Err(_) => return,
                }
            }
            Step::Snapshot => Event::Snapshot {
                name: None,
                cause: SnapshotCause::Requested,
            },
            Step::Rewind(to) if next > 0 => Event::Rewound {
                to: to.index(usize::try_from(next).unwrap()) as u64,
            },
            Step::Rewind(_) | Step::Other => Event::Ended { status: 0 },
            Step::Checkpoint => return self.checkpoint(),
        };
        journal.append(0, VerdictId(0), event).unwrap();
    }

    pub(crate) fn replayed(&self) -> Replayed {
        replay(&self.session(), &Relocations::default(), Upto::End).unwrap()
    }

    pub(crate) fn checkpoint(&self) {
        let replayed = self.replayed();
        let folder = Folder::make(&self.session()).unwrap();
        let none = Relocations::default();
        folder
            .write(&replayed.position, &none, &replayed.shadow)
            .unwrap();
    }

    fn files(&self) -> Vec<PathBuf> {
        let Ok(names) = fs::read_dir(self.session().checkpoints()) else {
            return Vec::new();
        };
        let mut files: Vec<_> = names.map(|name| name.unwrap().path()).collect();
        files.sort();
        files
    }
}

pub(crate) fn whole(bed: &Bed, upto: Upto) -> Shadow {
    replay_whole(&bed.session(), &Relocations::default(), upto)
        .unwrap()
        .shadow
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_state_at_any_position_is_that_of_a_replay_from_the_start(
        steps in proptest::collection::vec(step(), 0..40),
    ) {
        let bed = Bed::walked(steps);
        let end = bed.replayed();
        prop_assert!(end.dismissed.is_empty());
        prop_assert_eq!(&end.shadow, &whole(&bed, Upto::End));
        for seq in 0..=end.position.next() {
            let upto = Upto::Entry(seq);
            let there = replay(&bed.session(), &Relocations::default(), upto).unwrap();
            prop_assert_eq!(there.position.next(), seq);
            prop_assert_eq!(there.shadow, whole(&bed, upto));
        }
        prop_assert!(bed.files().len() <= 2);
        let verified = verify(&bed.session(), &Relocations::default()).unwrap();
        prop_assert_eq!(verified.checkpoints, bed.files().len());
        prop_assert_eq!(verified.chain, end.position.chain());
    }

    #[test]
    fn a_damaged_checkpoint_is_named_and_changes_nothing(
        steps in proptest::collection::vec(step(), 1..25),
        at in any::<Index>(), bit in 0_u32..8, cut in any::<bool>(),
    ) {
        let bed = Bed::walked(steps);
        bed.checkpoint();
        let newest = bed.files().pop().unwrap();
        let mut bytes = fs::read(&newest).unwrap();
        let at = at.index(bytes.len());
        if cut {
            bytes.truncate(at);
        } else {
            bytes[at] ^= 1 << bit;
        }
        fs::write(&newest, bytes).unwrap();
        let replayed = bed.replayed();
        prop_assert_eq!(&replayed.shadow, &whole(&bed, Upto::End));
        prop_assert_eq!(replayed.dismissed.len(), 1);
        prop_assert_eq!(&replayed.dismissed[0].file, &newest);
        let resumed = resume_journal(&bed.session()).unwrap();
        prop_assert_eq!(resumed.position(), replayed.position);
    }
}

/// Entries that change a tree, one after the other.
pub(crate) fn made(count: u64) -> Vec<Step> {
    let make = |number: u64| {
        let operation = ShadowOp::Create {
            path: RelPath::parse(format!("made-{number}").as_bytes()).unwrap(),
            node: aegis_policies::journal::NodeId((1 << 63) + 1 + number),
            kind: aegis_policies::journal::NodeKind::File,
            mode: 0o644,
            uid: 0,
            gid: 0,
        };
        Step::Change(Box::new(operation))
    };
    (0..count).map(make).collect()
}

#[test]
fn a_checkpoint_of_another_journal_is_not_used() {
    let bed = Bed::walked(made(20));
    let other = Bed::walked(made(18));
    other.checkpoint();
    fs::create_dir(bed.session().checkpoints()).unwrap();
    let foreign = other.files().pop().unwrap();
    let copied = bed
        .session()
        .checkpoints()
        .join(foreign.file_name().unwrap());
    fs::write(copied, fs::read(foreign).unwrap()).unwrap();
    let replayed = bed.replayed();
    assert_eq!(replayed.shadow, whole(&bed, Upto::End));
    assert_eq!(replayed.begun, 0);
    assert!(
        replayed.dismissed[0].reason.contains("chain"),
        "{:?}",
        replayed.dismissed
    );
}

#[test]
fn a_checkpoint_behind_the_end_of_the_journal_is_not_used() {
    let bed = Bed::walked(made(20));
    bed.checkpoint();
    let names = fs::read_dir(bed.session().journal()).unwrap();
    let last = names.map(|name| name.unwrap().path()).max();
    let segment = last.unwrap();
    let length = fs::metadata(&segment).unwrap().len();
    let file = fs::OpenOptions::new().write(true).open(&segment).unwrap();
    file.set_len(length - 10).unwrap();
    let replayed = bed.replayed();
    assert_eq!(replayed.position.next(), 19);
    assert_eq!(replayed.shadow, whole(&bed, Upto::End));
    assert_eq!(replayed.dismissed.len(), 1);
}

#[test]
fn a_checkpoint_from_before_a_landing_is_passed_over() {
    let bed = Bed::walked(made(20));
    bed.checkpoint();
    let landed = [(RelPath::parse(b"made-3").unwrap(), 5)];
    let relocations = Relocations::default().with_landed(landed);
    let replayed = replay(&bed.session(), &relocations, Upto::End).unwrap();
    assert_eq!((replayed.begun, replayed.dismissed.len()), (0, 0));
    assert!(bed.replayed().begun > 0);
}

#[test]
fn what_a_crash_left_half_written_is_removed() {
    let bed = Bed::walked(made(3));
    bed.checkpoint();
    let folder = bed.session().checkpoints();
    for name in ["0000000000000002.aec.part", "00000000000000ff.aec", "junk"] {
        fs::write(folder.join(name), "half").unwrap();
    }
    assert_eq!(
        bed.replayed().dismissed.len(),
        1,
        "the one that claims to be newer"
    );
    bed.checkpoint();
    assert_eq!(bed.files().len(), 1);
    assert!(bed.replayed().dismissed.is_empty());
}

/// Another shape of the shadow must be another version of the file, or an old checkpoint would be
/// read as something that it is not: where the second line changes, the first one must as well.
#[test]
fn the_shape_of_a_checkpoint_belongs_to_its_version() {
    let mut shadow = Shadow::new();
    for step in made(1) {
        if let Step::Change(operation) = step {
            let prepared = shadow.prepare(*operation).unwrap();
            shadow.commit(prepared, 7);
        }
    }
    shadow.snapshot(2, 9, Some("named".to_owned()), SnapshotCause::Requested);
    let bytes = postcard::to_stdvec(&shadow).unwrap();
    let version = file::VERSION;
    insta::assert_snapshot!(format!("version {version}\n{}", bytes.escape_ascii()));
}
