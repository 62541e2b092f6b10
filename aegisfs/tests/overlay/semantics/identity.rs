//! A file is the same file before and after its first write, whatever it is called: what kernel
//! overlayfs does not keep (Documentation/filesystems/overlayfs.rst, "Non-standard behavior").

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::super::bed::Bed;

/// Device and number.
fn identity(path: &Path) -> (u64, u64) {
    let meta = fs::symlink_metadata(path).unwrap();
    (meta.dev(), meta.ino())
}

fn append(path: &Path) {
    let file = OpenOptions::new().append(true).open(path).unwrap();
    std::io::Write::write_all(&mut &file, b"more").unwrap();
}

#[test]
fn numbers_stay_through_writes_moves_and_a_remount() {
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    fs::write(mnt.join("made"), "made").unwrap();
    fs::create_dir(mnt.join("folder")).unwrap();
    let names = ["x", "a/x", "a/b", "d", "s", "made", "folder"];
    let before = names.map(|name| identity(&mnt.join(name)).1);
    let mut now: Vec<String> = names.map(str::to_owned).to_vec();
    for round in 0..3 {
        for (index, name) in now.iter_mut().enumerate() {
            let path = mnt.join(&*name);
            if fs::symlink_metadata(&path).unwrap().is_file() {
                append(&path);
            }
            let moved = format!("moved-{index}-{round}");
            fs::rename(&path, mnt.join(&moved)).unwrap();
            *name = moved;
        }
        bed.remount();
        let after: Vec<_> = now.iter().map(|name| identity(&mnt.join(name)).1).collect();
        assert_eq!(after, before, "round {round}");
    }
}

/// readdir(3) and stat(2) name the same number, and one device holds everything.
#[test]
fn a_listing_has_the_numbers_of_its_files() {
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    append(&mnt.join("a/x"));
    fs::write(mnt.join("a/new"), "").unwrap();
    fs::rename(mnt.join("d"), mnt.join("a/d")).unwrap();
    let script = "import os\nfor at, _, _ in os.walk('.'):\n for e in os.scandir(at):\n  \
        assert e.inode() == os.lstat(e.path).st_ino, e.path\n  print(os.lstat(e.path).st_dev)";
    let printed = super::run_in(&mnt, script, &[]);
    let devices: BTreeSet<_> = printed.lines().collect();
    assert_eq!(devices.len(), 1);
}

#[test]
fn a_descriptor_is_the_file_that_is_written_to_later() {
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    for name in ["x", "a/y"] {
        let early = File::open(mnt.join(name)).unwrap();
        let before = early.metadata().unwrap();
        append(&mnt.join(name));
        let after = early.metadata().unwrap();
        assert_eq!((before.dev(), before.ino()), (after.dev(), after.ino()));
        assert_eq!(identity(&mnt.join(name)), (after.dev(), after.ino()));
        assert_eq!(before.size() + 4, after.size());
        let mut end = [0; 4];
        early.read_exact_at(&mut end, before.size()).unwrap();
        assert_eq!(&end, b"more");
    }
}

/// One inode of the host is taken up once: every name shows what is written under any.
#[test]
fn hard_links_of_the_host_stay_one_file() {
    let mut bed = Bed::furnished();
    fs::hard_link(bed.project().join("x"), bed.project().join("a/third")).unwrap();
    let mnt = bed.mount();
    let names = ["x", "d/linked", "a/third"].map(|name| mnt.join(name));
    let [first, ..] = names.each_ref().map(|name| identity(name));
    append(&names[1]);
    for _ in 0..2 {
        for name in &names {
            // The device is the mount's, and another after a remount.
            assert_eq!(identity(name), (identity(&mnt).0, first.1));
            assert_eq!(fs::metadata(name).unwrap().nlink(), 3);
            assert!(fs::read_to_string(name).unwrap().ends_with("more"));
        }
        bed.remount();
    }
    assert_eq!(fs::read_dir(bed.session().content()).unwrap().count(), 1);
    fs::remove_file(&names[0]).unwrap();
    assert_eq!(fs::metadata(&names[2]).unwrap().nlink(), 2);
}

/// A directory of the host with what the session put into it moves like any other, and back.
#[test]
fn directories_of_the_host_move() {
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    fs::write(mnt.join("a/b/own"), "own").unwrap();
    append(&mnt.join("a/b/x"));
    for (from, to) in [
        ("a", "moved"),
        ("moved/b", "d/b"),
        ("d", "empty/d"),
        ("empty", "last"),
    ] {
        fs::rename(mnt.join(from), mnt.join(to)).unwrap();
    }
    for _ in 0..2 {
        let own = fs::read_to_string(mnt.join("last/d/b/own")).unwrap();
        let written = fs::read_to_string(mnt.join("last/d/b/x")).unwrap();
        assert!(own == "own" && written.ends_with("more"));
        assert!(!mnt.join("a").exists() && mnt.join("moved/x").exists());
        bed.remount();
    }
}
