//! A power failure: what was not forced to the disk may be lost, from any byte on, while the content
//! files are those of the last moment. The tree is one that it was.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::PathBuf;

use aegisfs::guard::Guard;
use aegisfs::overlay::Lookup;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::bed::Bed;
use super::crash::Random;
use super::model::Tree;
use super::soak::soak;

/// Operations before the failure.
const OPERATIONS: u64 = 60;

/// A name: whether it is a directory; `None` when it answers EIO.
type Names = BTreeMap<String, Option<bool>>;

#[test]
fn any_part_of_what_was_not_synced_may_be_lost() {
    for seed in 0..u64::from(soak(12)) {
        fail(seed);
    }
}

fn fail(seed: u64) {
    let bed = Bed::furnished();
    let mut random = Random::new(seed);
    let tree = Tree { guard: bed.guard() };
    let synced_after = random.below(OPERATIONS);
    let mut synced = 0;
    let mut states = vec![(length(&bed), names(&tree.guard))];
    for number in 0..OPERATIONS {
        let _either_way = tree.run(&random.op());
        states.push((length(&bed), names(&tree.guard)));
        if number == synced_after {
            tree.guard.sync_records().unwrap();
            synced = length(&bed);
        }
    }
    drop(tree);
    let end = length(&bed);
    let kept = synced + random.below(end - synced + 1);
    let file = OpenOptions::new().write(true).open(segment(&bed)).unwrap();
    file.set_len(kept).unwrap();
    if random.below(2) == 0 {
        // Blocks that were allocated and not written.
        file.set_len(end + random.below(5000)).unwrap();
    }
    let tree = Tree { guard: bed.guard() };
    let found = names(&tree.guard);
    let last = states
        .iter()
        .rposition(|(length, _)| *length <= kept)
        .unwrap();
    let possible = &states[last..states.len().min(last + 2)];
    assert!(
        possible.iter().any(|(_, names)| agrees(&found, names)),
        "seed {seed}, {kept} of {end}: {found:?} is none of {possible:?}"
    );
    empty(&tree.guard);
    drop(tree);
    assert!(names(&bed.guard()).is_empty());
    let content = fs::read_dir(bed.session().content()).unwrap();
    assert_eq!(content.count(), 0, "content of nobody stayed");
}

/// The same names; a file whose content was lost with what it is about stands for any file.
fn agrees(found: &Names, was: &Names) -> bool {
    found.len() == was.len()
        && found.iter().zip(was).all(|((name, kind), (other, then))| {
            name == other && (kind == then || (kind.is_none() && *then == Some(false)))
        })
}

fn segment(bed: &Bed) -> PathBuf {
    bed.session().journal().join("00000000.aej")
}

fn length(bed: &Bed) -> u64 {
    fs::metadata(segment(bed)).unwrap().len()
}

fn names(guard: &Guard) -> Names {
    let mut found = Names::new();
    walk(guard, "", &mut |path, kind, _| {
        found.insert(path.to_owned(), kind);
    });
    found
}

/// Removes every name, what is in a directory before the directory.
fn empty(guard: &Guard) {
    let mut all = Vec::new();
    walk(guard, "", &mut |path, kind, parent| {
        all.push((path.to_owned(), kind == Some(true), parent));
    });
    for (path, folder, parent) in all.into_iter().rev() {
        let name = path.rsplit('/').next().unwrap().as_bytes();
        let removed = if folder {
            guard.rmdir(7, parent, name)
        } else {
            guard.unlink(7, parent, name)
        };
        removed.unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}

/// Visits every name with its type and the node of its directory.
fn walk(
    guard: &Guard,
    at: &str,
    visit: &mut dyn FnMut(&str, Option<bool>, aegis_policies::journal::NodeId),
) {
    let mut folders = vec![(at.to_owned(), guard.overlay().root())];
    while let Some((at, node)) = folders.pop() {
        let listing = guard.readdir(node, 0).unwrap();
        let named = listing.entries().iter().map(|entry| entry.name.to_vec());
        let mut listed: Vec<_> = named.filter(|name| name != b"." && name != b"..").collect();
        listed.sort();
        for name in listed {
            let text = String::from_utf8(name.clone()).unwrap();
            let path = if at.is_empty() {
                text
            } else {
                format!("{at}/{text}")
            };
            match guard.lookup(node, &name) {
                Ok(Lookup::Found(entry)) => {
                    let folder = entry.attr.kind == FileType::Directory;
                    visit(&path, Some(folder), node);
                    if folder {
                        folders.push((path, entry.attr.node));
                    }
                }
                Err(error) if error.errno() == Errno::IO => visit(&path, None, node),
                other => panic!("{path}: {other:?}"),
            }
        }
    }
}
