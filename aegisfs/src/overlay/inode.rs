//! The nodes that the kernel knows. An untouched node of the host is here from its first lookup to
//! its last forget; what the session touched is in the shadow, and here while the kernel holds it.

use std::collections::HashMap;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use aegis_policies::RelPath;
use aegis_policies::journal::{Generation, LowerFile, NodeId};
use dashmap::DashMap;
use dashmap::mapref::entry::Entry;

use super::attr::{Stat, Version};
use super::blocks::Body;
use super::shadow::{FIRST_MADE, Place, Shadow};

/// Names remembered for an untouched file with several.
const NAMES: usize = 8;

/// A node that the kernel knows.
#[derive(Debug)]
pub(crate) struct Inode {
    pub(crate) id: NodeId,
    identity: Mutex<(u64, u64)>,
    /// Whether it is a directory. The host may use the number of a file for a directory later.
    directory: AtomicBool,
    /// Whether it has never had a name.
    nameless: AtomicBool,
    /// Where the host has it, newest first.
    lower: Mutex<Vec<RelPath>>,
    /// Lookups less forgets; changes only under the table's lock on the node.
    lookups: AtomicU64,
    /// Handles; changes only with `backing` locked.
    pub(crate) opens: AtomicU64,
    /// What its handles read and write. Locked before the shadow, never after.
    pub(crate) backing: RwLock<Backing>,
    /// The generation in which `backing` was found to be right; changes only with it locked.
    pub(crate) seen: AtomicU64,
    /// The processes whose first read has been recorded.
    pub(crate) readers: Mutex<Vec<u32>>,
    /// The version that the kernel may have in its page cache.
    pub(crate) cached: Mutex<Option<Version>>,
}

/// What the handles of a node share, so that one opened before copy-up sees what is written after.
#[derive(Debug, Default)]
pub(crate) enum Backing {
    /// No handle is open.
    #[default]
    Closed,
    /// The host's file, opened for reading only.
    Lower(Arc<File>),
    /// The session's own content, and the generation in which it was made.
    Upper(Body, Generation),
}

/// All of them.
#[derive(Debug)]
pub(crate) struct InodeTable {
    inodes: DashMap<NodeId, Arc<Inode>>,
    /// Numbers of nodes that can not have the host's: on another device, or taken.
    foreign: DashMap<(u64, u64), NodeId>,
    next: AtomicU64,
}

impl Inode {
    fn new(id: NodeId, identity: (u64, u64)) -> Self {
        Self {
            id,
            identity: Mutex::new(identity),
            directory: AtomicBool::new(false),
            nameless: AtomicBool::new(false),
            lower: Mutex::default(),
            lookups: AtomicU64::new(0),
            opens: AtomicU64::new(0),
            backing: RwLock::default(),
            seen: AtomicU64::new(0),
            readers: Mutex::default(),
            cached: Mutex::default(),
        }
    }

    /// Device and number of the host's inode; zeros when the host has none.
    pub(crate) fn identity(&self) -> (u64, u64) {
        *self.identity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is a directory.
    pub(crate) fn is_folder(&self) -> bool {
        self.directory.load(Ordering::Relaxed)
    }

    /// Whether it has never had a name.
    pub(crate) fn is_nameless(&self) -> bool {
        self.nameless.load(Ordering::Relaxed)
    }

    /// Whether a handle is open.
    pub(crate) fn is_open(&self) -> bool {
        self.opens.load(Ordering::Relaxed) > 0
    }

    /// The content that may be written in a generation: it was made in it. `None` as well when
    /// somebody is about to change what the content is.
    pub(crate) fn own_body(&self, now: Generation) -> Option<Body> {
        match &*self.backing.try_read().ok()? {
            Backing::Upper(body, generation) if *generation == now => Some(body.clone()),
            _ => None,
        }
    }

    /// The host's names that led here, newest first.
    pub(crate) fn lower_names(&self) -> Vec<RelPath> {
        self.names().clone()
    }

    fn names(&self) -> MutexGuard<'_, Vec<RelPath>> {
        self.lower.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_name(&self, path: &RelPath) {
        let mut names = self.names();
        if names.first() != Some(path) {
            names.retain(|name| name != path);
            names.insert(0, path.clone());
            names.truncate(NAMES);
        }
    }
}

impl InodeTable {
    /// A table that gives numbers from `first` on, which no node of the shadow has.
    pub(crate) fn new(first: NodeId) -> Self {
        Self {
            inodes: DashMap::new(),
            foreign: DashMap::new(),
            next: AtomicU64::new(first.0),
        }
    }

