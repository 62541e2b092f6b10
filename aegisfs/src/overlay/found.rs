//! What a name or a number leads to.

use std::collections::HashMap;

use aegis_policies::journal::{FirstTouch, NodeId};
use aegis_policies::{Label, Labels, RelPath};
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

use super::attr::{Attr, Stat, file_type};
use super::lookup::Names;
use super::shadow::{Child, FolderKey, Node, Shadow};
use super::{Overlay, OverlayError, Result};

/// What a name leads to.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    Node(NodeId),
    Lower(LowerNode),
    Missing,
}

/// An untouched node of the host.
#[derive(Clone, Debug)]
pub(crate) struct LowerNode {
    pub(crate) id: NodeId,
    pub(crate) path: RelPath,
    pub(crate) seen: Seen,
}

/// What the host has under an untouched name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seen {
    Stat(Stat),
    /// A directory that the host removed while the session kept something in it.
    Pinned,
}

impl Overlay {
    pub(super) fn names_in(&self, shadow: &Shadow, id: NodeId) -> Names {
        if id == self.root() {
            return Names {
                shown: vec![RelPath::root()],
                host: vec![RelPath::root()],
            };
        }
        let mut names = Names::default();
        if let Some(inode) = self.inodes.find(id) {
            names.host = inode.lower_names();
            names.shown = names
                .host
                .iter()
                .filter_map(|lower| shadow.shown(lower))
                .collect();
        }
        if let Some(node) = shadow.node(id) {
            let explicit = node
                .names
                .iter()
                .filter_map(|place| shadow.place_path(place));
            names.shown.extend(explicit);
            names
                .host
                .extend(node.origin.iter().map(|origin| origin.lower.path.clone()));
        }
        names
    }

    /// The directory that a number stands for.
    pub(super) fn folder_of(&self, shadow: &Shadow, id: NodeId) -> Result<FolderKey> {
        if id == self.root() {
            return Ok(FolderKey::Lower(RelPath::root()));
        }
        if let Some(node) = shadow.node(id) {
            if node.is_orphan() {
                return Err(Errno::NOENT.into());
            }
            return node.folder_key(id).ok_or(Errno::NOTDIR.into());
        }
        let inode = self.inodes.find(id).ok_or(OverlayError::Stale)?;
        if !inode.is_folder() {
            return Err(Errno::NOTDIR.into());
        }
        let newest = inode
            .lower_names()
            .into_iter()
            .next()
            .ok_or(OverlayError::Stale)?;
        Ok(FolderKey::Lower(newest))
    }

    /// The number that the kernel knows a directory by, in one of several states.
    pub(super) fn folder_id(
        &self,
        key: &FolderKey,
        hosts: &HashMap<RelPath, NodeId>,
        states: [&Shadow; 2],
    ) -> Option<NodeId> {
        if *key == FolderKey::Lower(RelPath::root()) {
            return Some(self.root());
        }
        let mut known = states.iter().filter_map(|state| state.folder_node(key));
        known.next().or_else(|| match key {
            FolderKey::Lower(path) => hosts.get(path).copied(),
            FolderKey::Made(_) => None,
        })
    }

    /// What a name in a directory leads to.
    pub(super) fn find(&self, shadow: &Shadow, folder: &FolderKey, name: &[u8]) -> Result<Found> {
        match (shadow.child(folder, name), folder) {
            (Some(Child::Node(id)), _) => Ok(Found::Node(id)),
            (Some(Child::Hidden), _) | (None, FolderKey::Made(_)) => Ok(Found::Missing),
            (None, FolderKey::Lower(lower)) => {
                let path = lower.join(name).map_err(|_| Errno::INVAL)?;
                self.find_lower(shadow, path)
            }
        }
    }

    /// What a number stands for now.
    pub(super) fn locate(&self, shadow: &Shadow, id: NodeId) -> Result<Found> {
        if shadow.node(id).is_some() {
            return Ok(Found::Node(id));
        }
        if id == self.root() {
            let stat = self.lower.stat(&RelPath::root())?;
            return Ok(Found::Lower(LowerNode {
                id,
                path: RelPath::root(),
                seen: Seen::Stat(stat),
            }));
        }
        let inode = self.inodes.find(id).ok_or(OverlayError::Stale)?;
        for path in inode.lower_names() {
            if shadow.shown(&path).is_none() {
                continue;
            }
            match self.find_lower(shadow, path)? {
                Found::Lower(found) if found.identity() == inode.identity() => {
                    return Ok(Found::Lower(LowerNode { id, ..found }));
                }
                _ => {}
            }
        }
        Err(OverlayError::Stale)
    }

    /// The first touch of a node that the shadow does not know yet.
    pub(super) fn first_touch(&self, found: &Found) -> Result<(NodeId, FirstTouch)> {
        match found {
            Found::Node(id) => Ok((*id, None)),
            Found::Missing => Err(Errno::NOENT.into()),
            Found::Lower(LowerNode {
                seen: Seen::Pinned, ..
            }) => Err(Errno::BUSY.into()),
            Found::Lower(LowerNode {
                id,
                path,
                seen: Seen::Stat(stat),
            }) => Ok((*id, Some(self.lower.describe(path, stat)?))),
        }
    }

