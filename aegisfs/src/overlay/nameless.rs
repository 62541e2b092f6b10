//! Files that have no name yet (O_TMPFILE of open(2)).
//!
//! Until it is given a name such a file is nobody's: it is not part of the tree, is in no record,
//! and goes with its last descriptor. The record of its name carries all that a record of its
//! making would.

use aegis_policies::Permit;
use aegis_policies::journal::{NodeId, NodeKind, ShadowOp};
use rustix::io::Errno;

use super::create::Inherited;
use super::found::Found;
use super::lookup::Entry;
use super::shadow::{Place, Shadow};
use super::{New, Overlay, OverlayError, Result, covers, now};

/// The name under which a file without one is judged: what holds for every new name in its
/// directory holds for it.
pub(crate) const STAND_IN: &[u8] = b"#nameless";

impl Overlay {
    /// Makes a file without a name in a directory, whose group it may inherit. The kernel holds one
    /// reference to it.
    ///
    /// # Errors
    /// ENOTDIR, ENOENT when the directory is gone, [`OverlayError::Moved`] when the permit is not
    /// for a name in the directory, ENOSPC from the content.
    pub fn create_nameless(&self, permit: &Permit, parent: NodeId, new: &New) -> Result<Entry> {
        if new.kind != NodeKind::File {
            return Err(Errno::INVAL.into());
        }
        let mut shadow = self.write();
        let place = Place {
            folder: self.folder_of(&shadow, parent)?,
            name: STAND_IN.into(),
        };
        covers(permit, &super::lookup::path_of(&shadow, &place)?)?;
        let Inherited { mode, gid, lists } = self.inherited(&shadow, parent, new)?;
        let node = self.inodes.fresh_id();
        self.content.create(node, shadow.generation())?;
        shadow.make_nameless(node, [mode, new.uid, gid], now());
        for (name, list) in lists {
            shadow.set_xattr(node, name.to_vec(), Some(list.encode()), now());
        }
        let found = Found::Node(node);
        let attr = self.attr_of_found(&shadow, &found);
        let inode = self.remember_own(&shadow, node);
        self.inodes.mark_nameless(node);
        let attr = attr?.ok_or(OverlayError::Stale)?;
        Ok(Entry {
            attr,
            generation: inode.generation(),
            unannounced: false,
        })
    }

    /// Whether a node has never had a name.
    #[must_use]
    pub fn is_nameless(&self, id: NodeId) -> bool {
        let inode = self.inodes.find(id);
        inode.is_some_and(|inode| inode.is_nameless())
    }

    /// Gives a file its first name, which is free and lies at `place`.
    pub(super) fn name_first(
        &self,
        shadow: &mut Shadow,
        permit: &Permit,
        id: NodeId,
        place: &Place,
    ) -> Result<Entry> {
        let path = super::lookup::path_of(shadow, place)?;
        let node = shadow.node(id).ok_or(OverlayError::Stale)?;
        let given = |value: Option<u32>| value.ok_or(OverlayError::Stale);
        let xattrs = node.xattrs.iter();
        let xattrs = xattrs.filter_map(|(name, value)| Some((name.clone(), value.clone()?)));
        let operation = ShadowOp::Name {
            path: path.clone(),
            node: id,
            mode: given(node.mode)?,
            uid: given(node.uid)?,
            gid: given(node.gid)?,
            generation: node.content.ok_or(OverlayError::Stale)?,
            xattrs: xattrs.collect(),
        };
        self.keep_removed(shadow, &path);
        self.record(shadow, permit, operation)?;
        self.inodes.mark_named(id);
        self.entry(shadow, place)
    }
}
