//! What the host changes underneath is announced to the kernel, so that the kernel may trust what it
//! was told for as long as nothing is announced.
//!
//! A directory of the host is watched (inotify(7)) before the kernel is told of anything in it. A
//! thread of its own turns events into exactly what must be forgotten. The watches are bounded: a
//! directory for which none is left, or on a file system that announces nothing, is trusted briefly.

mod events;
mod follow;
mod mounts;
mod table;

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;

use aegis_policies::journal::NodeId;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify;
use rustix::io::{Errno, write};

use super::Overlay;
use super::lower::LowerFolder;
use events::Batch;
use mounts::Mounts;
use table::Table;

/// The most directories that one tree watches; each costs about a kilobyte of the kernel's memory.
const MOST: usize = 65_536;
/// The part of what the user may watch in all (`fs.inotify.max_user_watches`) that one tree takes:
/// editors and build tools of the same user need the rest.
const SHARE: usize = 4;
/// The pause between two batches of events: a host that writes without end costs a bounded part of
/// a processor.
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 2_000_000,
};

/// The directories that are watched; none before a kernel is there to be told.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    most: Option<usize>,
    watching: OnceLock<Arc<Watching>>,
}

/// How many directories are watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// Now.
    pub folders: usize,
    /// At most.
    pub most: usize,
}

#[derive(Debug)]
struct Watching {
    table: Table,
    mounts: Option<Mounts>,
    /// Readable once the tree is gone.
    stop: OwnedFd,
    /// Whether the kernel can forget all names at once.
    forgets_all: bool,
}

impl Overlay {
    /// Watches at most `most` directories of the host; what is not watched is trusted for a second.
    #[must_use]
    pub fn with_watches(mut self, most: usize) -> Self {
        self.watches.most = Some(most);
        self
    }

    /// How many directories of the host are watched.
    #[must_use]
    pub fn watched(&self) -> Watched {
        let watching = self.watches.watching.get();
        watching.map_or_else(Watched::default, |it| it.table.watched())
    }

    /// Starts to follow the host. Where that can not be done everything is trusted briefly.
    pub(super) fn follow(self: &Arc<Self>, forgets_all: bool) {
        let most = self.watches.most.unwrap_or_else(usual_most);
        if most == 0 || self.watches.watching.get().is_some() {
            return;
        }
        let Ok(watching) = Watching::new(most, forgets_all, self.lower.top()).map(Arc::new) else {
            return;
        };
        let (overlay, followed) = (Arc::downgrade(self), Arc::clone(&watching));
        let thread = thread::Builder::new().name("aegisfs-watch".to_owned());
        if thread.spawn(move || run(&overlay, &followed)).is_ok() {
            let _ = self.watches.watching.set(watching);
        }
    }
}

impl Watches {
    /// Watches a directory, unless it is watched; returns whether it is now. `id` is told what
    /// happens in it.
    pub(crate) fn cover(&self, id: NodeId, folder: &LowerFolder) -> bool {
        self.table().is_some_and(|table| table.cover(id, folder))
    }

    /// Whether the directory with this inode is watched for `id`.
    pub(crate) fn hold(&self, id: NodeId, identity: (u64, u64)) -> bool {
        self.table().is_some_and(|table| table.hold(id, identity))
    }

    /// The kernel knows the node no longer.
    pub(crate) fn release(&self, id: NodeId) {
        if let Some(table) = self.table() {
            table.release(id);
        }
    }

    /// Whether the kernel can forget all names at once, those included that lead nowhere.
    pub(crate) fn can_forget_all(&self) -> bool {
        self.watching.get().is_some_and(|it| it.forgets_all)
    }

    fn table(&self) -> Option<&Table> {
        self.watching.get().map(|it| &it.table)
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        if let Some(watching) = self.watching.get() {
            let _ = write(&watching.stop, &1_u64.to_ne_bytes());
        }
    }
}

impl Watching {
    fn new(most: usize, forgets_all: bool, top: BorrowedFd<'_>) -> Result<Self, Errno> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        Ok(Self {
            table: Table::new(inotify::init(flags)?, most),
            mounts: Mounts::below(top),
            stop: eventfd(0, EventfdFlags::CLOEXEC)?,
            forgets_all,
        })
    }

    /// Waits for events and reads them; nothing when the tree is gone.
    fn next(&self) -> Option<Batch> {
        let mut waited = vec![
            PollFd::new(&self.stop, PollFlags::IN),
            PollFd::new(self.table.inotify(), PollFlags::IN),
        ];
        let list = self.mounts.as_ref().map(Mounts::list);
        waited.extend(list.map(|list| PollFd::from_borrowed_fd(list, PollFlags::PRI)));
        match poll(&mut waited, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
        let told = |index: usize| waited.get(index).is_some_and(|it| !it.revents().is_empty());
        if told(0) {
            return None;
        }
        let mut batch = Batch::read(&self.table);
        batch.lost |= told(2) && self.mounts.as_ref().is_some_and(Mounts::changed);
        Some(batch)
    }

    /// Lets events gather.
    fn pause(&self) {
        let mut waited = [PollFd::new(&self.stop, PollFlags::IN)];
        let _ = poll(&mut waited, Some(&PAUSE));
    }
}

/// Takes back what the kernel was told, until the tree is gone.
fn run(overlay: &Weak<Overlay>, watching: &Watching) {
    while let Some(batch) = watching.next() {
        let Some(overlay) = overlay.upgrade() else {
            return;
        };
        overlay.host_changed(&batch);
        drop(overlay);
        watching.pause();
    }
}

/// How many directories one tree may watch, unless it is said.
fn usual_most() -> usize {
    let limit = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_watches");
    let limit = limit.ok().and_then(|limit| limit.trim().parse().ok());
    limit.map_or(0, |limit: usize| (limit / SHARE).min(MOST))
}
