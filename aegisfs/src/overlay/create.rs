//! New nodes and new names.

use aegis_policies::journal::{NodeId, NodeKind, ShadowOp};
use aegis_policies::{Permit, RelPath};
use rustix::fs::FileType;
use rustix::io::Errno;

use super::acl::{ACCESS, Acl, DEFAULT};
use super::found::Found;
use super::lookup::{Entry, check_length, check_name, path_of};
use super::shadow::{Place, Shadow};
use super::{Attr, Overlay, OverlayError, Result, covers};

const SET_GID: u32 = 0o2000;

/// A node to be made.
#[derive(Clone, Debug)]
pub struct New {
    /// The type; for a symbolic link, with its target.
    pub kind: NodeKind,
    /// Permission bits.
    pub mode: u32,
    /// The bits of them that the caller does not hand out (umask(2)).
    pub umask: u32,
    /// The owner.
    pub uid: u32,
    /// The group, unless the directory hands its own on.
    pub gid: u32,
}

/// What a new node takes from its directory.
pub(super) struct Inherited {
    pub(super) mode: u32,
    pub(super) gid: u32,
    /// Access control lists, by the names of their attributes.
    pub(super) lists: Vec<(&'static [u8], Acl)>,
}

impl Overlay {
    /// Makes a node under a name that must be free. The kernel holds one reference to it.
    ///
    /// # Errors
    /// EEXIST, ENOTDIR, ENAMETOOLONG, ENOENT when the directory is gone, [`OverlayError::Moved`]
    /// when the permit is for another path, or ENOSPC from the content or the journal.
    pub fn create(&self, permit: &Permit, parent: NodeId, name: &[u8], new: New) -> Result<Entry> {
        let mut shadow = self.write();
        let (place, path) = self.free_place(&shadow, permit, parent, name)?;
        let Inherited { mode, gid, lists } = self.inherited(&shadow, parent, &new)?;
        let node = self.inodes.fresh_id();
        let file = new.kind == NodeKind::File;
        if file {
            self.keep_removed(&shadow, &path);
        }
        if file {
            self.content.create(node, shadow.generation())?;
        }
        let operation = ShadowOp::Create {
            path: path.clone(),
            node,
            kind: new.kind,
            mode,
            uid: new.uid,
            gid,
        };
        if let Err(error) = self.record(&mut shadow, permit, operation) {
            if file {
                self.content.remove(node, shadow.generation());
            }
            return Err(error);
        }
        if let Err(error) = self.set_lists(&mut shadow, permit, node, &path, lists) {
            // A name that can not be taken back stays, with no right that the lists would not give.
            let _ = self.record(&mut shadow, permit, removal(path, node));
            return Err(error);
        }
        self.entry(&shadow, &place)
    }

    /// Records the lists that a new node takes from its directory.
    fn set_lists(
        &self,
        shadow: &mut Shadow,
        permit: &Permit,
        node: NodeId,
        path: &RelPath,
        lists: Vec<(&'static [u8], Acl)>,
    ) -> Result<()> {
        for (name, list) in lists {
            let operation = ShadowOp::SetXattr {
                path: path.clone(),
                node,
                first_touch: None,
                name: name.to_vec(),
                value: Some(list.encode()),
            };
            self.record(shadow, permit, operation)?;
        }
        Ok(())
    }

    /// Gives a node that is not a directory a further name.
    ///
    /// # Errors
    /// EPERM for a directory, ENOENT when the node has no name left, and as for
    /// [`Overlay::create`].
    pub fn link(&self, permit: &Permit, id: NodeId, parent: NodeId, name: &[u8]) -> Result<Entry> {
        let mut shadow = self.write();
        let (place, path) = self.free_place(&shadow, permit, parent, name)?;
        if self.is_nameless(id) {
            return self.name_first(&mut shadow, permit, id, &place);
        }
        let found = self.locate(&shadow, id)?;
        if self.kind_of(&shadow, &found) == Some(FileType::Directory) {
            return Err(Errno::PERM.into());
        }
        let from = match &found {
            Found::Lower(lower) => shadow.shown(&lower.path),
            _ => self.names_in(&shadow, id).shown.into_iter().next(),
        };
        let from = from.ok_or(Errno::NOENT)?;
        let (node, first_touch) = self.first_touch(&found)?;
        let operation = ShadowOp::Link {
            from,
            path,
            node,
            first_touch,
        };
        self.record(&mut shadow, permit, operation)?;
        self.entry(&shadow, &place)
    }

    fn free_place(
        &self,
        shadow: &Shadow,
        permit: &Permit,
        parent: NodeId,
        name: &[u8],
    ) -> Result<(Place, RelPath)> {
        check_name(name)?;
        let place = Place {
            folder: self.folder_of(shadow, parent)?,
            name: name.into(),
        };
        let path = path_of(shadow, &place)?;
        check_length(&path)?;
        covers(permit, &path)?;
        match self.find(shadow, &place.folder, name)? {
            Found::Missing => Ok((place, path)),
            _ => Err(Errno::EXIST.into()),
        }
    }

    /// What a new node takes from its directory. A set-group-id directory hands its group on, and to
    /// a directory the bit as well (mkdir(2), open(2)); a default list takes the umask's place and
    /// becomes the node's own (acl(5)).
    pub(super) fn inherited(
        &self,
        shadow: &Shadow,
        parent: NodeId,
        new: &New,
    ) -> Result<Inherited> {
        let found = self.locate(shadow, parent)?;
        let parent: Attr = self
            .attr_of_found(shadow, &found)?
            .ok_or(OverlayError::Stale)?;
        let default = match new.kind {
            NodeKind::Symlink(_) => None,
            _ => self.default_list(shadow, &found)?,
        };
        let mut inherited = Inherited {
            mode: new.mode & !new.umask,
            gid: new.gid,
            lists: Vec::new(),
        };
        if let Some(default) = default {
            inherited.mode = new.mode & (!0o777 | default.mode());
            let own = default.clone().with_mode(inherited.mode);
            inherited.lists.extend(own.map(|own| (ACCESS, own)));
            if new.kind == NodeKind::Directory {
                inherited.lists.push((DEFAULT, default));
            }
        }
        if parent.mode & SET_GID != 0 {
            inherited.gid = parent.gid;
            if new.kind == NodeKind::Directory {
                inherited.mode |= SET_GID;
            }
        }
        Ok(inherited)
    }

    /// The answer for a name that was just made.
    pub(super) fn entry(&self, shadow: &Shadow, place: &Place) -> Result<Entry> {
        let found = self.find(shadow, &place.folder, &place.name)?;
        let attr = self
            .attr_of_found(shadow, &found)?
            .ok_or(OverlayError::Stale)?;
        let inode = self.remember_own(shadow, attr.node);
        Ok(Entry {
            attr,
            generation: inode.generation(),
            unannounced: false,
        })
    }
}

fn removal(path: RelPath, node: NodeId) -> ShadowOp {
    ShadowOp::Remove {
        path,
        node,
        first_touch: None,
    }
}
