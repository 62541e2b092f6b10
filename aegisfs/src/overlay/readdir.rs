//! Listings: the host's names, less those that are gone, plus those of the session.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aegis_policies::RelPath;
use aegis_policies::journal::NodeId;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::attr::file_type;
use super::found::{Found, LowerNode, Seen};
use super::lookup::{Entry, Lookup};
use super::lower::LowerEntry;
use super::shadow::{Child, FolderKey, Shadow};
use super::{Overlay, OverlayError, Result};

/// Listings that are kept for readers who are in the middle of one.
const KEPT: usize = 32;
/// Where a reader goes on after `.` and `..`.
const DOTS: [u64; 2] = [1, 2];

/// A name in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name.
    pub name: Box<[u8]>,
    /// The number that readdir(3) shows; a lookup may know better.
    pub node: NodeId,
    /// The type.
    pub kind: FileType,
    /// Where a reader goes on after this name.
    pub next: u64,
}

/// What is left of a listing.
#[derive(Clone, Debug)]
pub struct Rest {
    entries: Arc<[DirEntry]>,
    from: usize,
}

/// The listings that somebody is reading, so that a directory is not listed for each part of it.
///
/// A place in a listing is a hash of the name there and not a count, as ext4 does it: it stays
/// right however the directory changes meanwhile, and needs no handle. The hash is keyed, so that
/// nobody can make names that collide.
#[derive(Debug, Default)]
pub(crate) struct Listings {
    key: RandomState,
    kept: Mutex<VecDeque<(NodeId, Arc<[DirEntry]>)>>,
}

impl Rest {
    /// The names, with `.` and `..`.
    #[must_use]
    pub fn entries(&self) -> &[DirEntry] {
        self.entries.get(self.from..).unwrap_or_default()
    }
}

impl DirEntry {
    /// Whether it is `.` or `..`.
    #[must_use]
    pub fn is_dot(&self) -> bool {
        matches!(&*self.name, b"." | b"..")
    }

    fn new(name: &[u8], node: NodeId, kind: FileType) -> Self {
        Self {
            name: name.into(),
            node,
            kind,
            next: 0,
        }
    }
}

impl Listings {
    /// Forgets what a directory was found to hold.
    pub(crate) fn forget(&self, folder: NodeId) {
        self.kept().retain(|(id, _)| *id != folder);
    }

    /// Forgets all of them.
    pub(crate) fn clear(&self) {
        self.kept().clear();
    }

    fn find(&self, folder: NodeId) -> Option<Arc<[DirEntry]>> {
        let kept = self.kept();
        let found = kept.iter().find(|(id, _)| *id == folder);
        found.map(|(_, entries)| Arc::clone(entries))
    }

    fn keep(&self, folder: NodeId, entries: &Arc<[DirEntry]>) {
        let mut kept = self.kept();
        kept.retain(|(id, _)| *id != folder);
        kept.push_back((folder, Arc::clone(entries)));
        if kept.len() > KEPT {
            kept.pop_front();
        }
    }

