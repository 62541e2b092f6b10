//! Operations that can be carried out on a plain directory, on a mount, and on the tree without a
//! mount, and must end the same way on each.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use proptest::prelude::*;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps, chmodat, ftruncate, linkat,
    mkdirat, openat, renameat_with, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::{Errno, pwrite};

/// One change, small enough that it has happened or has not.
#[derive(Clone, Debug)]
pub enum Op {
    Create(String, u32),
    Write(String, u64, Vec<u8>),
    Truncate(String, u64),
    Mkdir(String),
    Unlink(String),
    Rmdir(String),
    Rename(String, String),
    RenameNew(String, String),
    Exchange(String, String),
    Link(String, String),
    Symlink(String, String),
    Fifo(String),
    /// A device of number 0, which everybody may make.
    Device(String),
    Chmod(String, u32),
    Utimes(String, i64),
}

/// Carries an operation out beneath a directory.
pub fn run(root: &OwnedFd, op: &Op) -> Result<(), Errno> {
    match op {
        Op::Create(path, mode) => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW;
            openat(root, path, flags, Mode::from_raw_mode(*mode)).map(drop)
        }
        Op::Write(path, offset, data) => {
            let file = open_to_write(root, path)?;
            pwrite(&file, data, *offset).map(|written| assert_eq!(written, data.len()))
        }
        Op::Truncate(path, size) => ftruncate(open_to_write(root, path)?, *size),
        Op::Mkdir(path) => mkdirat(root, path, Mode::from_raw_mode(0o755)),
        Op::Unlink(path) => unlinkat(root, path, AtFlags::empty()),
        Op::Rmdir(path) => unlinkat(root, path, AtFlags::REMOVEDIR),
        Op::Rename(from, to) => renameat_with(root, from, root, to, RenameFlags::empty()),
        Op::RenameNew(from, to) => renameat_with(root, from, root, to, RenameFlags::NOREPLACE),
        Op::Exchange(from, to) => renameat_with(root, from, root, to, RenameFlags::EXCHANGE),
        Op::Link(from, to) => linkat(root, from, root, to, AtFlags::empty()),
        Op::Symlink(target, path) => symlinkat(target, root, path),
        Op::Fifo(path) => {
            let mode = Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(root, path, FileType::Fifo, mode, 0)
        }
        Op::Device(path) => {
            let mode = Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(root, path, FileType::CharacterDevice, mode, 0)
        }
        Op::Chmod(path, mode) => {
            // Not through a symbolic link: the tree without a mount follows none.
            open_existing(root, path, OFlags::RDONLY)?;
            chmodat(root, path, Mode::from_raw_mode(*mode), AtFlags::empty())
        }
        Op::Utimes(path, seconds) => {
            let time = Timespec {
                tv_sec: *seconds,
                tv_nsec: 5,
            };
            let times = Timestamps {
                last_access: time,
                last_modification: time,
            };
            utimensat(root, path, &times, AtFlags::SYMLINK_NOFOLLOW)
        }
    }
}

/// A directory to run operations beneath.
pub fn root(path: &Path) -> OwnedFd {
    File::open(path).unwrap().into()
}

/// Any operation on a few names of a small tree, so that they meet often.
pub fn operation() -> impl Strategy<Value = Op> {
    let mode = prop_oneof![Just(0o644_u32), Just(0o600), Just(0o755), Just(0o4711)];
    let data = proptest::collection::vec(any::<u8>(), 1..300);
    prop_oneof![
        4 => (path(), mode.clone()).prop_map(|(path, mode)| Op::Create(path, mode)),
        6 => (path(), 0..1500_u64, data).prop_map(|(path, at, data)| Op::Write(path, at, data)),
        2 => (path(), 0..900_u64).prop_map(|(path, size)| Op::Truncate(path, size)),
        3 => path().prop_map(Op::Mkdir),
        4 => path().prop_map(Op::Unlink),
        3 => path().prop_map(Op::Rmdir),
        6 => (path(), path()).prop_map(|(from, to)| Op::Rename(from, to)),
        1 => (path(), path()).prop_map(|(from, to)| Op::RenameNew(from, to)),
        2 => (path(), path()).prop_map(|(from, to)| Op::Exchange(from, to)),
        2 => (path(), path()).prop_map(|(from, to)| Op::Link(from, to)),
        1 => (path(), path()).prop_map(|(target, path)| Op::Symlink(target, path)),
        1 => path().prop_map(Op::Fifo),
        1 => path().prop_map(Op::Device),
        2 => (path(), mode).prop_map(|(path, mode)| Op::Chmod(path, mode)),
        1 => (path(), 1..1_000_000_000_i64).prop_map(|(path, at)| Op::Utimes(path, at)),
    ]
}

fn path() -> impl Strategy<Value = String> {
    let folder = prop_oneof![
        3 => Just(""), 3 => Just("a/"), 2 => Just("a/b/"), 2 => Just("d/"), 1 => Just("empty/"),
        1 => Just("a/b/c/"), 1 => Just("n/"), 1 => Just("x/"), 1 => Just("d/b/"),
    ];
    let name = prop_oneof![
        Just("a"),
        Just("b"),
        Just("c"),
        Just("d"),
        Just("x"),
        Just("y"),
        Just("z"),
        Just("n"),
        Just("s"),
        Just("linked"),
        Just("empty"),
    ];
    (folder, name).prop_map(|(folder, name)| format!("{folder}{name}"))
}

fn open_to_write(root: &OwnedFd, path: &str) -> Result<OwnedFd, Errno> {
    open_existing(root, path, OFlags::WRONLY)
}

/// Opens what is there; a device opens nowhere, as on a mount without devices.
fn open_existing(root: &OwnedFd, path: &str, access: OFlags) -> Result<OwnedFd, Errno> {
    let stat = statat(root, path, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice {
        return Err(Errno::ACCESS);
    }
    openat(
        root,
        path,
        access | OFlags::NOFOLLOW | OFlags::NONBLOCK,
        Mode::empty(),
    )
}
