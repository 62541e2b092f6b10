//! Positions: a journal read, or continued, from where an earlier reading was.

use std::fs;
use std::path::Path;

use aegis_policies::Journal;
use aegis_policies::journal::{
    self, Entry, Event, JournalError, Options, Position, Seq, VerdictId,
};
use proptest::prelude::*;
use tempfile::TempDir;

use crate::entries;

const SMALL_SEGMENTS: Options = Options {
    segment_bytes: 600,
    executable: |_| None,
};

/// A journal of these events.
fn written(events: &[Event]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::create_with(directory.path(), SMALL_SEGMENTS).unwrap();
    for event in events {
        journal.append(0, VerdictId(3), event.clone()).unwrap();
    }
    directory
}

/// Every entry, and the positions before, between and after them.
fn walked(directory: &Path) -> (Vec<(Seq, Entry)>, Vec<Position>) {
    let mut reading = journal::read(directory).unwrap();
    let mut found = (Vec::new(), vec![]);
    while let Some(item) = reading.next() {
        found.0.push(item.unwrap());
        found.1.push(reading.position().clone());
    }
    found
}

fn ended(count: i32) -> Vec<Event> {
    (0..count).map(|status| Event::Ended { status }).collect()
}

fn is_unfit(directory: &Path, position: &Position) -> bool {
    let read = journal::read_from(directory, position);
    let resumed = Journal::resume_at(directory, position);
    let unfit = matches!(read, Err(JournalError::Unfit { .. }));
    assert_eq!(unfit, matches!(resumed, Err(JournalError::Unfit { .. })));
    unfit
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..Default::default() })]

    #[test]
    fn reading_goes_on_at_any_position(
        events in proptest::collection::vec(entries::event(), 1..30),
    ) {
        let directory = written(&events);
        let (entries, positions) = walked(directory.path());
        for position in &positions {
            let rest: Result<Vec<_>, _> =
                journal::read_from(directory.path(), position).unwrap().collect();
            let next = usize::try_from(position.next()).unwrap();
            prop_assert_eq!(rest.unwrap(), &entries[next..]);
            let at = next.checked_sub(1).map_or(0, |last| entries[last].1.at);
            prop_assert_eq!(position.at(), at);
        }
    }

    #[test]
    fn a_journal_is_continued_at_any_position_as_from_its_start(
        events in proptest::collection::vec(entries::event(), 1..20),
        at in any::<prop::sample::Index>(),
    ) {
        let directory = written(&events);
        let (_, positions) = walked(directory.path());
        let position = &positions[at.index(positions.len())];
        let resumed = Journal::resume_at(directory.path(), position).unwrap();
        let whole = Journal::resume(directory.path()).unwrap();
        prop_assert_eq!(resumed.position(), whole.position());
        prop_assert_eq!(resumed.position(), positions.last().unwrap().clone());
        drop(whole);
        let seq = resumed.append(0, VerdictId(0), Event::Ended { status: 1 }).unwrap();
        prop_assert_eq!(seq, events.len() as Seq);
        prop_assert_eq!(walked(directory.path()).0.len(), events.len() + 1);
    }
}

#[test]
fn a_position_of_another_journal_does_not_fit() {
    let directory = written(&ended(30));
    let other = written(&[ended(1), ended(29)].concat());
    for position in walked(other.path()).1 {
        assert!(is_unfit(directory.path(), &position), "{position:?}");
        assert!(!is_unfit(other.path(), &position), "{position:?}");
    }
}

#[test]
fn a_position_behind_the_end_does_not_fit() {
    let directory = written(&ended(30));
    let (_, positions) = walked(directory.path());
    let last = fs::read_dir(directory.path()).unwrap().count() - 1;
    fs::remove_file(directory.path().join(format!("{last:08}.aej"))).unwrap();
    let kept = walked(directory.path()).1.len();
    for (number, position) in positions.iter().enumerate() {
        assert_eq!(is_unfit_or_gone(directory.path(), position), number >= kept);
    }
}

fn is_unfit_or_gone(directory: &Path, position: &Position) -> bool {
    journal::read_from(directory, position).is_err()
}

#[test]
fn a_position_fits_only_when_all_segments_before_it_are_there() {
    let directory = written(&ended(60));
    let (_, positions) = walked(directory.path());
    let position = positions.last().unwrap();
    assert!(!is_unfit(directory.path(), position));
    fs::remove_file(directory.path().join("00000001.aej")).unwrap();
    assert!(is_unfit(directory.path(), position));
}

#[test]
fn damage_behind_a_position_is_named() {
    let directory = written(&ended(9));
    let (_, positions) = walked(directory.path());
    let path = directory.path().join("00000000.aej");
    let mut bytes = fs::read(&path).unwrap();
    let damaged = bytes.len() - 80;
    bytes[damaged] ^= 1;
    fs::write(&path, bytes).unwrap();
    let refused = Journal::resume_at(directory.path(), &positions[2]);
    assert!(
        matches!(refused, Err(JournalError::Damaged { .. })),
        "{refused:?}"
    );
}
