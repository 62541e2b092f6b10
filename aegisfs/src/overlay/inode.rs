//! The nodes that the kernel knows. An untouched node of the host is here from its first lookup to
//! its last forget; what the session touched is in the shadow, and here while the kernel holds it.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use aegis_policies::journal::{Generation, NodeId};
use dashmap::DashMap;
use dashmap::mapref::entry::Entry;

use super::attr::{Stat, Version};
use super::blocks::Body;
use super::shadow::{FIRST_MADE, Shadow};

/// The kernel compares generations as signed numbers of 32 bits.
const GENERATIONS: u32 = i32::MAX as u32;
/// Names remembered for an untouched file with several.
const NAMES: usize = 8;
/// In place of the hash of a time: no inode that is found is known to be the one that this was.
const UNSURE: u32 = 2;

/// A name of the host's: the directory's node, and the name in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LowerName {
    pub(crate) folder: NodeId,
    pub(crate) name: Box<[u8]>,
}

/// What the host has of a node.
#[derive(Debug, Default)]
struct LowerSide {
    /// Device and number of the inode; zeros when the host has none.
    identity: (u64, u64),
    /// A hash of when the inode was made; 0 when that is not known.
    born: u32,
    /// The newest of its names.
    newest: Option<LowerName>,
    /// The others.
    older: Option<Box<Older>>,
}

/// Further names, newest first. Nearly every node has none, and has a pointer for them at most.
#[derive(Debug, Default)]
struct Older(Vec<LowerName>);

/// A node that the kernel knows.
#[derive(Debug)]
pub(crate) struct Inode {
    pub(crate) id: NodeId,
    /// Whether it is a directory. The host may use the number of a file for a directory later.
    directory: AtomicBool,
    /// Whether it has never had a name.
    nameless: AtomicBool,
    /// How many inodes the host has had with this number, less one.
    generation: AtomicU32,
    lower: Mutex<LowerSide>,
    /// Lookups less forgets; changes only under the table's lock on the node.
    lookups: AtomicU64,
    /// Handles; changes only with `backing` locked.
    pub(crate) opens: AtomicU32,
    /// What its handles read and write. Locked before the shadow, never after.
    pub(crate) backing: RwLock<Backing>,
    /// The generation in which `backing` was found to be right; changes only with it locked.
    pub(crate) seen: AtomicU64,
    /// The processes whose first read has been recorded. Most nodes are never opened.
    readers: OnceLock<Box<Mutex<Vec<u32>>>>,
    /// The version of the pages that the kernel may have.
    pub(crate) cached: VersionCell,
    /// The version of the attributes that the kernel was told last.
    pub(crate) shown: VersionCell,
}

