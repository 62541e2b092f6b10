//! Requests about names: finding, making, moving and removing them.

use aegis_policies::journal::NodeKind;
use rustix::fs::{FileType, OFlags, RenameFlags};
use rustix::io::Errno;

use super::{Answer, Asker, Lookup, Named, Opened, Requests};
use crate::overlay::{Access, New, RenameMode};

/// A node to be made.
#[derive(Clone, Copy, Debug)]
pub(in crate::fuse) struct Make<'a> {
    /// The directory.
    pub(in crate::fuse) parent: u64,
    /// The name.
    pub(in crate::fuse) name: &'a [u8],
    /// Mode bits; what lies above the permissions is the type of a new node (mknod(2)).
    pub(in crate::fuse) mode: u32,
    /// The caller's umask.
    pub(in crate::fuse) umask: u32,
}

/// A name to be moved.
#[derive(Clone, Copy, Debug)]
pub(in crate::fuse) struct Move<'a> {
    /// The old directory and name.
    pub(in crate::fuse) from: (u64, &'a [u8]),
    /// The new ones.
    pub(in crate::fuse) to: (u64, &'a [u8]),
    /// The flags of renameat2(2).
    pub(in crate::fuse) flags: u32,
}

impl Requests {
    /// Finds a name.
    pub(in crate::fuse) fn lookup(&self, parent: u64, name: &[u8]) -> Answer<Lookup> {
        let parent = self.node(parent);
        let found = self.answer(|guard| guard.lookup(parent, name))?;
        Ok(found.into())
    }

    /// The kernel dropped `count` references to a node.
    pub(in crate::fuse) fn forget(&self, node: u64, count: u64) {
        let node = self.node(node);
        let _ = self.answer(|guard| {
            guard.forget(node, count);
            Ok(())
        });
    }

    /// Makes anything but a directory or a symbolic link. `device` is the number of a device; who
    /// may make one the kernel has checked (mknod(2): `CAP_MKNOD` on the machine).
    pub(in crate::fuse) fn mknod(
        &self,
        asker: Asker,
        make: Make<'_>,
        device: u32,
    ) -> Answer<Named> {
        let kind = match FileType::from_raw_mode(make.mode) {
            FileType::RegularFile => NodeKind::File,
            FileType::Fifo => NodeKind::Fifo,
            FileType::Socket => NodeKind::Socket,
            FileType::CharacterDevice => NodeKind::Character(device.into()),
            FileType::BlockDevice => NodeKind::Block(device.into()),
            _ => return Err(Errno::INVAL),
        };
        self.make(asker, make, kind)
    }

    /// Makes a directory.
    pub(in crate::fuse) fn mkdir(&self, asker: Asker, make: Make<'_>) -> Answer<Named> {
        self.make(asker, make, NodeKind::Directory)
    }

    /// Makes a symbolic link.
    pub(in crate::fuse) fn symlink(
        &self,
        asker: Asker,
        parent: u64,
        name: &[u8],
        target: &[u8],
    ) -> Answer<Named> {
        let make = Make {
            parent,
            name,
            mode: 0o777,
            umask: 0,
        };
        self.make(asker, make, NodeKind::Symlink(target.to_vec()))
    }

    /// Makes a file and opens it.
    pub(in crate::fuse) fn create(
        &self,
        asker: Asker,
        make: Make<'_>,
        flags: u32,
    ) -> Answer<(Named, Opened)> {
        let parent = self.node(make.parent);
        let (new, access) = (new(asker, make, NodeKind::File), access(flags)?);
        let made =
            self.answer(|guard| guard.create_open(asker.pid, parent, make.name, new, access));
        match made {
            Ok((entry, opened)) => Ok((entry.into(), opened.into())),
            // The host made the name after the kernel looked: it looks again, and opens what is there.
            Err(Errno::EXIST) if flags & OFlags::EXCL.bits() == 0 => Err(Errno::STALE),
            Err(errno) => Err(errno),
        }
    }

    /// Makes a file without a name and opens it; the name of `make` does not count.
    pub(in crate::fuse) fn tmpfile(
        &self,
        asker: Asker,
        make: Make<'_>,
        flags: u32,
    ) -> Answer<(Named, Opened)> {
        let parent = self.node(make.parent);
        let (new, access) = (new(asker, make, NodeKind::File), access(flags)?);
        let made = self.answer(|guard| guard.create_nameless(asker.pid, parent, &new, access));
        made.map(|(entry, opened)| (entry.into(), opened.into()))
    }

    /// Gives a node a further name.
    pub(in crate::fuse) fn link(
        &self,
        asker: Asker,
        node: u64,
        parent: u64,
        name: &[u8],
    ) -> Answer<Named> {
        let (node, parent) = (self.node(node), self.node(parent));
        let entry = self.answer(|guard| guard.link(asker.pid, node, parent, name))?;
        Ok(entry.into())
    }

    /// Removes the name of anything but a directory.
    pub(in crate::fuse) fn unlink(&self, asker: Asker, parent: u64, name: &[u8]) -> Answer<()> {
        let parent = self.node(parent);
        self.answer(|guard| guard.unlink(asker.pid, parent, name))
    }

    /// Removes a directory.
    pub(in crate::fuse) fn rmdir(&self, asker: Asker, parent: u64, name: &[u8]) -> Answer<()> {
        let parent = self.node(parent);
        self.answer(|guard| guard.rmdir(asker.pid, parent, name))
    }

    /// Moves or exchanges names.
    pub(in crate::fuse) fn rename(&self, asker: Asker, move_: Move<'_>) -> Answer<()> {
        let mode = match RenameFlags::from_bits_retain(move_.flags) {
            flags if flags.is_empty() => RenameMode::Replace,
            RenameFlags::NOREPLACE => RenameMode::NoReplace,
            RenameFlags::EXCHANGE => RenameMode::Exchange,
            _ => return Err(Errno::INVAL),
        };
        let from = (self.node(move_.from.0), move_.from.1);
        let to = (self.node(move_.to.0), move_.to.1);
        self.answer(|guard| guard.rename(asker.pid, from, to, mode))
    }

    fn make(&self, asker: Asker, make: Make<'_>, kind: NodeKind) -> Answer<Named> {
        let parent = self.node(make.parent);
        let new = new(asker, make, kind);
        let entry = self.answer(|guard| guard.create(asker.pid, parent, make.name, new))?;
        Ok(entry.into())
    }
}

fn new(asker: Asker, make: Make<'_>, kind: NodeKind) -> New {
    New {
        kind,
        mode: make.mode & 0o7777,
        umask: make.umask,
        uid: asker.uid,
        gid: asker.gid,
    }
}

/// What a handle may do by the flags of open(2).
pub(super) fn access(flags: u32) -> Answer<Access> {
    match flags & OFlags::ACCMODE.bits() {
        0 => Ok(Access::Read),
        1 => Ok(Access::Write),
        2 => Ok(Access::ReadWrite),
        _ => Err(Errno::INVAL),
    }
}
