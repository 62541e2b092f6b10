//! Unmounting, once and again.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use super::super::bed::Bed;

#[test]
fn unmounting_again_changes_nothing() {
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    fs::write(mnt.join("new"), "new").unwrap();
    unmount(&mnt, UnmountFlags::empty()).unwrap();
    assert_eq!(unmount(&mnt, UnmountFlags::empty()), Err(Errno::INVAL));
    bed.unmount();
    assert_eq!(fs::read_dir(&mnt).unwrap().count(), 0);
    bed.mount();
    assert_eq!(fs::read(mnt.join("new")).unwrap(), b"new");
    bed.unmount();
    bed.unmount();
}

/// A mount that is in use stays; one that is taken away lazily serves whoever has it until the end.
#[test]
fn what_is_in_use_is_served_to_the_end() {
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    let file = File::options()
        .read(true)
        .write(true)
        .open(mnt.join("x"))
        .unwrap();
    assert_eq!(unmount(&mnt, UnmountFlags::empty()), Err(Errno::BUSY));
    unmount(&mnt, UnmountFlags::DETACH).unwrap();
    assert!(!mnt.join("x").exists());
    file.write_at(b"after", 0).unwrap();
    let mut text = [0; 5];
    file.read_exact_at(&mut text, 0).unwrap();
    assert_eq!(&text, b"after");
    drop(file);
    bed.unmount();
    bed.mount();
    assert!(fs::read(mnt.join("x")).unwrap().starts_with(b"after"));
}
