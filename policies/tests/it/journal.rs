//! The journal: what is written comes back, a torn tail is cut, damage is found and named.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aegis_policies::Journal;
use aegis_policies::journal::{self, Entry, Event, JournalError, Options, Seq, VerdictId};
use proptest::prelude::*;
use tempfile::TempDir;

use crate::entries;

const SMALL_SEGMENTS: Options = Options {
    segment_bytes: 600,
    executable: |_| None,
};

fn read(directory: &Path) -> Result<Vec<(Seq, Entry)>, JournalError> {
    journal::read(directory)?.collect()
}

fn events(directory: &Path) -> Vec<Event> {
    read(directory)
        .unwrap()
        .into_iter()
        .map(|(_, entry)| entry.event)
        .collect()
}

fn ended(status: i32) -> Event {
    Event::Ended { status }
}

fn segment(directory: &Path, index: u32) -> PathBuf {
    directory.join(format!("{index:08}.aej"))
}

/// A journal of `count` entries in segments of `options`, and where each entry's frame ends.
fn written(count: i32, options: Options) -> (TempDir, Vec<u64>) {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::create_with(directory.path(), options).unwrap();
    let ends = (0..count).map(|status| {
        journal.append(0, VerdictId(7), ended(status)).unwrap();
        fs::metadata(segment(directory.path(), 0)).unwrap().len()
    });
    let ends = ends.collect();
    (directory, ends)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_written_comes_back(
        entries in proptest::collection::vec((0_u32..3, any::<u32>(), entries::event()), 0..40),
        resume_after in 0_usize..40,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::create_with(directory.path(), SMALL_SEGMENTS).unwrap();
        let mut expected = Vec::new();
        for (number, (pid, verdict, event)) in entries.iter().enumerate() {
            if number == resume_after {
                drop(journal);
                journal = Journal::resume_with(directory.path(), SMALL_SEGMENTS).unwrap();
            }
            let seq = journal.append(*pid, VerdictId(*verdict), event.clone()).unwrap();
            expected.push((seq, *pid, VerdictId(*verdict), event.clone()));
        }
        let all = read(directory.path()).unwrap();
        prop_assert!(all.iter().enumerate().all(|(number, (seq, _))| *seq == number as Seq));
        prop_assert!(all.is_sorted_by_key(|(_, entry)| entry.at));
        let found: Vec<_> = expected.iter().map(|(seq, ..)| {
            let (seq, entry) = all[usize::try_from(*seq).unwrap()].clone();
            (seq, entry.pid, entry.verdict, entry.event)
        }).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn any_flipped_bit_before_the_tail_is_found_and_named(
        at in 0_usize..10_000, bit in 0_u32..8, index in 0_u32..3,
    ) {
        let (directory, _) = written(40, SMALL_SEGMENTS);
        let path = segment(directory.path(), index);
        let mut bytes = fs::read(&path).unwrap();
        // The last frame of the last segment is the tail.
        let last_frame = if segment(directory.path(), index + 1).exists() { 0 } else { 50 };
        let at = at % (bytes.len() - last_frame);
        bytes[at] ^= 1 << bit;
        fs::write(&path, bytes).unwrap();
        let whole: Vec<_> = journal::read(directory.path()).unwrap().collect();
        let Some(Err(JournalError::Damaged { segment, offset, seq, .. })) = whole.last() else {
            return Err(TestCaseError::fail(format!("{:?}", whole.last())));
        };
        prop_assert_eq!(segment, &path);
        prop_assert!(*offset <= at as u64);
        prop_assert_eq!(*seq, whole.len() as Seq - 1);
        let refused = Journal::resume_with(directory.path(), SMALL_SEGMENTS);
        let is_damaged = matches!(refused, Err(JournalError::Damaged { .. }));
        prop_assert!(is_damaged);
    }
}

proptest! {
    #[test]
    fn whatever_follows_a_sound_prefix_is_cut_or_named(
        garbage in proptest::collection::vec(any::<u8>(), 1..300),
    ) {
        let (directory, ends) = written(3, Options::default());
        let path = segment(directory.path(), 0);
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend_from_slice(&garbage);
        fs::write(&path, &bytes).unwrap();
        match Journal::resume(directory.path()) {
            Ok(_) => prop_assert_eq!(fs::metadata(&path).unwrap().len(), ends[2]),
            Err(JournalError::Damaged { seq, offset, .. }) => {
                prop_assert_eq!((seq, offset), (3, ends[2]));
                prop_assert_eq!(fs::read(&path).unwrap(), bytes);
            }
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        }
    }
}

#[test]
fn a_tail_cut_at_any_byte_is_recovered_to_the_last_whole_entry() {
    let (directory, ends) = written(5, Options::default());
    let path = segment(directory.path(), 0);
    let whole = fs::read(&path).unwrap();
    for length in ends[3]..ends[4] {
        fs::write(&path, &whole[..usize::try_from(length).unwrap()]).unwrap();
        assert_eq!(
            events(directory.path()),
            [0, 1, 2, 3].map(ended),
            "cut at {length}"
        );
        let journal = Journal::resume(directory.path()).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().len(),
            ends[3],
            "cut at {length}"
        );
        assert_eq!(journal.append(0, VerdictId(0), ended(9)).unwrap(), 4);
        assert_eq!(
            events(directory.path()),
            [0, 1, 2, 3, 9].map(ended),
            "cut at {length}"
        );
    }
}

