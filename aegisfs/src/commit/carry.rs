//! Copying content between descriptors, and what belongs to a file besides its content.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{
    Gid, Timespec, Timestamps, Uid, XattrFlags, fchown, fgetxattr, flistxattr, fsetxattr, fstat,
    futimens, ioctl_ficlone,
};
use sha2::{Digest as _, Sha256};

use super::state::Digest;
use crate::overlay::ContentFile;

/// Copies everything from one file into an empty one and says what was copied.
pub(crate) fn copy(from: &OwnedFd, to: &OwnedFd) -> io::Result<Digest> {
    copy_content(&mut from.try_clone()?.into(), to)
}

/// Copies everything of a changed file into an empty one and says what was copied.
pub(crate) fn copy_content(from: &mut ContentFile, to: &OwnedFd) -> io::Result<Digest> {
    if from
        .whole()
        .is_some_and(|from| ioctl_ficlone(to, from).is_ok())
    {
        // The clone is ours and does not change any more, so hashing it hashes what was copied.
        return super::beneath::hash(std::fs::File::from(to.try_clone()?));
    }
    let mut to = std::fs::File::from(to.try_clone()?);
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 128 << 10];
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return Ok(Digest::new(hasher.finalize().into()));
        }
        let chunk = buffer.get(..read).unwrap_or_default();
        hasher.update(chunk);
        to.write_all(chunk)?;
    }
}

/// Gives `to` the owner and the extended attributes of `from`, as far as we may. Permission bits
/// come after this: changing the owner clears some.
pub(crate) fn carry_ownership(from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    let (old, new) = (fstat(from)?, fstat(to)?);
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid) {
        let (user, group) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
        // An ordinary user can not give files away, but can often keep the group.
        if fchown(to, Some(user), Some(group)).is_err() {
            fchown(to, None, Some(group)).ok();
        }
    }
    for name in attributes(from)? {
        // Capabilities belong to content that someone vouched for, not to what replaces it.
        if name != b"security.capability" {
            carry_attribute(from, to, &name);
        }
    }
    Ok(())
}

/// Gives `to` the modification time of `from`.
pub(crate) fn carry_times(from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    let stat = fstat(from)?;
    let time = |seconds: i64, rest: u64| Timespec {
        tv_sec: seconds,
        tv_nsec: i64::try_from(rest).unwrap_or_default(),
    };
    let times = Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    };
    Ok(futimens(to, &times)?)
}

/// Attributes of the system's own may be refused to us; the file is then what a new one would be.
fn carry_attribute(from: &OwnedFd, to: &OwnedFd, name: &[u8]) {
    let mut value = vec![0; 64 << 10];
    if let Ok(length) = fgetxattr(from, name, &mut value) {
        fsetxattr(
            to,
            name,
            value.get(..length).unwrap_or_default(),
            XattrFlags::empty(),
        )
        .ok();
    }
}

fn attributes(file: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let mut list = vec![0; 64 << 10];
    let Ok(length) = flistxattr(file, &mut list) else {
        return Ok(Vec::new());
    };
    let list = list.get(..length).unwrap_or_default();
    Ok(list
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(<[u8]>::to_vec)
        .collect())
}
