//! Damaged journals: whatever happens to the files, what is read is what was written, up to where
//! the damage is named.

use std::fs;
use std::path::{Path, PathBuf};

use aegis_policies::Journal;
use aegis_policies::journal::{self, Event, JournalError, Options, VerdictId};
use proptest::prelude::*;
use proptest::sample::Index;
use tempfile::TempDir;

use crate::entries;

const SMALL_SEGMENTS: Options = Options {
    segment_bytes: 700,
    executable: |_| None,
};

fn written(events: &[Event]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::create_with(directory.path(), SMALL_SEGMENTS).unwrap();
    for event in events {
        journal.append(0, VerdictId(1), event.clone()).unwrap();
    }
    directory
}

fn segment(directory: &Path, index: usize) -> PathBuf {
    directory.join(format!("{index:08}.aej"))
}

/// Reads as far as it goes; the reason when it does not end in order.
fn reads(directory: &Path) -> (Vec<Event>, Option<JournalError>) {
    let mut found = Vec::new();
    let entries = match journal::read(directory) {
        Ok(entries) => entries,
        Err(error) => return (found, Some(error)),
    };
    for item in entries {
        match item {
            Ok((_, entry)) => found.push(entry.event),
            Err(error) => return (found, Some(error)),
        }
    }
    (found, None)
}

fn ended(count: i32) -> Vec<Event> {
    (0..count).map(|status| Event::Ended { status }).collect()
}

/// The path, byte and entry that damage names.
fn named(error: Option<JournalError>) -> (PathBuf, u64, u64, &'static str) {
    match error {
        Some(JournalError::Damaged {
            segment,
            offset,
            seq,
            reason,
        }) => (segment, offset, seq, reason),
        other => unreachable!("no damage was named: {other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_bytes_in_any_place_never_give_another_entry(
        events in proptest::collection::vec(entries::event(), 1..40),
        file in any::<Index>(), at in any::<Index>(),
        with in proptest::collection::vec(any::<u8>(), 0..120), cut in 0_usize..120,
    ) {
        let directory = written(&events);
        let count = fs::read_dir(directory.path()).unwrap().count();
        let path = segment(directory.path(), file.index(count));
        let mut bytes = fs::read(&path).unwrap();
        let at = at.index(bytes.len());
        let end = bytes.len().min(at + cut);
        bytes.splice(at..end, with);
        fs::write(&path, bytes).unwrap();
        let (found, _) = reads(directory.path());
        prop_assert!(events.starts_with(&found));
        // Opening for writing says the same, or cuts what was never whole.
        if Journal::resume_with(directory.path(), SMALL_SEGMENTS).is_ok() {
            prop_assert_eq!(reads(directory.path()).0, found);
        }
    }
}

#[test]
fn a_missing_segment_is_named_with_the_entry_that_it_began_with() {
    for missing in 0..3 {
        let directory = written(&ended(60));
        let before: Vec<_> = (0..missing)
            .map(|index| segment(directory.path(), index))
            .collect();
        fs::remove_file(segment(directory.path(), missing)).unwrap();
        let (found, error) = reads(directory.path());
        let (path, offset, seq, reason) = named(error);
        assert_eq!(path, segment(directory.path(), missing));
        assert_eq!((offset, seq), (0, found.len() as u64));
        assert_eq!(reason, "the segment is missing");
        assert_eq!(before.is_empty(), found.is_empty());
        assert!(Journal::resume(directory.path()).is_err());
    }
}

#[test]
fn a_segment_in_the_place_of_another_is_named() {
    let directory = written(&ended(60));
    let first = fs::read(segment(directory.path(), 0)).unwrap();
    let whole = reads(directory.path()).0.len();
    fs::write(segment(directory.path(), 1), first).unwrap();
    let (found, error) = reads(directory.path());
    let (path, offset, seq, reason) = named(error);
    assert_eq!(path, segment(directory.path(), 1));
    assert_eq!((offset, seq), (0, found.len() as u64));
    assert_eq!(reason, "the segment does not continue the one before");
    assert!(found.len() < whole);
}

#[test]
fn a_copy_of_a_segment_under_another_name_is_none() {
    let directory = written(&ended(60));
    let whole = reads(directory.path()).0;
    let bytes = fs::read(segment(directory.path(), 1)).unwrap();
    for name in [
        "00000001 (copy).aej",
        "1.aej",
        "+0000009.aej",
        "00000001.aej~",
    ] {
        fs::write(directory.path().join(name), &bytes).unwrap();
    }
    let (found, error) = reads(directory.path());
    assert!(error.is_none(), "{error:?}");
    assert_eq!(found, whole);
}

#[test]
fn a_middle_segment_that_was_cut_is_named_where_it_ends() {
    let directory = written(&ended(60));
    let path = segment(directory.path(), 1);
    let length = fs::metadata(&path).unwrap().len();
    for cut in [1, 20, 41, length - 64, length] {
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(length - cut).unwrap();
        let (found, error) = reads(directory.path());
        let (damaged, offset, seq, _) = named(error);
        // Nothing is wrong with a segment that ends behind its header, but the next does not follow.
        let next = usize::from(cut == length - 64);
        assert_eq!(damaged, segment(directory.path(), 1 + next));
        assert!(offset <= length);
        assert_eq!(seq, found.len() as u64);
    }
}
