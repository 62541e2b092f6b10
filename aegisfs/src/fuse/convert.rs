//! The kernel's terms and ours.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aegis_policies::journal::NodeId;
use fuser::{FileAttr, INodeNo, OpenAccMode, OpenFlags, TimeOrNow};
use rustix::fs::FileType;
use rustix::process::{getegid, geteuid};

use crate::overlay::{Access, Attr, SetTime};

/// How long the kernel may trust what the host can change.
const HOST: Duration = Duration::from_secs(1);
/// How long it may trust what only the session can change, which it sees itself.
const OWN: Duration = Duration::from_secs(3600);

/// What stat(2) shows for an id that the user namespace does not map (user_namespaces(7)).
const UNMAPPED: u32 = 65_534;
/// The user and group of this process, where it runs in a namespace that maps only these.
///
/// The kernel refuses every change of a node whose owner it can not name (`HAS_UNMAPPED_ID`), also
/// to a member of its group. The host's tree is not written here, so whom a node of a stranger or of
/// a shared group belongs to is shown as the one user there is.
static ONLY_USER: LazyLock<Option<(u32, u32)>> = LazyLock::new(|| {
    let map = std::fs::read_to_string("/proc/self/uid_map").ok()?;
    let maps_one = map.split_whitespace().nth(2) == Some("1");
    maps_one.then(|| (geteuid().as_raw(), getegid().as_raw()))
});

/// The time for which an answer may be trusted.
pub(super) const fn trust(follows_host: bool) -> Duration {
    if follows_host { HOST } else { OWN }
}

/// The kernel's attributes. The root is node 1 to the kernel, and shows its own number.
pub(super) fn attributes(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.node.0),
        size: attr.size,
        blocks: attr.blocks,
        atime: time(attr.atime),
        mtime: time(attr.mtime),
        ctime: time(attr.ctime),
        crtime: UNIX_EPOCH,
        kind: file_type(attr.kind),
        perm: u16::try_from(attr.mode & 0o7777).unwrap_or(0),
        nlink: u32::try_from(attr.nlink).unwrap_or(u32::MAX),
        uid: named(attr.uid, |(user, _)| user),
        gid: named(attr.gid, |(_, group)| group),
        rdev: u32::try_from(attr.rdev).unwrap_or(0),
        blksize: 4096,
        flags: 0,
    }
}

fn named(id: u32, own: fn((u32, u32)) -> u32) -> u32 {
    if id == UNMAPPED {
        ONLY_USER.map_or(id, own)
    } else {
        id
    }
}

/// What a name that leads nowhere looks like: node 0, which the kernel remembers as absent.
pub(super) fn absent() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: fuser::FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

/// The kernel's type of a node.
pub(super) const fn file_type(kind: FileType) -> fuser::FileType {
    match kind {
        FileType::Directory => fuser::FileType::Directory,
        FileType::Symlink => fuser::FileType::Symlink,
        FileType::Fifo => fuser::FileType::NamedPipe,
        FileType::Socket => fuser::FileType::Socket,
        FileType::CharacterDevice => fuser::FileType::CharDevice,
        FileType::BlockDevice => fuser::FileType::BlockDevice,
        FileType::RegularFile | FileType::Unknown => fuser::FileType::RegularFile,
    }
}

/// What a handle may do by its open flags.
pub(super) fn access(flags: OpenFlags) -> Access {
    match flags.acc_mode() {
        OpenAccMode::O_RDONLY => Access::Read,
        OpenAccMode::O_WRONLY => Access::Write,
        OpenAccMode::O_RDWR => Access::ReadWrite,
    }
}

/// A time to set.
pub(super) fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(time) => SetTime::At(nanoseconds(time)),
    }
}

/// The node that the kernel means.
pub(super) fn node(ino: INodeNo, root: NodeId) -> NodeId {
    if ino == INodeNo::ROOT {
        root
    } else {
        NodeId(ino.0)
    }
}

fn time(nanoseconds: i64) -> SystemTime {
    let distance = Duration::from_nanos(nanoseconds.unsigned_abs());
    let time = if nanoseconds < 0 {
        UNIX_EPOCH.checked_sub(distance)
    } else {
        UNIX_EPOCH.checked_add(distance)
    };
    time.unwrap_or(UNIX_EPOCH)
}

fn nanoseconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |it| -it),
    }
}