    /// Gives each name its place, and sorts by it. `.` and `..` come first.
    fn place(&self, entries: &mut [DirEntry]) {
        let (dots, names) = entries.split_at_mut(DOTS.len().min(entries.len()));
        for (dot, place) in dots.iter_mut().zip(DOTS) {
            dot.next = place;
        }
        for entry in &mut *names {
            // An offset is a signed number to lseek(2).
            entry.next = (self.key.hash_one(&entry.name) >> 2).max(DOTS.len() as u64 + 1);
        }
        names.sort_unstable_by(|one, other| (one.next, &one.name).cmp(&(other.next, &other.name)));
        let mut last = 0;
        for entry in names {
            entry.next = entry.next.max(last + 1);
            last = entry.next;
        }
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<(NodeId, Arc<[DirEntry]>)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Overlay {
    /// The listing of a directory after the place `offset`; from the start, it is taken anew.
    ///
    /// # Errors
    /// ENOTDIR or ESTALE, or what the host said.
    pub fn readdir(&self, folder: NodeId, offset: u64) -> Result<Rest> {
        let known = (offset != 0).then(|| self.listings.find(folder)).flatten();
        let entries = match known {
            Some(entries) => entries,
            None => {
                let mut entries = self.list(folder)?;
                self.listings.place(&mut entries);
                let entries = entries.into();
                self.listings.keep(folder, &entries);
                entries
            }
        };
        let from = entries.partition_point(|entry| entry.next <= offset);
        if from == entries.len() {
            // Who asks for more has read all of it.
            self.listings.forget(folder);
        }
        Ok(Rest { entries, from })
    }

    /// Finds what listed names lead to, as [`Overlay::lookup`] does, and hands each to `add` until
    /// that does not take one; with nothing for `.` and `..`. A name that is gone since it was
    /// listed is left out.
    ///
    /// # Errors
    /// ENOTDIR or ESTALE for the directory.
    pub fn lookup_listed(
        &self,
        folder: NodeId,
        listed: &[DirEntry],
        mut add: impl FnMut(&DirEntry, Option<Entry>) -> bool,
    ) -> Result<()> {
        let shadow = self.read();
        let within = self.within(&shadow, folder)?;
        for entry in listed {
            let found = match entry.is_dot() {
                true => None,
                false => match self.lookup_within(&shadow, &within, &entry.name) {
                    Ok(Lookup::Found(found)) => Some(found),
                    _ => continue,
                },
            };
            if !add(entry, found) {
                drop(shadow);
                if let Some(found) = found {
                    self.forget(found.attr.node, 1);
                }
                return Ok(());
            }
        }
        Ok(())
    }

    /// Every path below a directory, relative to it; `None` when there are more than `most`, and
    /// nothing for what is not a directory.
    ///
    /// # Errors
    /// What the host said.
    pub fn names_below(
        &self,
        parent: NodeId,
        name: &[u8],
        most: usize,
    ) -> Result<Option<Vec<RelPath>>> {
        let shadow = self.read();
        let folder = self.folder_of(&shadow, parent)?;
        let found = self.find(&shadow, &folder, name)?;
        let Some(top) = key_of(&shadow, &found) else {
            return Ok(Some(Vec::new()));
        };
        let mut paths = Vec::new();
        let mut left = vec![(RelPath::root(), top)];
        while let Some((above, folder)) = left.pop() {
            for entry in self.children(&shadow, &folder)? {
                let path = above.join(&entry.name).map_err(|_| Errno::INVAL)?;
                if entry.kind == FileType::Directory {
                    let found = self.find(&shadow, &folder, &entry.name)?;
                    left.extend(key_of(&shadow, &found).map(|key| (path.clone(), key)));
                }
                paths.push(path);
                if paths.len() > most {
                    return Ok(None);
                }
            }
        }
        Ok(Some(paths))
    }

    pub(super) fn list_lower(&self, path: &RelPath) -> Result<Vec<LowerEntry>> {
        match self.lower.list(path) {
            // The host removed a directory that the session keeps.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(Vec::new()),
            listed => Ok(listed?),
        }
    }

    fn list(&self, id: NodeId) -> Result<Vec<DirEntry>> {
        let shadow = self.read();
        let folder = match self.folder_of(&shadow, id) {
            Err(OverlayError::Os(Errno::NOENT)) => {
                return Ok(vec![dots(b".", id), dots(b"..", self.root())]);
            }
            folder => folder?,
        };
        // Watched before it is read: what the host changes after that is announced.
        let _within = self.within(&shadow, id)?;
        let above = self.parent_of(&shadow, &folder);
        let mut entries = vec![dots(b".", id), dots(b"..", above)];
        if shadow.folder_path(&folder).is_some() {
            entries.extend(self.children(&shadow, &folder)?);
        }
        Ok(entries)
    }

    /// The names in a directory, without `.` and `..`.
    fn children(&self, shadow: &Shadow, folder: &FolderKey) -> Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        let mut own: BTreeMap<Box<[u8]>, Child> = BTreeMap::new();
        if let Some(folder) = shadow.folder(folder) {
            own.clone_from(&folder.children);
        }
        if let FolderKey::Lower(path) = folder {
            self.add_pinned(shadow, path, &mut own, &mut entries);
            for LowerEntry { name, ino, kind } in self.list_lower(path)? {
                if !own.contains_key(&name) {
                    entries.push(DirEntry::new(&name, NodeId(ino), kind));
                }
            }
        }
        for (name, child) in own {
            if let Child::Node(node) = child
                && let Some(found) = shadow.node(node)
            {
                entries.push(DirEntry::new(&name, node, file_type(&found.kind)));
            }
        }
        Ok(entries)
    }

    /// Directories that the host removed while the session kept something in them.
    fn add_pinned(
        &self,
        shadow: &Shadow,
        folder: &RelPath,
        own: &mut BTreeMap<Box<[u8]>, Child>,
        entries: &mut Vec<DirEntry>,
    ) {
        for name in shadow.folders_below(folder) {
            let Ok(path) = folder.join(&name) else {
                continue;
            };
            let gone = self
                .lower
                .stat(&path)
                .map_or(true, |stat| stat.kind != FileType::Directory);
            if gone && !own.contains_key(&name) && shadow.holds_own(&path) {
                // Hidden, so that what the host has there instead is not listed as well.
                own.insert(name.clone(), Child::Hidden);
                entries.push(DirEntry::new(&name, NodeId(1), FileType::Directory));
            }
        }
    }

    fn parent_of(&self, shadow: &Shadow, folder: &FolderKey) -> NodeId {
        let parent = shadow
            .folder_path(folder)
            .and_then(|path| path.split_last().map(|it| it.0));
        let Some(parent) = parent else {
            return self.root();
        };
        let found = self.at_path(shadow, &parent);
        found.map_or(self.root(), |found| found.unwrap_or(self.root()))
    }

    /// The number of the node at a path.
    fn at_path(&self, shadow: &Shadow, path: &RelPath) -> Result<Option<NodeId>> {
        let Some(place) = shadow.place(path) else {
            return Ok(Some(self.root()));
        };
        let found = self.find(shadow, &place.folder, &place.name)?;
        Ok(found.id())
    }
}

/// The directory that was found.
fn key_of(shadow: &Shadow, found: &Found) -> Option<FolderKey> {
    match found {
        Found::Node(id) => shadow.node(*id)?.folder_key(*id),
        Found::Lower(LowerNode {
            path,
            seen: Seen::Pinned,
            ..
        }) => Some(FolderKey::Lower(path.clone())),
        Found::Lower(LowerNode {
            path,
            seen: Seen::Stat(stat),
            ..
        }) => (stat.kind == FileType::Directory).then(|| FolderKey::Lower(path.clone())),
        Found::Missing => None,
    }
}

fn dots(name: &[u8], node: NodeId) -> DirEntry {
    DirEntry::new(name, node, FileType::Directory)
}