/// Remembers a version by its hash, in eight bytes: there are as many as there are nodes.
#[derive(Debug, Default)]
pub(crate) struct VersionCell(AtomicU64);

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
    fn new(id: NodeId) -> Self {
        Self {
            id,
            directory: AtomicBool::new(false),
            nameless: AtomicBool::new(false),
            generation: AtomicU32::new(0),
            lower: Mutex::default(),
            lookups: AtomicU64::new(0),
            opens: AtomicU32::new(0),
            backing: RwLock::default(),
            seen: AtomicU64::new(0),
            readers: OnceLock::new(),
            cached: VersionCell::default(),
            shown: VersionCell::default(),
        }
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

    /// Device and number of the host's inode; zeros when the host has none.
    pub(crate) fn identity(&self) -> (u64, u64) {
        self.lower().identity
    }

    /// The host's names that led here, newest first.
    pub(crate) fn lower_names(&self) -> Vec<LowerName> {
        let lower = self.lower();
        let older = lower.older.iter().flat_map(|older| &older.0);
        lower.newest.iter().chain(older).cloned().collect()
    }

    /// The newest of the host's names that led here.
    pub(crate) fn newest_name(&self) -> Option<LowerName> {
        self.lower().newest.clone()
    }

    /// Notes which inode of the host's it is: device and number, and when it was made.
    pub(crate) fn note_identity(&self, identity: (u64, u64), born: i64) {
        let mut lower = self.lower();
        if lower.identity == (0, 0) {
            lower.identity = identity;
        }
        let born = short_hash(born);
        let sure = lower.born == 0 || (born == 0 && lower.born != UNSURE);
        if !sure && lower.born != born {
            // The host has given the number to another. To the kernel it is another as well.
            let next = self.generation().wrapping_add(1) & GENERATIONS;
            self.generation.store(next, Ordering::Release);
            (lower.newest, lower.older, lower.born) = (None, None, 0);
            self.cached.clear();
            self.readers().clear();
        }
        if born != 0 {
            lower.born = born;
        }
    }

    /// Whether an inode that the host has is this one: device and number, and when it was made.
    pub(crate) fn is_host(&self, identity: (u64, u64), born: i64) -> bool {
        let lower = self.lower();
        lower.identity == identity && (lower.born == 0 || lower.born == short_hash(born))
    }

    /// Tells the inodes apart that the host has had with this number.
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Notes a name of the host's that led here.
    pub(crate) fn note_name(&self, folder: NodeId, name: &[u8]) {
        self.lower().note(folder, name);
    }

    /// Notes that a process reads; returns whether that is the first time.
    pub(crate) fn first_read(&self, pid: u32) -> bool {
        let mut readers = self.readers();
        let first = !readers.contains(&pid);
        if first {
            readers.push(pid);
        }
        first
    }

    fn readers(&self) -> MutexGuard<'_, Vec<u32>> {
        let readers = self.readers.get_or_init(Box::default);
        readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lower(&self) -> MutexGuard<'_, LowerSide> {
        self.lower.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LowerName {
    fn is(&self, folder: NodeId, name: &[u8]) -> bool {
        self.folder == folder && *self.name == *name
    }
}

impl LowerSide {
    fn note(&mut self, folder: NodeId, name: &[u8]) {
        if self.newest.as_ref().is_some_and(|it| it.is(folder, name)) {
            return;
        }
        let newest = LowerName {
            folder,
            name: name.into(),
        };
        let Some(before) = self.newest.replace(newest) else {
            return;
        };
        let Older(older) = &mut **self.older.get_or_insert_default();
        older.retain(|it| !it.is(folder, name));
        older.insert(0, before);
        older.truncate(NAMES - 1);
    }
}

impl VersionCell {
    /// Whether this is the version that is remembered.
    pub(crate) fn is(&self, version: Version) -> bool {
        self.0.load(Ordering::Relaxed) == hash(version)
    }

    /// Remembers a version.
    pub(crate) fn set(&self, version: Version) {
        self.0.store(hash(version), Ordering::Relaxed);
    }

    /// Remembers none.
    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Odd for a time, 0 for none. That two inodes of one number look as one is unlikely, and costs no more than it did
/// where the time is not known.
fn short_hash(born: i64) -> u32 {
    if born == 0 {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    born.hash(&mut hasher);
    (hasher.finish() >> 32) as u32 | 1
}

/// Never zero, which stands for no version.
fn hash(version: Version) -> u64 {
    let mut hasher = DefaultHasher::new();
    version.hash(&mut hasher);
    hasher.finish() | 1
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

    /// The directories that the kernel knows.
    pub(crate) fn folders(&self) -> Vec<Arc<Inode>> {
        let folders = self.inodes.iter().filter(|inode| inode.is_folder());
        folders.map(|inode| Arc::clone(&inode)).collect()
    }

    /// Makes a node of the session one of the host's again, which was made at `born`. Without that
    /// time nothing that the host has by that number is taken for it.
    pub(crate) fn give_back(
        &self,
        inode: &Inode,
        identity: (u64, u64),
        born: Option<i64>,
        directory: bool,
    ) {
        let mut lower = inode.lower();
        lower.identity = identity;
        if lower.born == 0 {
            lower.born = born.map_or(UNSURE, short_hash);
        }
        drop(lower);
        inode.directory.store(directory, Ordering::Relaxed);
        if inode.id.0 >= FIRST_MADE {
            self.foreign.insert(identity, inode.id);
        }
    }

    /// Counts a lookup that is about to be answered.
    pub(crate) fn remember(&self, id: NodeId, directory: bool) -> Arc<Inode> {
        let inode = self.inodes.entry(id);
        let inode = inode.or_insert_with(|| Arc::new(Inode::new(id)));
        inode.lookups.fetch_add(1, Ordering::Relaxed);
        inode.directory.store(directory, Ordering::Relaxed);
        Arc::clone(&inode)
    }

    /// Drops the number of an inode that turned out to be unknown to the kernel.
    pub(crate) fn drop_foreign(&self, identity: (u64, u64), id: NodeId) {
        if self.find(id).is_none() {
            self.foreign
                .remove_if(&identity, |_, foreign| *foreign == id);
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

    /// Takes lookups back; returns the node when the kernel has dropped it.
    pub(crate) fn forget(&self, id: NodeId, count: u64) -> Option<Arc<Inode>> {
        let Entry::Occupied(entry) = self.inodes.entry(id) else {
            return None;
        };
        let before = entry.get().lookups.load(Ordering::Relaxed);
        entry
            .get()
            .lookups
            .store(before.saturating_sub(count), Ordering::Relaxed);
        if before > count || entry.get().is_open() {
            return None;
        }
        let inode = entry.remove();
        self.foreign
            .remove_if(&inode.identity(), |_, foreign| *foreign == inode.id);
        Some(inode)
    }
}
