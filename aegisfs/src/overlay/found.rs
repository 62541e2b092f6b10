//! What a name or a number leads to.

use std::collections::HashMap;
use std::sync::Arc;

use aegis_policies::journal::{FirstTouch, NodeId};
use aegis_policies::{Label, Labels, RelPath};
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

use super::attr::{Attr, Stat, file_type};
use super::inode::{Inode, LowerName};
use super::lookup::Names;
use super::lower::LowerFolder;
use super::shadow::{Child, DEEPEST, FolderKey, Node, Shadow};
use super::{Overlay, OverlayError, Result};

/// What a name leads to.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    Node(NodeId),
    Lower(LowerNode),
    Missing,
}

/// A directory that is being looked into.
#[derive(Debug)]
pub(crate) struct Within {
    pub(crate) id: NodeId,
    pub(crate) key: FolderKey,
    /// The host's directory that shows through.
    lower: Option<Arc<LowerFolder>>,
    /// Whether that is watched, so that we are told when the host changes a name in it.
    pub(crate) announced: bool,
}

/// No device has this number.
const PINNED: u64 = u64::MAX;

/// An untouched node of the host.
#[derive(Clone, Debug)]
pub(crate) struct LowerNode {
    pub(crate) id: NodeId,
    pub(crate) path: RelPath,
    pub(crate) seen: Seen,
    /// Whether its directory is watched, so that we are told when the host changes it.
    pub(crate) announced: bool,
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
            names.host = self.lower_paths(shadow, &inode);
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
        let lower = self.lower_folder(shadow, id);
        lower.map(FolderKey::Lower).ok_or(OverlayError::Stale)
    }

    /// Where the host has a directory.
    fn lower_folder(&self, shadow: &Shadow, id: NodeId) -> Option<RelPath> {
        let (mut at, mut names) = (id, Vec::new());
        let base = loop {
            if at == self.root() {
                break RelPath::root();
            }
            if let Some(node) = shadow.node(at) {
                match node.folder_key(at)? {
                    FolderKey::Lower(path) => break path,
                    FolderKey::Made(_) => return None,
                }
            }
            let newest = self.inodes.find(at)?.newest_name()?;
            names.push(newest.name);
            at = newest.folder;
            if names.len() > DEEPEST {
                return None;
            }
        };
        let mut names = names.iter().rev();
        names.try_fold(base, |path, name| path.join(name).ok())
    }

    /// Where the host has a node, the newest of its names first.
    pub(super) fn lower_paths(&self, shadow: &Shadow, inode: &Inode) -> Vec<RelPath> {
        let names = inode.lower_names().into_iter();
        names
            .filter_map(|it| self.lower_folder(shadow, it.folder)?.join(&it.name).ok())
            .collect()
    }

    /// A directory that is about to be looked into.
    ///
    /// # Errors
    /// ESTALE when the host has put another one in its place, and as for [`Overlay::folder_of`].
    pub(super) fn within(&self, shadow: &Shadow, id: NodeId) -> Result<Within> {
        let key = self.folder_of(shadow, id)?;
        let mut within = Within {
            id,
            key,
            lower: None,
            announced: false,
        };
        let FolderKey::Lower(path) = &within.key else {
            return Ok(within);
        };
        let expected = self.expected(shadow, id);
        let Ok(folder) = self.lower.folder_at(path, expected) else {
            return Ok(within);
        };
        if expected.is_some_and(|expected| expected != folder.identity) {
            return Err(OverlayError::Stale);
        }
        within.announced = self.watches.cover(id, &folder);
        within.lower = Some(folder);
        Ok(within)
    }

    /// The inode that an untouched directory of the host must be.
    fn expected(&self, shadow: &Shadow, id: NodeId) -> Option<(u64, u64)> {
        if shadow.node(id).is_some() {
            return None;
        }
        let identity = self.inodes.find(id)?.identity();
        (identity.0 != PINNED && identity != (0, 0)).then_some(identity)
    }

    /// The host's directories that the kernel knows, by their names there.
    pub(super) fn host_folders(&self, shadow: &Shadow) -> HashMap<RelPath, NodeId> {
        let folders = self.inodes.folders().into_iter();
        let named = folders.flat_map(|inode| {
            let paths = self.lower_paths(shadow, &inode).into_iter();
            paths.map(move |path| (path, inode.id))
        });
        named.chain([(RelPath::root(), self.root())]).collect()
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
        self.find_in(shadow, folder, None, name)
    }

    /// What a name in a directory leads to, which is open as `within` unless the host has none.
    pub(super) fn find_within(
        &self,
        shadow: &Shadow,
        within: &Within,
        name: &[u8],
    ) -> Result<Found> {
        self.find_in(shadow, &within.key, Some(within), name)
    }

    fn find_in(
        &self,
        shadow: &Shadow,
        folder: &FolderKey,
        within: Option<&Within>,
        name: &[u8],
    ) -> Result<Found> {
        match (shadow.child(folder, name), folder) {
            (Some(Child::Node(id)), _) => Ok(Found::Node(id)),
            (Some(Child::Hidden), _) | (None, FolderKey::Made(_)) => Ok(Found::Missing),
            (None, FolderKey::Lower(lower)) => {
                let path = lower.join(name).map_err(|_| Errno::INVAL)?;
                self.find_lower(shadow, path, within)
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
                announced: false,
            }));
        }
        let inode = self.inodes.find(id).ok_or(OverlayError::Stale)?;
        for LowerName { folder, name } in inode.lower_names() {
            let Ok(within) = self.within(shadow, folder) else {
                continue;
            };
            if shadow.child(&within.key, &name).is_some()
                || shadow.folder_path(&within.key).is_none()
            {
                continue;
            }
            match self.find_within(shadow, &within, &name)? {
                Found::Lower(found) if inode.is_host(found.identity(), found.born()) => {
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
                ..
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
                announced,
            }) => {
                let key =
                    (stat.kind == FileType::Directory).then(|| FolderKey::Lower(path.clone()));
                let folder = key.as_ref().and_then(|key| shadow.folder(key));
                let mut attr = Attr::of_lower(*id, stat, folder);
                attr.unannounced = if key.is_some() {
                    !self.watches.hold(*id, (stat.dev, stat.ino))
                } else {
                    // A change by another of its names is announced in that one's directory.
                    !announced || stat.nlink > 1
                };
                Ok(Some(attr))
            }
            Found::Lower(LowerNode {
                id,
                path,
                seen: Seen::Pinned,
                ..
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
        let mut attr = Attr::of_node(id, node, base.as_ref(), folder);
        if let (true, Some(stat)) = (node.is_folder(), &base) {
            attr.unannounced = !self.watches.hold(id, (stat.dev, stat.ino));
        }
        Ok(attr)
    }

    /// Counts the reference that an answer gives to the kernel, for a node of the session.
    pub(super) fn remember_own(&self, shadow: &Shadow, id: NodeId) -> Arc<Inode> {
        let directory = shadow.node(id).is_some_and(Node::is_folder);
        self.inodes.remember(id, directory)
    }

    /// Counts the reference that an answer gives to the kernel, for a name in a directory.
    pub(super) fn remember(
        &self,
        shadow: &Shadow,
        found: &Found,
        folder: NodeId,
        name: &[u8],
    ) -> Option<Arc<Inode>> {
        match found {
            Found::Node(id) => Some(self.remember_own(shadow, *id)),
            Found::Lower(lower) => {
                let inode = self.inodes.remember(lower.id, lower.is_folder());
                inode.note_identity(lower.identity(), lower.born());
                inode.note_name(folder, name);
                lower.note_shown(&inode);
                Some(inode)
            }
            Found::Missing => None,
        }
    }

    /// Has the host's changes in a directory announced that the kernel is about to be told of. Its
    /// attributes are taken again: the host may have changed them before it was watched.
    pub(super) fn watch_found(&self, shadow: &Shadow, within: Option<&Within>, found: &mut Found) {
        match found {
            Found::Lower(lower) if lower.is_folder() => {
                let identity = lower.identity();
                if identity.0 == PINNED || self.watches.hold(lower.id, identity) {
                    return;
                }
                let above = within.and_then(|within| within.lower.as_deref());
                let above = above.filter(|_| self.lower.is_in_place(&lower.path));
                let folder = match above {
                    Some(above) => self.lower.folder_in(above, &lower.path),
                    None => self.lower.folder_at(&lower.path, Some(identity)),
                };
                if let Ok(folder) = folder
                    && folder.identity == identity
                    && self.watches.cover(lower.id, &folder)
                    && let Ok(stat) = folder.stat()
                {
                    lower.seen = Seen::Stat(stat);
                }
            }
            Found::Node(id) => {
                if let Some(FolderKey::Lower(path)) =
                    shadow.node(*id).and_then(|node| node.folder_key(*id))
                    && let Ok(folder) = self.lower.folder_at(&path, None)
                {
                    self.watches.cover(*id, &folder);
                }
            }
            _ => {}
        }
    }

    /// Notes that the kernel is told the attributes of what was found.
    pub(super) fn note_shown(&self, found: &Found) {
        if let Found::Lower(lower) = found
            && let Some(inode) = self.inodes.find(lower.id)
        {
            lower.note_shown(&inode);
        }
    }

    /// What the host has under an untouched name.
    fn find_lower(&self, shadow: &Shadow, path: RelPath, within: Option<&Within>) -> Result<Found> {
        let open = within.and_then(|it| Some((it, it.lower.as_deref()?)));
        let open = open.filter(|_| self.lower.is_in_place(&path));
        let announced = open.is_some_and(|(within, _)| within.announced);
        let stat = match (open, path.split_last()) {
            (Some((_, folder)), Some((_, name))) => folder.stat_name(name),
            _ => self.lower.stat(&path),
        };
        let stat = match stat {
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
                announced: false,
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
            announced,
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
    /// Whether it is a directory.
    pub(crate) fn is_folder(&self) -> bool {
        match &self.seen {
            Seen::Stat(stat) => stat.kind == FileType::Directory,
            Seen::Pinned => true,
        }
    }

    /// Notes that the kernel is told these attributes.
    pub(crate) fn note_shown(&self, inode: &Inode) {
        if let Seen::Stat(stat) = &self.seen {
            inode.shown.set(stat.version());
        }
    }

    fn born(&self) -> i64 {
        match &self.seen {
            Seen::Stat(stat) => stat.born,
            Seen::Pinned => 0,
        }
    }

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

/// The device of directories that the host removed; the rest tells the directories apart (FNV-1a).
fn pinned_identity(path: &RelPath) -> (u64, u64) {
    let hash = path
        .as_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    (PINNED, hash)
}
