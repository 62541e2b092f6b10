//! Listings: the host's names, less those that are gone, plus those of the session.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use aegis_policies::RelPath;
use aegis_policies::journal::NodeId;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::attr::file_type;
use super::found::{Found, LowerNode, Seen};
use super::handles::HandleId;
use super::lower::LowerEntry;
use super::shadow::{Child, FolderKey, Shadow};
use super::{Overlay, OverlayError, Result};

/// A name in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name.
    pub name: Box<[u8]>,
    /// The number that readdir(3) shows; a lookup may know better.
    pub node: NodeId,
    /// The type.
    pub kind: FileType,
}

/// An open directory. The listing is taken at the first read and at every rewind, so a reader sees
/// each name once however the directory changes meanwhile.
#[derive(Debug)]
pub(crate) struct Listing {
    folder: NodeId,
    entries: Mutex<Arc<[DirEntry]>>,
}

impl Overlay {
    /// Opens a directory for reading.
    ///
    /// # Errors
    /// ENOTDIR or ESTALE.
    pub fn opendir(&self, id: NodeId) -> Result<HandleId> {
        match self.folder_of(&self.read(), id) {
            // A removed directory that somebody is in can be read, and is empty.
            Ok(_) | Err(OverlayError::Os(Errno::NOENT)) => {}
            Err(error) => return Err(error),
        }
        let handle = self.next_handle.fetch_add(1, Ordering::Relaxed);
        let listing = Listing {
            folder: id,
            entries: Mutex::new(Arc::new([])),
        };
        self.listings.insert(handle, Arc::new(listing));
        Ok(HandleId(handle))
    }

    /// The whole listing, `.` and `..` first; taken anew when `from_start`.
    ///
    /// # Errors
    /// EBADF for a handle that is not open, or what the host said.
    pub fn readdir(&self, handle: HandleId, offset: u64) -> Result<Arc<[DirEntry]>> {
        let listing = self
            .listings
            .get(&handle.0)
            .map(|listing| Arc::clone(&listing));
        let listing = listing.ok_or(Errno::BADF)?;
        let mut entries = listing
            .entries
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if offset == 0 || entries.is_empty() {
            *entries = self.list(listing.folder)?.into();
        }
        Ok(Arc::clone(&entries))
    }

    /// The directory that a handle lists.
    ///
    /// # Errors
    /// EBADF for a handle that is not open.
    pub fn listed(&self, handle: HandleId) -> Result<NodeId> {
        Ok(self.listings.get(&handle.0).ok_or(Errno::BADF)?.folder)
    }

    /// Closes a directory.
    pub fn releasedir(&self, handle: HandleId) {
        self.listings.remove(&handle.0);
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
                    entries.push(DirEntry {
                        name,
                        node: NodeId(ino),
                        kind,
                    });
                }
            }
        }
        for (name, child) in own {
            if let Child::Node(node) = child
                && let Some(found) = shadow.node(node)
            {
                entries.push(DirEntry {
                    name,
                    node,
                    kind: file_type(&found.kind),
                });
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
                entries.push(DirEntry {
                    name,
                    node: NodeId(1),
                    kind: FileType::Directory,
                });
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
    DirEntry {
        name: name.into(),
        node,
        kind: FileType::Directory,
    }
}