    /// A number that no other node has.
    pub(crate) fn fresh_id(&self) -> NodeId {
        NodeId(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// The number that an untouched node of the host is shown with: its own where it can be.
    pub(crate) fn id_for(&self, shadow: &Shadow, device: u64, stat: &Stat) -> NodeId {
        let own = NodeId(stat.ino);
        let fits = stat.dev == device && (2..FIRST_MADE).contains(&stat.ino);
        // The host may have given the number of a file that the session keeps to a new file.
        if fits && shadow.node(own).is_none() {
            return own;
        }
        self.foreign_id(shadow, (stat.dev, stat.ino))
    }

    /// The number of a node that can not have the host's.
    pub(crate) fn foreign_id(&self, shadow: &Shadow, identity: (u64, u64)) -> NodeId {
        let mut id = self
            .foreign
            .entry(identity)
            .or_insert_with(|| self.fresh_id());
        if shadow.node(*id).is_some() {
            *id = self.fresh_id();
        }
        *id
    }

    /// The node, when the kernel knows it.
    pub(crate) fn find(&self, id: NodeId) -> Option<Arc<Inode>> {
        self.inodes.get(&id).map(|inode| Arc::clone(&inode))
    }

    /// The nodes that the kernel knows.
    pub(crate) fn known(&self) -> Vec<NodeId> {
        self.inodes.iter().map(|inode| *inode.key()).collect()
    }

    /// The host's directories that the kernel knows, by their names there.
    pub(crate) fn lower_folders(&self) -> HashMap<RelPath, NodeId> {
        let folders = self.inodes.iter().filter(|inode| inode.is_folder());
        folders
            .flat_map(|inode| {
                let names = inode.lower_names().into_iter();
                names.map(|name| (name, inode.id)).collect::<Vec<_>>()
            })
            .collect()
    }

    /// Makes a node of the session one of the host's again.
    pub(crate) fn give_back(&self, inode: &Inode, lower: &LowerFile, directory: bool) {
        let identity = (lower.dev, lower.ino);
        let mut before = inode
            .identity
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *before = identity;
        drop(before);
        inode.directory.store(directory, Ordering::Relaxed);
        inode.note_name(&lower.path);
        if inode.id.0 >= FIRST_MADE {
            self.foreign.insert(identity, inode.id);
        }
    }

    /// Counts a lookup that is about to be answered.
    pub(crate) fn remember(
        &self,
        id: NodeId,
        identity: (u64, u64),
        directory: bool,
        lower: Option<&RelPath>,
    ) {
        let fresh = || Arc::new(Inode::new(id, identity));
        let inode = self.inodes.entry(id).or_insert_with(fresh);
        inode.lookups.fetch_add(1, Ordering::Relaxed);
        inode.directory.store(directory, Ordering::Relaxed);
        if let Some(lower) = lower {
            inode.note_name(lower);
        }
    }

    /// Notes that a node has no name yet.
    pub(crate) fn mark_nameless(&self, id: NodeId) {
        if let Some(inode) = self.find(id) {
            inode.nameless.store(true, Ordering::Relaxed);
        }
    }

    /// Notes that a node got its first name.
    pub(crate) fn mark_named(&self, id: NodeId) {
        if let Some(inode) = self.find(id) {
            inode.nameless.store(false, Ordering::Relaxed);
        }
    }

    /// Notes a name of the host's that led to a node.
    pub(crate) fn note_name(&self, id: NodeId, place: &Place) {
        if let (Some(inode), Some(lower)) = (self.find(id), place.lower()) {
            inode.note_name(&lower);
        }
    }

    /// Takes lookups back; returns whether the kernel has dropped the node.
    pub(crate) fn forget(&self, id: NodeId, count: u64) -> bool {
        let Entry::Occupied(entry) = self.inodes.entry(id) else {
            return false;
        };
        let before = entry.get().lookups.load(Ordering::Relaxed);
        entry
            .get()
            .lookups
            .store(before.saturating_sub(count), Ordering::Relaxed);
        if before > count || entry.get().is_open() {
            return false;
        }
        let inode = entry.remove();
        self.foreign
            .remove_if(&inode.identity(), |_, foreign| *foreign == inode.id);
        true
    }
}
