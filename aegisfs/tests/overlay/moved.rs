//! Open handles of files that the host moves, or gives the number of to another.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Result};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use aegis_policies::journal::{Event, SnapshotCause};
use rustix::fs::{FallocateFlags, fallocate};

use super::bed::Bed;
use super::tree::fingerprint;

const EVIL: &[u8] = b"#EVIL#";

/// What the host saves, by the name that it writes first and the guarded one that it moves that to.
const SAVES: [[&str; 2]; 5] = [
    [".claude/settings.json.tmp.1", ".claude/settings.json"],
    ["new.json", ".claude/settings.json"],
    ["a2.txt", ".git/hooks/post-commit"],
    ["config.new", ".git/config"],
    [".git/config.lock.new", ".git/config"],
];

fn project() -> Bed {
    let bed = Bed::new();
    for folder in [".claude", ".git/hooks"] {
        fs::create_dir_all(bed.project().join(folder)).unwrap();
    }
    for name in ["a.txt", "z.txt"] {
        fs::write(bed.project().join(name), "a\n").unwrap();
    }
    bed
}

fn open(path: &Path) -> Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// A name for it, and how a handle is used.
type Change = (&'static str, fn(&File) -> Result<()>);

/// What changes content through a handle.
fn changes() -> [Change; 4] {
    [
        ("write", |file| file.write_all_at(EVIL, 0)),
        ("truncate", |file| file.set_len(0)),
        ("allocate", |file| {
            Ok(fallocate(file, FallocateFlags::empty(), 0, 100)?)
        }),
        ("mode", |file| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            file.set_permissions(mode)
        }),
    ]
}

/// The host moves a file that is open for writing to each kind of guarded name.
#[test]
fn a_handle_does_not_follow_the_host_to_a_locked_name() {
    for [from, to] in SAVES {
        for (what, change) in changes() {
            let mut bed = project();
            fs::write(bed.project().join(from), "saved\n").unwrap();
            let mnt = bed.mount();
            let handle = open(&mnt.join(from)).unwrap();
            fs::rename(bed.project().join(from), bed.project().join(to)).unwrap();
            super::mounted::wait_until(|| fs::symlink_metadata(mnt.join(to)).is_ok());
            let host = fingerprint(&bed.project());
            assert!(change(&handle).is_err(), "{what} {from} {to}");
            assert_eq!(fs::read(mnt.join(to)).unwrap(), b"saved\n", "{what} {to}");
            drop(handle);
            assert_eq!(bed.changes().len(), 0, "{what} {from} {to}");
            assert_eq!(fingerprint(&bed.project()), host);
        }
    }
}

/// The refusal is on record, under the name of now.
#[test]
fn what_a_moved_handle_is_refused_is_on_record() {
    let mut bed = project();
    fs::write(bed.project().join("new.json"), "saved\n").unwrap();
    let mnt = bed.mount();
    let handle = open(&mnt.join("new.json")).unwrap();
    let to = ".claude/settings.json";
    fs::rename(bed.project().join("new.json"), bed.project().join(to)).unwrap();
    super::mounted::wait_until(|| fs::symlink_metadata(mnt.join(to)).is_ok());
    let refused = handle.write_all_at(EVIL, 0).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    drop(handle);
    bed.unmount();
    let entries = aegis_policies::journal::read(&bed.session().journal()).unwrap();
    let refusals = entries.filter(|entry| {
        let event = &entry.as_ref().unwrap().1.event;
        matches!(event, Event::Refused { .. })
    });
    assert_eq!(refusals.count(), 1);
}

/// The host moves it to a name that is free: what is written goes there, and is judged by it.
#[test]
fn a_handle_follows_the_host_to_a_free_name() {
    let mut bed = project();
    let mnt = bed.mount();
    let handle = open(&mnt.join("a.txt")).unwrap();
    fs::rename(bed.project().join("a.txt"), bed.project().join("b.txt")).unwrap();
    super::mounted::wait_until(|| fs::symlink_metadata(mnt.join("b.txt")).is_ok());
    handle.write_all_at(b"b", 0).unwrap();
    assert_eq!(fs::read(mnt.join("b.txt")).unwrap(), b"b\n");
    assert_eq!(fs::read(bed.project().join("b.txt")).unwrap(), b"a\n");
}

/// An editor saves while the file is open inside: the handle reads what it was opened for.
#[test]
fn a_handle_keeps_the_file_that_an_editor_replaces() {
    let mut bed = project();
    let mnt = bed.mount();
    let handle = File::open(mnt.join("a.txt")).unwrap();
    fs::write(bed.project().join(".a.txt.swp"), "new\n").unwrap();
    fs::rename(
        bed.project().join(".a.txt.swp"),
        bed.project().join("a.txt"),
    )
    .unwrap();
    super::mounted::wait_until(|| fs::read(mnt.join("a.txt")).is_ok_and(|it| it == b"new\n"));
    let mut bytes = [0; 8];
    assert_eq!(handle.read_at(&mut bytes, 0).unwrap(), 2);
    assert_eq!(&bytes[..2], b"a\n");
    fs::write(mnt.join("a.txt"), "mine\n").unwrap();
    assert_eq!(fs::read(mnt.join("a.txt")).unwrap(), b"mine\n");
}

/// Has the host give the number `ino` to a file with this name.
fn reuse(host: &Path, name: &str, ino: u64) -> bool {
    for spare in 0..200 {
        fs::write(host.join(name), "TOKEN=secret\n").unwrap();
        if fs::metadata(host.join(name)).unwrap().ino() == ino {
            return true;
        }
        let spare = host.join(format!("spare{spare}"));
        fs::rename(host.join(name), spare).unwrap();
    }
    false
}

/// After a rewind the number of a file that was open is that of another file of the host's.
fn after_reuse(resumed: bool, name: &str) {
    let mut bed = project();
    let mut mnt = bed.mount();
    let overlay = bed.mounted().overlay();
    let before = overlay
        .snapshot(None, SnapshotCause::Requested)
        .unwrap()
        .seq;
    fs::write(mnt.join("a.txt"), "touched\n").unwrap();
    if resumed {
        bed.remount();
        mnt = bed.mnt();
    }
    let handle = open(&mnt.join("a.txt")).unwrap();
    let ino = fs::metadata(bed.project().join("a.txt")).unwrap().ino();
    fs::remove_file(bed.project().join("a.txt")).unwrap();
    if !reuse(&bed.project(), name, ino) {
        // This file system gives a number to nobody else so soon.
        return;
    }
    bed.mounted().rewind(bed.rewind_to(before)).unwrap();
    let direct = fs::metadata(mnt.join(name)).unwrap();
    assert_eq!(direct.len(), 13);
    let mut bytes = [0; 32];
    if let Ok(read) = handle.read_at(&mut bytes, 0) {
        assert!(!bytes[..read].starts_with(b"TOKEN"), "{name}");
    }
    let _ = handle.write_all_at(EVIL, 0);
    let _ = handle.set_len(3);
    drop(handle);
    assert_eq!(fs::metadata(mnt.join(name)).unwrap().len(), 13, "{name}");
    assert_eq!(bed.changes().len(), 0, "{name}");
}

#[test]
fn a_handle_does_not_lead_to_the_next_file_with_its_number() {
    for resumed in [false, true] {
        for name in [".env", ".claude/settings.json", ".git/config", "plain"] {
            after_reuse(resumed, name);
        }
    }
}
