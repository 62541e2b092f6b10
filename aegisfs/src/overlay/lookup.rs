//! Finding nodes: by name in a directory, and by the number that the kernel holds.

use aegis_policies::RelPath;
use aegis_policies::journal::{NodeId, NodeKind};
use rustix::io::Errno;

use super::Attr;
use super::found::{Found, Within};
use super::shadow::{FolderKey, Place, Shadow};
use super::{Overlay, OverlayError, Result};

/// Longest name (NAME_MAX).
const LONGEST_NAME: usize = 255;
/// Longest path of the shadow, in bytes: a record must fit into the journal, and no tool gets far
/// with more than PATH_MAX (4096).
const LONGEST_PATH: usize = 32 << 10;

/// The answer to a lookup.
#[derive(Clone, Copy, Debug)]
pub enum Lookup {
    /// The name leads to this node; the kernel holds one reference more.
    Found(Entry),
    /// There is no such name.
    Missing {
        /// Whether the host can make it appear without our being told.
        unannounced: bool,
    },
}

/// A name and the node it leads to.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The node's attributes.
    pub attr: Attr,
    /// Tells it from others that the host has had with its number.
    pub generation: u32,
    /// Whether the host can make the name lead elsewhere without our being told.
    pub unannounced: bool,
}

/// The names of a node.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// As the agent sees them.
    pub shown: Vec<RelPath>,
    /// As the host has them, whatever the agent sees now.
    pub host: Vec<RelPath>,
}

impl Overlay {
    /// Finds a name in a directory.
    ///
    /// # Errors
    /// ENOTDIR, ENAMETOOLONG, ENOENT when the directory is gone, or what the host said.
    pub fn lookup(&self, parent: NodeId, name: &[u8]) -> Result<Lookup> {
        check_name(name)?;
        let shadow = self.read();
        let within = self.within(&shadow, parent)?;
        self.lookup_within(&shadow, &within, name)
    }

    /// Finds a name in a directory that is being looked into.
    pub(super) fn lookup_within(
        &self,
        shadow: &Shadow,
        within: &Within,
        name: &[u8],
    ) -> Result<Lookup> {
        let mut found = self.find_within(shadow, within, name)?;
        let explicit = shadow.child(&within.key, name).is_some();
        let own = explicit || matches!(within.key, FolderKey::Made(_));
        let unannounced = !own && !within.announced;
        let Some(inode) = self.remember(shadow, &found, within.id, name) else {
            // That a name leads nowhere can be taken back only if all such answers can.
            let unannounced = unannounced || (!own && !self.watches.can_forget_all());
            return Ok(Lookup::Missing { unannounced });
        };
        // After the reference is counted: a watch goes with the last one.
        self.watch_found(shadow, Some(within), &mut found);
        match self.attr_of_found(shadow, &found) {
            Ok(Some(attr)) => {
                if let (Found::Node(_), false) = (&found, explicit) {
                    // A further name of the host's for a node that was touched by another.
                    inode.note_name(within.id, name);
                }
                Ok(Lookup::Found(Entry {
                    attr,
                    generation: inode.generation(),
                    unannounced,
                }))
            }
            gone => {
                self.inodes.forget(inode.id, 1);
                gone.map(|_| Lookup::Missing { unannounced: true })
            }
        }
    }

    /// Attributes of a node.
    ///
    /// # Errors
    /// ESTALE when the host replaced it, ENOENT when it removed it.
    pub fn getattr(&self, id: NodeId) -> Result<Attr> {
        let shadow = self.read();
        match self.locate(&shadow, id) {
            Ok(mut found) => {
                self.watch_found(&shadow, None, &mut found);
                self.note_shown(&found);
                self.attr_of_found(&shadow, &found)?
                    .ok_or(Errno::NOENT.into())
            }
            Err(error) => {
                drop(shadow);
                self.attr_of_open(id).ok_or(error)
            }
        }
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// EINVAL when the node is not one.
    pub fn readlink(&self, id: NodeId) -> Result<Vec<u8>> {
        let shadow = self.read();
        match self.locate(&shadow, id)? {
            Found::Lower(lower) => Ok(self.lower.readlink(&lower.path)?),
            Found::Node(id) => match shadow.node(id).map(|node| &node.kind) {
                Some(NodeKind::Symlink(target)) => Ok(target.clone()),
                _ => Err(Errno::INVAL.into()),
            },
            Found::Missing => Err(OverlayError::Stale),
        }
    }

    /// The names of a node, as the agent sees them and as the host has them. The first is the one
    /// that it is found by; the host may have given others of an untouched node away.
    #[must_use]
    pub fn names(&self, id: NodeId) -> Names {
        let shadow = self.read();
        let mut names = self.names_in(&shadow, id);
        if names.shown.len() > 1
            && let Ok(Found::Lower(lower)) = self.locate(&shadow, id)
            && let Some(path) = shadow.shown(&lower.path)
        {
            names.shown.retain(|name| *name != path);
            names.shown.insert(0, path);
        }
        names
    }

    /// The path of a name in a directory.
    ///
    /// # Errors
    /// ENOTDIR, ENAMETOOLONG, EINVAL for a name that is not one, ENOENT when the directory is gone.
    pub fn child_path(&self, parent: NodeId, name: &[u8]) -> Result<RelPath> {
        check_name(name)?;
        let shadow = self.read();
        let folder = self.folder_of(&shadow, parent)?;
        path_of(
            &shadow,
            &Place {
                folder,
                name: name.into(),
            },
        )
    }

    /// The node that a name leads to now, without a reference for the kernel.
    ///
    /// # Errors
    /// As for [`Overlay::lookup`].
    pub fn peek(&self, parent: NodeId, name: &[u8]) -> Result<Option<Attr>> {
        check_name(name)?;
        let shadow = self.read();
        let folder = self.folder_of(&shadow, parent)?;
        let found = self.find(&shadow, &folder, name)?;
        if let Found::Lower(lower) = &found {
            // So that its names can be asked for: `names` is answered from the table.
            self.remember(&shadow, &found, parent, name);
            let attr = self.attr_of_found(&shadow, &found);
            drop(shadow);
            self.forget(lower.id, 1);
            return attr;
        }
        self.attr_of_found(&shadow, &found)
    }
}

/// Refuses what can not be a name.
pub(super) fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > LONGEST_NAME {
        return Err(Errno::NAMETOOLONG.into());
    }
    RelPath::root()
        .join(name)
        .map(|_| ())
        .map_err(|_| Errno::INVAL.into())
}

/// The path of a name that is there, or is to be.
pub(super) fn path_of(shadow: &Shadow, place: &Place) -> Result<RelPath> {
    shadow.place_path(place).ok_or(Errno::NOENT.into())
}

/// Refuses a path that is too long for a new name. What is there already can be removed however
/// long the path has become since.
pub(super) fn check_length(path: &RelPath) -> Result<()> {
    if path.as_bytes().len() > LONGEST_PATH {
        return Err(Errno::NAMETOOLONG.into());
    }
    Ok(())
}