#[test]
fn a_tail_of_blocks_that_were_never_written_is_cut() {
    let (directory, ends) = written(5, Options::default());
    let path = segment(directory.path(), 0);
    for kept in [ends[3], ends[3] + 1, ends[3] + 20, ends[4] - 1] {
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(kept).unwrap();
        file.set_len(ends[4] + 4096).unwrap();
        let journal = Journal::resume(directory.path()).unwrap();
        journal.append(0, VerdictId(0), ended(4)).unwrap();
        assert_eq!(
            events(directory.path()),
            [0, 1, 2, 3, 4].map(ended),
            "kept {kept}"
        );
    }
}

#[test]
fn a_header_cut_at_any_byte_holds_nothing_and_is_made_anew() {
    for rotated in [false, true] {
        let (directory, _) = written(if rotated { 12 } else { 0 }, SMALL_SEGMENTS);
        let last = segment(directory.path(), u32::from(rotated));
        let before = if rotated {
            read(directory.path()).unwrap().len()
        } else {
            0
        };
        for length in 0..64 {
            fs::OpenOptions::new()
                .write(true)
                .open(&last)
                .unwrap()
                .set_len(length)
                .unwrap();
            let kept = read(directory.path()).unwrap().len();
            let journal = Journal::resume_with(directory.path(), SMALL_SEGMENTS).unwrap();
            assert_eq!(
                journal.append(0, VerdictId(0), ended(1)).unwrap(),
                kept as Seq
            );
            assert!(kept <= before);
        }
    }
}

#[test]
fn a_segment_that_can_not_be_made_loses_nothing() {
    let (directory, _) = written(0, SMALL_SEGMENTS);
    let journal = Journal::resume_with(directory.path(), SMALL_SEGMENTS).unwrap();
    let obstacle = segment(directory.path(), 1);
    fs::create_dir(&obstacle).unwrap();
    let mut kept = 0;
    while journal.append(0, VerdictId(0), ended(kept)).is_ok() {
        kept += 1;
    }
    assert!(journal.append(0, VerdictId(0), ended(-1)).is_err());
    fs::remove_dir(&obstacle).unwrap();
    journal.append(0, VerdictId(0), ended(kept)).unwrap();
    let expected: Vec<_> = (0..=kept).map(ended).collect();
    assert_eq!(events(directory.path()), expected);
}

#[test]
fn a_missing_segment_is_not_passed_over() {
    let (directory, _) = written(60, SMALL_SEGMENTS);
    fs::remove_file(segment(directory.path(), 1)).unwrap();
    let error = read(directory.path()).unwrap_err();
    assert!(error.to_string().contains("00000001.aej"), "{error}");
}

#[test]
fn frames_can_not_change_places() {
    let (directory, ends) = written(3, Options::default());
    let path = segment(directory.path(), 0);
    let bytes = fs::read(&path).unwrap();
    let at = |end: usize| usize::try_from(ends[end]).unwrap();
    let swapped = [&bytes[..at(0)], &bytes[at(1)..at(2)], &bytes[at(0)..at(1)]].concat();
    fs::write(&path, swapped).unwrap();
    let error = read(directory.path()).unwrap_err();
    assert!(
        matches!(error, JournalError::Damaged { seq: 1, .. }),
        "{error}"
    );
}

