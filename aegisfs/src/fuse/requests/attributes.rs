//! Requests about attributes, plain and extended.

use rustix::fs::StatVfs;
use rustix::io::Errno;

use super::{Answer, Asker, Requests, Shown};
use crate::guard::Guard;
use crate::overlay::{Caller, SetAttr, XattrMode};

impl Requests {
    /// The attributes of a node.
    pub(in crate::fuse) fn getattr(&self, node: u64) -> Answer<Shown> {
        let node = self.node(node);
        let attr = self.answer(|guard| guard.getattr(node))?;
        Ok(attr.into())
    }

    /// Changes attributes.
    pub(in crate::fuse) fn setattr(&self, asker: Asker, node: u64, set: SetAttr) -> Answer<Shown> {
        let node = self.node(node);
        let set = SetAttr {
            mode: set.mode.map(|mode| mode & 0o7777),
            ..set
        };
        let attr = self.answer(|guard| guard.setattr(asker.pid, node, set))?;
        Ok(attr.into())
    }

    /// The target of a symbolic link.
    pub(in crate::fuse) fn readlink(&self, node: u64) -> Answer<Vec<u8>> {
        let node = self.node(node);
        self.answer(|guard| guard.readlink(node))
    }

    /// Space and inodes.
    pub(in crate::fuse) fn statfs(&self) -> Answer<StatVfs> {
        self.answer(Guard::statvfs)
    }

    /// Sets an extended attribute; `flags` are those of setxattr(2). A list of who may access the
    /// node takes its set-group-id bit away, unless the caller is trusted.
    pub(in crate::fuse) fn setxattr(
        &self,
        asker: Asker,
        node: u64,
        name: &[u8],
        value: &[u8],
        (flags, caller): (u32, Caller),
    ) -> Answer<()> {
        // XATTR_CREATE and XATTR_REPLACE.
        let mode = match flags {
            1 => XattrMode::Create,
            2 => XattrMode::Replace,
            _ => XattrMode::Any,
        };
        let node = self.node(node);
        self.answer(|guard| guard.set_xattr(asker.pid, node, name, value, (mode, caller)))
    }

    /// The value of an extended attribute.
    pub(in crate::fuse) fn getxattr(&self, node: u64, name: &[u8]) -> Answer<Vec<u8>> {
        let node = self.node(node);
        self.answer(|guard| guard.xattr(node, name))
    }

    /// The names of the extended attributes, each ended by a zero (listxattr(2)).
    pub(in crate::fuse) fn listxattr(&self, node: u64) -> Answer<Vec<u8>> {
        let node = self.node(node);
        let names = self.answer(|guard| guard.xattrs(node))?;
        Ok(names
            .into_iter()
            .flat_map(|name| [name, vec![0]].concat())
            .collect())
    }

    /// Removes an extended attribute.
    pub(in crate::fuse) fn removexattr(&self, asker: Asker, node: u64, name: &[u8]) -> Answer<()> {
        let node = self.node(node);
        self.answer(|guard| guard.remove_xattr(asker.pid, node, name))
    }
}

/// The answer to a request for bytes of which at most `room` are wanted; of which only the number
/// is, when that is zero (getxattr(2)).
pub(in crate::fuse) fn fitting(bytes: Vec<u8>, room: u32) -> Answer<Fitting> {
    match u32::try_from(bytes.len()) {
        Ok(size) if room == 0 => Ok(Fitting::Size(size)),
        Ok(size) if size <= room => Ok(Fitting::Bytes(bytes)),
        _ => Err(Errno::RANGE),
    }
}

/// An answer that fits what was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::fuse) enum Fitting {
    /// How many there are.
    Size(u32),
    /// All of them.
    Bytes(Vec<u8>),
}
