//! Requests about directories.

use std::time::Duration;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::answers::Shown;
use super::{Answer, Named, Requests};
use crate::guard::Guard;
use crate::overlay::{Attr, DirEntry, Rest};

impl Requests {
    /// Opens a directory. There is nothing to open: a place in a listing says all. A kernel that
    /// can be told so (`shortcut`: `FUSE_NO_OPENDIR_SUPPORT`) asks once, and keeps listings as one
    /// does that is told to by `FOPEN_CACHE_DIR`.
    pub(in crate::fuse) const fn opendir(&self, shortcut: bool) -> Answer<()> {
        if shortcut { Err(Errno::NOSYS) } else { Ok(()) }
    }

    /// The listing of a directory after the place `offset`.
    pub(in crate::fuse) fn readdir(&self, folder: u64, offset: u64) -> Answer<Rest> {
        let folder = self.node(folder);
        self.answer(|guard| guard.readdir(folder, offset))
    }

    /// The same with the node that each name leads to, until `add` does not take one. The kernel
    /// holds one reference more to each that was taken.
    pub(in crate::fuse) fn readdirplus(
        &self,
        folder: u64,
        offset: u64,
        mut add: impl FnMut(&DirEntry, &Named) -> bool,
    ) -> Answer<()> {
        let folder = self.node(folder);
        self.answer(|guard| {
            let rest = guard.readdir(folder, offset)?;
            guard.lookup_listed(folder, rest.entries(), |entry, found| match found {
                Some(found) => add(entry, &found.into()),
                None => add(entry, &dot(entry)),
            })
        })
    }

    /// Makes everything recorded so far durable.
    pub(in crate::fuse) fn fsyncdir(&self) -> Answer<()> {
        self.answer(Guard::sync_records)
    }
}

/// Of `.` and `..` the kernel takes neither the node nor a reference.
const fn dot(entry: &DirEntry) -> Named {
    let attr = Attr {
        node: entry.node,
        kind: FileType::Directory,
        mode: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        size: 0,
        blocks: 0,
        atime: 0,
        mtime: 0,
        ctime: 0,
        unannounced: true,
    };
    let lifetime = Duration::ZERO;
    Named {
        shown: Shown { attr, lifetime },
        generation: 0,
        lifetime,
    }
}