    /// The type of what was found.
    pub(super) fn kind_of(&self, shadow: &Shadow, found: &Found) -> Option<FileType> {
        match found {
            Found::Node(id) => shadow.node(*id).map(|node| file_type(&node.kind)),
            Found::Lower(LowerNode {
                seen: Seen::Stat(stat),
                ..
            }) => Some(stat.kind),
            Found::Lower(LowerNode {
                seen: Seen::Pinned, ..
            }) => Some(FileType::Directory),
            Found::Missing => None,
        }
    }

    /// Attributes of what was found; `None` for nothing.
    pub(super) fn attr_of_found(&self, shadow: &Shadow, found: &Found) -> Result<Option<Attr>> {
        match found {
            Found::Missing => Ok(None),
            Found::Node(id) => match shadow.node(*id) {
                Some(node) => self.attr_of_node(shadow, *id, node).map(Some),
                None => Ok(None),
            },
            Found::Lower(LowerNode {
                id,
                path,
                seen: Seen::Stat(stat),
            }) => {
                let key =
                    (stat.kind == FileType::Directory).then(|| FolderKey::Lower(path.clone()));
                let folder = key.and_then(|key| shadow.folder(&key));
                Ok(Some(Attr::of_lower(*id, stat, folder)))
            }
            Found::Lower(LowerNode {
                id,
                path,
                seen: Seen::Pinned,
            }) => {
                let owner = (geteuid().as_raw(), getegid().as_raw());
                let folder = shadow.folder(&FolderKey::Lower(path.clone()));
                Ok(Some(Attr::pinned(*id, owner, folder)))
            }
        }
    }

    pub(super) fn attr_of_node(&self, shadow: &Shadow, id: NodeId, node: &Node) -> Result<Attr> {
        let base = if let Some(generation) = node.content {
            // Content that a power failure took is not an empty file: nobody may land it.
            Some(self.content.stat(id, generation).map_err(|_| Errno::IO)?)
        } else {
            node.origin.as_ref().and_then(|origin| {
                // The host may have put something else there meanwhile.
                let stat = self.lower.stat(&origin.lower.path).ok()?;
                (stat.kind == file_type(&node.kind)).then_some(stat)
            })
        };
        let folder = node.folder_key(id).and_then(|key| shadow.folder(&key));
        Ok(Attr::of_node(id, node, base.as_ref(), folder))
    }

    /// Counts the reference that an answer gives to the kernel.
    pub(super) fn remember(&self, found: &Found) {
        match found {
            Found::Node(id) => self.inodes.remember(*id, (0, 0), false, None),
            Found::Lower(lower) => {
                let directory = match &lower.seen {
                    Seen::Stat(stat) => stat.kind == FileType::Directory,
                    Seen::Pinned => true,
                };
                self.inodes
                    .remember(lower.id, lower.identity(), directory, Some(&lower.path));
            }
            Found::Missing => {}
        }
    }

    /// What the host has under an untouched name.
    fn find_lower(&self, shadow: &Shadow, path: RelPath) -> Result<Found> {
        let stat = match self.lower.stat(&path) {
            Ok(stat) => Some(stat),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => None,
            Err(errno) => return Err(errno.into()),
        };
        if stat.is_none_or(|stat| stat.kind != FileType::Directory) && shadow.holds_own(&path) {
            let id = self.inodes.foreign_id(shadow, pinned_identity(&path));
            return Ok(Found::Lower(LowerNode {
                id,
                path,
                seen: Seen::Pinned,
            }));
        }
        let Some(stat) = stat else {
            return Ok(Found::Missing);
        };
        if stat.nlink > 1
            && stat.kind != FileType::Directory
            && let Some(id) = self.alias(shadow, &path, &stat)
        {
            return Ok(Found::Node(id));
        }
        let id = self.inodes.id_for(shadow, self.lower.device(), &stat);
        Ok(Found::Lower(LowerNode {
            id,
            path,
            seen: Seen::Stat(stat),
        }))
    }

    /// The node that another name of the same inode became.
    fn alias(&self, shadow: &Shadow, path: &RelPath, stat: &Stat) -> Option<NodeId> {
        let id = shadow.alias(stat.dev, stat.ino)?;
        let alone = stands_alone(self.gate.labels(path));
        (!alone && shadow.node(id).is_some_and(|node| !node.is_orphan())).then_some(id)
    }
}

impl Found {
    /// The number of what was found.
    pub(crate) const fn id(&self) -> Option<NodeId> {
        match self {
            Self::Node(id) => Some(*id),
            Self::Lower(lower) => Some(lower.id),
            Self::Missing => None,
        }
    }
}

impl LowerNode {
    /// Device and number, to tell whether the host replaced it.
    pub(crate) fn identity(&self) -> (u64, u64) {
        match &self.seen {
            Seen::Stat(stat) => (stat.dev, stat.ino),
            Seen::Pinned => pinned_identity(&self.path),
        }
    }
}

/// Whether a name of the host shows its own inode even when the session changed that inode under
/// another name: a change made under an innocent name must not show under a locked one.
pub(super) fn stands_alone(labels: Labels) -> bool {
    labels.has(Label::VcsLocked) || labels.has(Label::AgentConfig)
}

/// No device has number `u64::MAX`; the rest tells the directories apart (FNV-1a).
fn pinned_identity(path: &RelPath) -> (u64, u64) {
    let hash = path
        .as_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    (u64::MAX, hash)
}
