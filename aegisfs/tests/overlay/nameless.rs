//! Files without a name (O_TMPFILE), and the name they get (linkat(2)).

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use aegisfs::fuse::Transport;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, XattrFlags, fgetxattr, fsetxattr, linkat, open};
use rustix::io::Errno;

use super::bed::{Bed, options};
use super::mounted::wait_until;

fn nameless(folder: &Path, more: OFlags) -> Result<File, Errno> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC | more;
    open(folder, flags, Mode::from_raw_mode(0o640)).map(File::from)
}

fn name(file: &File, path: &Path) -> Result<(), Errno> {
    use std::os::fd::AsRawFd;
    let link = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    linkat(CWD, link, CWD, path, AtFlags::SYMLINK_FOLLOW)
}

/// fuser 0.18 does not know of such files, and says so.
fn is_offered() -> bool {
    options().transport != Transport::Fuser
}

#[test]
fn a_file_without_a_name_gets_one_with_all_that_it_is() {
    if !is_offered() {
        return;
    }
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    let file = nameless(&mnt.join("a"), OFlags::empty()).unwrap();
    file.write_all_at(b"made in the dark", 0).unwrap();
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .unwrap();
    fsetxattr(&file, "user.kept", b"yes", XattrFlags::empty()).unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    assert_eq!(fs::read_dir(mnt.join("a")).unwrap().count(), 3);
    assert_eq!(bed.changes().len(), 0, "it is not part of the tree");

    name(&file, &mnt.join("a/named")).unwrap();
    assert_eq!(name(&file, &mnt.join("a/x")), Err(Errno::EXIST));
    name(&file, &mnt.join("d/twice")).unwrap();
    file.write_all_at(b"MADE", 0).unwrap();
    for _ in 0..2 {
        let named = File::open(mnt.join("a/named")).unwrap();
        let meta = named.metadata().unwrap();
        assert_eq!((meta.nlink(), meta.mode() & 0o777), (2, 0o600));
        let twice = fs::metadata(mnt.join("d/twice")).unwrap();
        assert_eq!(meta.ino(), twice.ino());
        assert_eq!(fs::read(mnt.join("d/twice")).unwrap(), b"MADE in the dark");
        let mut value = [0; 8];
        assert_eq!(fgetxattr(&named, "user.kept", &mut value), Ok(3));
        drop(named);
        bed.remount();
    }
    drop(file);
}

#[test]
fn one_that_never_gets_a_name_leaves_nothing() {
    if !is_offered() {
        return;
    }
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    let file = nameless(&mnt, OFlags::EXCL).unwrap();
    file.write_all_at(b"scratch", 0).unwrap();
    assert_eq!(name(&file, &mnt.join("out")), Err(Errno::NOENT), "O_EXCL");
    assert_eq!(fs::read_dir(bed.session().content()).unwrap().count(), 1);
    drop(file);
    wait_until(|| fs::read_dir(bed.session().content()).unwrap().count() == 0);
    let file = nameless(&mnt.join("a/b"), OFlags::empty()).unwrap();
    file.write_all_at(b"scratch", 0).unwrap();
    assert_eq!(bed.changes().len(), 0);
    drop(file);
    bed.remount();
    assert_eq!(fs::read_dir(bed.session().content()).unwrap().count(), 0);
}

#[test]
fn its_name_is_judged_like_that_of_a_new_file() {
    if !is_offered() {
        return;
    }
    let mut bed = Bed::furnished();
    fs::create_dir_all(bed.project().join(".git/hooks")).unwrap();
    let mnt = bed.mount();
    let file = nameless(&mnt.join("a"), OFlags::empty()).unwrap();
    file.write_all_at(b"#!/bin/sh\n", 0).unwrap();
    let hook = mnt.join(".git/hooks/pre-commit");
    assert_eq!(name(&file, &hook), Err(Errno::ACCESS));
    assert_eq!(
        fs::write(&hook, "").unwrap_err().kind(),
        std::io::ErrorKind::PermissionDenied
    );
    // A new file may be called so; a link of another may not.
    fs::write(mnt.join(".env"), "").unwrap();
    fs::remove_file(mnt.join(".env")).unwrap();
    name(&file, &mnt.join(".env")).unwrap();
    assert_eq!(name(&file, &mnt.join(".env.local")), Err(Errno::ACCESS));
}

#[test]
fn a_library_says_where_there_are_none() {
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    let made = nameless(&mnt, OFlags::empty());
    assert_eq!(made.is_ok(), is_offered(), "{made:?}");
}
