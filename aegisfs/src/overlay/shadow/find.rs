//! Names to places and back.

use std::collections::BTreeSet;
use std::ops::Bound;

use aegis_policies::RelPath;

use super::{Child, Folder, FolderKey, Place, Shadow};

/// No tree is this deep; a walk that gets here goes round in circles.
pub(crate) const DEEPEST: usize = 1 << 16;

/// Where a directory is shown.
enum Home {
    Root,
    At(Place),
}

impl Shadow {
    /// The path at which a directory is shown; `None` when no name leads to it any more.
    pub(crate) fn folder_path(&self, key: &FolderKey) -> Option<RelPath> {
        let mut names = Vec::new();
        let mut at = key.clone();
        while let Home::At(place) = self.home(&at)? {
            names.push(place.name);
            at = place.folder;
            if names.len() > DEEPEST {
                return None;
            }
        }
        names.reverse();
        RelPath::parse(&names.join(&b'/')).ok()
    }

    /// The path of a name.
    pub(crate) fn place_path(&self, place: &Place) -> Option<RelPath> {
        self.folder_path(&place.folder)?.join(&place.name).ok()
    }

    /// The path at which an untouched name of the host is shown; `None` when the session has put
    /// something else there, or hid it.
    pub(crate) fn shown(&self, lower: &RelPath) -> Option<RelPath> {
        let Some((folder, name)) = lower.split_last() else {
            return Some(RelPath::root());
        };
        let folder = FolderKey::Lower(folder);
        if self.child(&folder, name).is_some() {
            return None;
        }
        self.folder_path(&folder)?.join(name).ok()
    }

    /// The place that a path names, if its directory is one that the shadow can tell.
    pub(crate) fn place(&self, path: &RelPath) -> Option<Place> {
        let (folder, name) = path.split_last()?;
        Some(Place {
            folder: self.folder_at(&folder)?,
            name: name.into(),
        })
    }

    /// The directory at a path. A name that the shadow does not mention is taken to be a
    /// directory of the host.
    pub(crate) fn folder_at(&self, path: &RelPath) -> Option<FolderKey> {
        let mut at = FolderKey::Lower(RelPath::root());
        for name in path.components() {
            at = match (self.child(&at, name), &at) {
                (Some(Child::Node(id)), _) => self.nodes.get(&id)?.folder_key(id)?,
                (Some(Child::Hidden), _) | (None, FolderKey::Made(_)) => return None,
                (None, FolderKey::Lower(folder)) => FolderKey::Lower(folder.join(name).ok()?),
            };
        }
        Some(at)
    }

    /// Whether no name at a path leads anywhere, whatever the host has there.
    pub(crate) fn is_gone(&self, path: &RelPath) -> bool {
        let Some((folder, name)) = path.split_last() else {
            return false;
        };
        let Some(folder) = self.folder_at(&folder) else {
            return true;
        };
        match self.child(&folder, name) {
            Some(child) => child == Child::Hidden,
            None => matches!(folder, FolderKey::Made(_)),
        }
    }

    /// Whether a directory of the host holds something of the session, at any depth: it is then
    /// shown even when the host removes it.
    pub(crate) fn holds_own(&self, lower: &RelPath) -> bool {
        let key = FolderKey::Lower(lower.clone());
        if self.folders.get(&key).is_some_and(Folder::holds_own) {
            return true;
        }
        let mut below = lower.as_bytes().to_vec();
        below.push(b'/');
        self.folders
            .range((Bound::Excluded(key), Bound::Unbounded))
            .take_while(|(key, _)| match key {
                // `lower-x` sorts between `lower` and `lower/x`.
                FolderKey::Lower(path) => {
                    path.as_bytes() <= below.as_slice() || path.starts_with(lower)
                }
                FolderKey::Made(_) => false,
            })
            .any(|(key, folder)| {
                matches!(key, FolderKey::Lower(path) if path.starts_with(lower))
                    && folder.holds_own()
            })
    }

    /// Names in a directory of the host below which the shadow has something, at any depth.
    pub(crate) fn folders_below(&self, lower: &RelPath) -> BTreeSet<Box<[u8]>> {
        let key = FolderKey::Lower(lower.clone());
        let depth = lower.components().count();
        self.folders
            .range((Bound::Excluded(key), Bound::Unbounded))
            .map_while(|(key, _)| match key {
                FolderKey::Lower(path) if path.as_bytes().starts_with(lower.as_bytes()) => {
                    Some(path)
                }
                _ => None,
            })
            .filter(|path| path.starts_with(lower))
            .filter_map(|path| path.components().nth(depth).map(Box::from))
            .collect()
    }

    fn home(&self, key: &FolderKey) -> Option<Home> {
        match key {
            FolderKey::Made(id) => self.nodes.get(id)?.names.first().cloned().map(Home::At),
            FolderKey::Lower(path) if path.is_root() => Some(Home::Root),
            FolderKey::Lower(path) => match self.lower_folders.get(path) {
                Some(id) => self.nodes.get(id)?.names.first().cloned().map(Home::At),
                None => self.home_of_untouched(path),
            },
        }
    }

    fn home_of_untouched(&self, path: &RelPath) -> Option<Home> {
        let (folder, name) = path.split_last()?;
        let folder = FolderKey::Lower(folder);
        match self.child(&folder, name) {
            Some(_) => None,
            None => Some(Home::At(Place {
                folder,
                name: name.into(),
            })),
        }
    }
}

impl Folder {
    fn holds_own(&self) -> bool {
        self.children
            .values()
            .any(|child| matches!(child, Child::Node(_)))
    }
}
