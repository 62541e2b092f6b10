//! Directories that are read while they change.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{RawDir, SeekFrom, seek};

use super::bed::Bed;

/// Reads at least `least` names from where the descriptor is, if there are so many, each with the
/// place after it.
fn read(folder: &File, least: usize) -> Vec<(String, u64)> {
    let mut names = Vec::new();
    // Small, so that one call brings only a few.
    let mut buffer = [MaybeUninit::uninit(); 512];
    let mut reader = RawDir::new(folder.as_fd(), &mut buffer);
    while names.len() < least || !reader.is_buffer_empty() {
        let Some(entry) = reader.next() else { break };
        let entry = entry.unwrap();
        let name = entry.file_name().to_str().unwrap().to_owned();
        names.push((name, entry.next_entry_cookie()));
    }
    names
}

/// A directory with names of the host's and of the session's.
fn fill(bed: &Bed, mnt: &Path) {
    fs::create_dir(bed.project().join("big")).unwrap();
    for number in 0..1500 {
        File::create(bed.project().join(format!("big/host-{number}"))).unwrap();
    }
    for number in 0..1500 {
        File::create(mnt.join(format!("big/own-{number}"))).unwrap();
    }
}

#[test]
fn what_stays_is_listed_once_however_the_rest_changes() {
    let mut bed = Bed::new();
    let mnt = bed.mount();
    fill(&bed, &mnt);
    let big = mnt.join("big");
    let folder = File::open(&big).unwrap();
    let mut seen = read(&folder, 700);
    for number in 0..1500 {
        if number % 3 == 0 {
            fs::remove_file(big.join(format!("own-{number}"))).unwrap();
            fs::remove_file(bed.project().join(format!("big/host-{number}"))).unwrap();
            File::create(big.join(format!("later-{number}"))).unwrap();
        }
        if number % 3 == 1 {
            fs::remove_file(big.join(format!("host-{number}"))).unwrap();
        }
    }
    // Somebody else reads it from the start in between.
    assert!(!read(&File::open(&big).unwrap(), usize::MAX).is_empty());
    seen.extend(read(&folder, usize::MAX));
    let mut counts = BTreeMap::new();
    for (name, _) in &seen {
        *counts.entry(name.clone()).or_insert(0) += 1;
    }
    assert!(counts.values().all(|count| *count == 1));
    for number in 0..1500 {
        let host = counts.contains_key(&format!("host-{number}"));
        let own = counts.contains_key(&format!("own-{number}"));
        assert!(number % 3 != 2 || host, "host-{number}");
        assert!(number % 3 == 0 || own, "own-{number}");
    }
}

/// As `rm -r` does it, while somebody looks on: the kernel then has a newer listing than the one
/// that is being read, without the name that the reader is at.
#[test]
fn what_is_removed_while_it_is_read_is_read_to_the_end() {
    let mut bed = Bed::new();
    let mnt = bed.mount();
    fill(&bed, &mnt);
    let big = mnt.join("big");
    let folder = File::open(&big).unwrap();
    let mut left = 3000;
    loop {
        let part = read(&folder, 200);
        let names = part.iter().map(|(name, _)| name);
        let names: Vec<_> = names.filter(|name| !name.starts_with('.')).collect();
        if names.is_empty() {
            break;
        }
        for name in &names {
            fs::remove_file(big.join(name)).unwrap();
        }
        left -= names.len();
        assert_eq!(fs::read_dir(&big).unwrap().count(), left);
    }
    assert_eq!(left, 0);
}

#[test]
fn a_place_in_a_listing_stays() {
    let mut bed = Bed::new();
    let mnt = bed.mount();
    fill(&bed, &mnt);
    let folder = File::open(mnt.join("big")).unwrap();
    let all = read(&folder, usize::MAX);
    assert_eq!(all.len(), 3002);
    for gone in all.iter().skip(2).step_by(2) {
        fs::remove_file(mnt.join("big").join(&gone.0)).unwrap();
    }
    let left = fs::read_dir(mnt.join("big")).unwrap();
    let left = left.map(|it| it.unwrap().file_name().into_string().unwrap());
    let left: BTreeSet<_> = left.collect();
    assert_eq!(left.len(), 1500);
    for at in [2, 3, 700, 1501, 2999] {
        seek(&folder, SeekFrom::Start(all[at].1)).unwrap();
        let next = read(&folder, 1);
        let expected = all[at + 1..].iter().find(|it| left.contains(&it.0));
        assert_eq!(
            next.first().map(|it| &it.0),
            expected.map(|it| &it.0),
            "{at}"
        );
    }
    seek(&folder, SeekFrom::Start(0)).unwrap();
    assert_eq!(read(&folder, usize::MAX).len(), 1502);
}

/// A large directory is not listed anew for each part that somebody reads of it.
#[test]
fn a_directory_is_listed_once_for_all_its_parts() {
    let bed = Bed::furnished();
    let guard = bed.guard();
    let root = guard.overlay().root();
    let names = |offset| -> Vec<_> {
        let rest = guard.readdir(root, offset).unwrap();
        let named = rest.entries().iter().map(|it| (it.name.clone(), it.next));
        named.collect()
    };
    let all = names(0);
    fs::write(bed.project().join("new"), "").unwrap();
    assert_eq!(names(all[3].1), all[4..], "from the listing that was taken");
    let last = all[all.len() - 1].1;
    assert_eq!(names(last), [], "who reads the end is through");
    assert_eq!(names(0).len(), all.len() + 1);
}
