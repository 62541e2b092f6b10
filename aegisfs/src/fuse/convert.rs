//! The terms of the `fuser` crate and ours.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::fuser::{FileAttr, INodeNo, TimeOrNow};
use rustix::fs::FileType;

use crate::overlay::{Attr, SetTime};

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
        uid: attr.uid,
        gid: attr.gid,
        rdev: u32::try_from(attr.rdev).unwrap_or(0),
        blksize: 4096,
        flags: 0,
    }
}

/// What a name that leads nowhere looks like: node 0, which the kernel remembers as absent.
pub(super) const fn absent() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: ::fuser::FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

/// The type of a node.
pub(super) const fn file_type(kind: FileType) -> ::fuser::FileType {
    match kind {
        FileType::Directory => ::fuser::FileType::Directory,
        FileType::Symlink => ::fuser::FileType::Symlink,
        FileType::Fifo => ::fuser::FileType::NamedPipe,
        FileType::Socket => ::fuser::FileType::Socket,
        FileType::CharacterDevice => ::fuser::FileType::CharDevice,
        FileType::BlockDevice => ::fuser::FileType::BlockDevice,
        FileType::RegularFile | FileType::Unknown => ::fuser::FileType::RegularFile,
    }
}

/// A time to set.
pub(super) fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(time) => SetTime::At(nanoseconds(time)),
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

/// fuser 0.18 takes the nanoseconds of a time before the epoch for a distance from it like the
/// seconds; they always count forwards (utimensat(2)).
fn nanoseconds(time: SystemTime) -> i64 {
    let (seconds, nanoseconds) = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => (i64::try_from(since.as_secs()), since.subsec_nanos()),
        Err(before) => {
            let distance = before.duration();
            let seconds = i64::try_from(distance.as_secs()).map(|seconds| -seconds);
            (seconds, distance.subsec_nanos())
        }
    };
    seconds
        .unwrap_or(i64::MAX)
        .saturating_mul(1_000_000_000)
        .saturating_add(nanoseconds.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_count_forwards_before_the_epoch_too() {
        let told = UNIX_EPOCH - Duration::new(5, 3);
        assert_eq!(nanoseconds(told), -4_999_999_997);
        assert_eq!(nanoseconds(UNIX_EPOCH + Duration::new(5, 3)), 5_000_000_003);
        assert_eq!(time(-1), UNIX_EPOCH - Duration::from_nanos(1));
    }
}
