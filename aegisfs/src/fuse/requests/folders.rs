//! Requests about open directories.

use std::sync::Arc;

use super::answers::Shown;
use super::{Answer, Lookup, Named, Requests};
use crate::guard::Guard;
use crate::overlay::{DirEntry, HandleId};

/// What is left of a listing.
#[derive(Debug)]
pub(in crate::fuse) struct Listing {
    entries: Arc<[DirEntry]>,
    next: usize,
}

/// A name in a listing, with the node it leads to.
#[derive(Clone, Copy, Debug)]
pub(in crate::fuse) struct Listed {
    /// The node; the kernel holds one reference more, unless it is a dot.
    pub(in crate::fuse) named: Named,
    /// Whether it is `.` or `..`, of which the kernel takes neither the node nor a reference.
    pub(in crate::fuse) dot: bool,
}

impl Listing {
    /// The names that are left, each with the offset of what follows it.
    pub(in crate::fuse) fn entries(&self) -> impl Iterator<Item = (u64, &DirEntry)> {
        let numbered = self.entries.iter().enumerate().skip(self.next);
        numbered.map(|(index, entry)| (index as u64 + 1, entry))
    }
}

impl Requests {
    /// Opens a directory.
    pub(in crate::fuse) fn opendir(&self, node: u64) -> Answer<HandleId> {
        let node = self.node(node);
        self.answer(|guard| guard.opendir(node))
    }

    /// The listing from `offset` on.
    pub(in crate::fuse) fn readdir(&self, handle: HandleId, offset: u64) -> Answer<Listing> {
        let entries = self.answer(|guard| guard.readdir(handle, offset))?;
        Ok(Listing {
            entries,
            next: usize::try_from(offset).unwrap_or(usize::MAX),
        })
    }

    /// What a listed name in the directory `folder` leads to; `None` when it is gone since the
    /// listing was taken, and left out.
    pub(in crate::fuse) fn listed(&self, folder: u64, entry: &DirEntry) -> Option<Listed> {
        if matches!(&*entry.name, b"." | b"..") {
            let mut shown: Shown = self.getattr(folder).ok()?;
            shown.attr.node = entry.node;
            let lifetime = shown.lifetime;
            let generation = 0;
            let named = Named {
                shown,
                generation,
                lifetime,
            };
            return Some(Listed { named, dot: true });
        }
        match self.lookup(folder, &entry.name) {
            Ok(Lookup::Found(named)) => Some(Listed { named, dot: false }),
            _ => None,
        }
    }

    /// Takes the reference back that a listed name was to give: it did not fit.
    pub(in crate::fuse) fn unlisted(&self, listed: &Listed) {
        if !listed.dot {
            self.forget(listed.named.shown.attr.node.0, 1);
        }
    }

    /// Closes a directory.
    pub(in crate::fuse) fn releasedir(&self, handle: HandleId) -> Answer<()> {
        self.answer(|guard| {
            guard.releasedir(handle);
            Ok(())
        })
    }

    /// Makes everything recorded so far durable.
    pub(in crate::fuse) fn fsyncdir(&self) -> Answer<()> {
        self.answer(Guard::sync_records)
    }
}
