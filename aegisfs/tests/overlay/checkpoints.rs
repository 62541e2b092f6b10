//! Checkpoints are taken while a session is served and at its end, and the tree is the same with
//! and without them.

use std::fs;
use std::os::fd::AsFd;

use aegis_policies::journal;
use aegisfs::overlay::Relocations;
use aegisfs::overlay::checkpoint::verify;
use rustix::fs::{XattrFlags, fsetxattr};

use super::bed::Bed;
use super::mounted::wait_until;
use super::tree::dump;

/// Records as many bytes as `count` large attributes have.
fn record(bed: &Bed, count: usize) {
    let file = fs::File::open(bed.mnt().join("x")).unwrap();
    for number in 0..count {
        let value = vec![number as u8; 60_000];
        let flags = XattrFlags::empty();
        fsetxattr(file.as_fd(), "user.large", &value, flags).unwrap();
    }
}

fn checkpoints(bed: &Bed) -> usize {
    let names = fs::read_dir(bed.session().checkpoints()).map(Iterator::count);
    names.unwrap_or(0)
}

#[test]
fn one_is_taken_while_the_tree_is_served() {
    let mut bed = Bed::furnished();
    fs::write(bed.mount().join("own"), "own").unwrap();
    record(&bed, 80);
    wait_until(|| checkpoints(&bed) == 1);
    record(&bed, 80);
    wait_until(|| checkpoints(&bed) == 2);
    let before = dump(&bed.mnt());
    bed.remount();
    assert_eq!(dump(&bed.mnt()), before);
    assert_eq!(fs::read(bed.mnt().join("own")).unwrap(), b"own");
}

#[test]
fn one_is_taken_at_the_end_and_is_what_the_journal_leads_to() {
    let mut bed = Bed::furnished();
    bed.mount();
    for name in ["n", "d/n", "a/b/n"] {
        fs::write(bed.mnt().join(name), name).unwrap();
    }
    fs::remove_file(bed.mnt().join("a/x")).unwrap();
    record(&bed, 20);
    bed.unmount();
    assert_eq!(checkpoints(&bed), 1);
    let verified = verify(&bed.session(), &Relocations::default()).unwrap();
    assert_eq!((verified.checkpoints, verified.dismissed.len()), (1, 0));
    let entries = journal::read(&bed.session().journal()).unwrap().count();
    assert_eq!(verified.entries, entries as u64);
    let changes = bed.changes();
    bed.mount();
    fs::write(bed.mnt().join("later"), "later").unwrap();
    let before = dump(&bed.mnt());
    bed.remount();
    assert_eq!(dump(&bed.mnt()), before);
    bed.unmount();
    fs::remove_dir_all(bed.session().checkpoints()).unwrap();
    assert_eq!(bed.changes().len(), changes.len() + 1);
    bed.mount();
    assert_eq!(dump(&bed.mnt()), before);
}

#[test]
fn a_short_session_leaves_none() {
    let mut bed = Bed::furnished();
    fs::write(bed.mount().join("own"), "own").unwrap();
    bed.unmount();
    assert!(!bed.session().checkpoints().exists());
}
