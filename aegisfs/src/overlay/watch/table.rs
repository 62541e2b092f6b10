//! Which directories are watched, for which nodes.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aegis_policies::journal::NodeId;
use rustix::fs::fstatfs;
use rustix::fs::inotify::{WatchFlags, add_watch, remove_watch};
use rustix::io::Errno;

use super::Watched;
use crate::overlay::lower::LowerFolder;

const EVENTS: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::EXCL_UNLINK);

/// The file systems on which every change goes through this kernel, which announces it: those of
/// local disks and of memory (statfs(2)). Those of a network, of user space and of layers are not
/// among them.
const ANNOUNCING: [u32; 19] = [
    0x0000_EF53, // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683E, // btrfs
    0x0102_1994, // tmpfs
    0x8584_58F6, // ramfs
    0xF2F5_2010, // f2fs
    0xCA45_1A4E, // bcachefs
    0x2FC1_2FC1, // zfs
    0x3153_464A, // jfs
    0x5265_4973, // reiserfs
    0x0000_3434, // nilfs2
    0x7366_746E, // ntfs3
    0x2011_BAB0, // exfat
    0x0000_4D44, // vfat
    0x4244,      // hfs
    0x482B,      // hfs+
    0x7371_7368, // squashfs
    0xE0F5_E1E2, // erofs
    0x0000_9660, // iso9660
];

/// How long to wait before asking again for watches after there were none left.
const PATIENCE: Duration = Duration::from_secs(1);

/// The watches of one tree.
#[derive(Debug)]
pub(super) struct Table {
    inotify: OwnedFd,
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whom the events of a watch concern. One directory may be known by several nodes.
    nodes: HashMap<i32, Vec<NodeId>>,
    watches: HashMap<NodeId, Watch>,
    /// Whether the file system of a device announces changes.
    announcing: HashMap<u64, bool>,
    /// Since when there are none left.
    exhausted: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Watch {
    descriptor: i32,
    /// Device and number of the inode that is watched.
    identity: (u64, u64),
}

impl Table {
    pub(super) fn new(inotify: OwnedFd, most: usize) -> Self {
        Self {
            inotify,
            most,
            state: Mutex::default(),
        }
    }

    pub(super) const fn inotify(&self) -> &OwnedFd {
        &self.inotify
    }

    pub(super) fn watched(&self) -> Watched {
        Watched {
            folders: self.state().nodes.len(),
            most: self.most,
        }
    }

    pub(super) fn hold(&self, id: NodeId, identity: (u64, u64)) -> bool {
        let state = self.state();
        let watch = state.watches.get(&id);
        watch.is_some_and(|watch| watch.identity == identity)
    }

    pub(super) fn cover(&self, id: NodeId, folder: &LowerFolder) -> bool {
        let mut state = self.state();
        match state.watches.get(&id) {
            Some(watch) if watch.identity == folder.identity => return true,
            // The host has put another directory in its place.
            Some(_) => self.remove(&mut state, id),
            None => {}
        }
        if !self.has_room(&state) || !state.announces(folder) {
            return false;
        }
        // By its descriptor: whatever its name leads to by now, it is this directory.
        let path = format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd());
        match add_watch(&self.inotify, path, EVENTS) {
            Ok(descriptor) => {
                state.insert(id, descriptor, folder.identity);
                true
            }
            Err(errno) => {
                if errno == Errno::NOSPC {
                    state.exhausted = Some(Instant::now());
                }
                false
            }
        }
    }

    pub(super) fn release(&self, id: NodeId) {
        self.remove(&mut self.state(), id);
    }

    /// Whom the events of a watch concern.
    pub(super) fn nodes(&self, descriptor: i32) -> Vec<NodeId> {
        let state = self.state();
        state.nodes.get(&descriptor).cloned().unwrap_or_default()
    }

    /// The kernel has ended a watch, because what it watched is gone.
    pub(super) fn ended(&self, descriptor: i32) {
        let mut state = self.state();
        for id in state.nodes.remove(&descriptor).unwrap_or_default() {
            state.watches.remove(&id);
        }
    }

    fn has_room(&self, state: &State) -> bool {
        let waiting = |since: Instant| since.elapsed() < PATIENCE;
        state.nodes.len() < self.most && !state.exhausted.is_some_and(waiting)
    }

    fn remove(&self, state: &mut State, id: NodeId) {
        let Some(Watch { descriptor, .. }) = state.watches.remove(&id) else {
            return;
        };
        let Some(nodes) = state.nodes.get_mut(&descriptor) else {
            return;
        };
        nodes.retain(|node| *node != id);
        if nodes.is_empty() {
            state.nodes.remove(&descriptor);
            // An error means that the directory is gone, and the watch with it.
            let _ = remove_watch(&self.inotify, descriptor);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn insert(&mut self, id: NodeId, descriptor: i32, identity: (u64, u64)) {
        let watch = Watch {
            descriptor,
            identity,
        };
        self.watches.insert(id, watch);
        self.nodes.entry(descriptor).or_default().push(id);
        self.exhausted = None;
    }

    fn announces(&mut self, folder: &LowerFolder) -> bool {
        let device = self.announcing.entry(folder.identity.0);
        *device.or_insert_with(|| fstatfs(folder).is_ok_and(|it| is_announcing(it.f_type)))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "statfs(2) gives 32 bits in a type that differs between machines"
)]
fn is_announcing(kind: rustix::fs::FsWord) -> bool {
    ANNOUNCING.contains(&(kind as u32))
}