#[test]
fn an_existing_journal_is_not_started_over() {
    let (directory, _) = written(1, Options::default());
    assert!(Journal::create(directory.path()).is_err());
    assert_eq!(events(directory.path()), [ended(0)]);
    assert!(Journal::resume(&directory.path().join("absent")).is_err());
}

#[test]
fn a_journal_of_another_version_is_refused_and_left_alone() {
    let (directory, _) = written(0, Options::default());
    let path = segment(directory.path(), 0);
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 2;
    fs::write(&path, &bytes).unwrap();
    let error = Journal::resume(directory.path()).unwrap_err();
    assert!(error.to_string().contains("version"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn is_for_its_owner_only() {
    let (directory, _) = written(1, Options::default());
    let mode = fs::metadata(segment(directory.path(), 0))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o600);
}

#[test]
fn a_process_is_named_once_and_again_when_it_became_another() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        executable: |pid| (pid == 9).then(|| b"/usr/bin/git".to_vec()),
        ..Options::default()
    };
    let journal = Journal::create_with(directory.path(), options).unwrap();
    for pid in [0, 9, 9, 8] {
        journal.append(pid, VerdictId(0), ended(0)).unwrap();
    }
    let process = |exe: &[u8]| Event::Process { exe: exe.to_vec() };
    assert_eq!(
        events(directory.path()),
        [
            ended(0),
            process(b"/usr/bin/git"),
            ended(0),
            ended(0),
            process(b""),
            ended(0)
        ]
    );
}

#[test]
fn a_live_writer_can_be_read_while_it_rotates() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Arc::new(Journal::create_with(directory.path(), SMALL_SEGMENTS).unwrap());
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let journal = Arc::clone(&journal);
            std::thread::spawn(move || {
                for status in 0..400 {
                    journal.append(0, VerdictId(0), ended(status)).unwrap();
                }
            })
        })
        .collect();
    let mut seen = 0;
    while threads.iter().any(|thread| !thread.is_finished()) {
        let now = read(directory.path()).unwrap().len();
        assert!(now >= seen);
        seen = now;
    }
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert_eq!(read(directory.path()).unwrap().len(), 1200);
    journal.sync().unwrap();
}

#[test]
fn an_entry_too_large_for_a_frame_is_refused_and_leaves_nothing() {
    let (directory, _) = written(1, Options::default());
    let journal = Journal::resume(directory.path()).unwrap();
    let event = Event::Process {
        exe: vec![0; 9 << 20],
    };
    let error = journal.append(0, VerdictId(0), event).unwrap_err();
    assert_eq!(
        error.to_string(),
        "an entry of kind `process` is larger than a journal frame can be"
    );
    assert_eq!(events(directory.path()), [ended(0)]);
    journal.append(0, VerdictId(0), ended(1)).unwrap();
}

/// A file size limit makes write(2) fall short exactly as a full disk does; it can not be undone in
/// the process that set it, so the test starts itself again under one.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the limit needs a process of its own"
)]
fn a_full_disk_leaves_nothing_half() {
    const INSIDE: &str = "AEGIS_TEST_UNDER_A_FILE_SIZE_LIMIT";
    if std::env::var_os(INSIDE).is_some() {
        return fill_the_disk();
    }
    let script =
        "trap '' XFSZ; ulimit -f 8; exec \"$0\" --exact journal::a_full_disk_leaves_nothing_half";
    let test = std::env::current_exe().unwrap();
    let output = std::process::Command::new("sh")
        .args(["-c", script])
        .arg(test)
        .env(INSIDE, "1")
        .output();
    let output = output.unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

fn fill_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::create(directory.path()).unwrap();
    let mut expected = Vec::new();
    let sizes = [900, 300, 0];
    for size in sizes {
        let event = || Event::Process {
            exe: vec![b'x'; size],
        };
        while journal.append(0, VerdictId(0), event()).is_ok() {
            expected.push(event());
        }
        assert_eq!(
            events(directory.path()),
            expected,
            "after entries of {size} bytes"
        );
    }
    assert!(journal.append(0, VerdictId(0), ended(0)).is_err());
    drop(journal);
    assert!(expected.len() > sizes.len());
    let journal = Journal::resume(directory.path()).unwrap();
    let error = journal.append(0, VerdictId(0), ended(0)).unwrap_err();
    assert!(error.to_string().contains("00000000.aej"), "{error}");
    assert_eq!(events(directory.path()), expected);
}
