//! Names that go away.

use aegis_policies::Permit;
use aegis_policies::journal::{NodeId, ShadowOp};
use rustix::fs::FileType;
use rustix::io::Errno;

use super::lookup::{check_name, path_of};
use super::shadow::{Child, FolderKey, Place, Shadow};
use super::{Overlay, Result, covers};

impl Overlay {
    /// Removes the name of anything but a directory. The node lives on while it is open.
    ///
    /// # Errors
    /// ENOENT, EISDIR, [`super::OverlayError::Moved`] when the permit is for another path, ENOSPC
    /// from the journal.
    pub fn unlink(&self, permit: &Permit, parent: NodeId, name: &[u8]) -> Result<()> {
        self.remove(permit, parent, name, false)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// ENOTEMPTY, ENOTDIR, and as for [`Overlay::unlink`].
    pub fn rmdir(&self, permit: &Permit, parent: NodeId, name: &[u8]) -> Result<()> {
        self.remove(permit, parent, name, true)
    }

    fn remove(&self, permit: &Permit, parent: NodeId, name: &[u8], directory: bool) -> Result<()> {
        check_name(name)?;
        let mut shadow = self.write();
        let place = Place {
            folder: self.folder_of(&shadow, parent)?,
            name: name.into(),
        };
        let path = path_of(&shadow, &place)?;
        covers(permit, &path)?;
        let found = self.find(&shadow, &place.folder, name)?;
        match (self.kind_of(&shadow, &found), directory) {
            (None, _) => return Err(Errno::NOENT.into()),
            (Some(FileType::Directory), false) => return Err(Errno::ISDIR.into()),
            (Some(FileType::Directory), true) => self.check_empty(&shadow, &place)?,
            (Some(_), true) => return Err(Errno::NOTDIR.into()),
            (Some(_), false) => {}
        }
        let (node, first_touch) = self.first_touch(&found)?;
        self.record(
            &mut shadow,
            permit,
            ShadowOp::Remove {
                path,
                node,
                first_touch,
            },
        )
    }

    /// Checks that the directory at a place shows no name.
    pub(super) fn check_empty(&self, shadow: &Shadow, place: &Place) -> Result<()> {
        let key = match shadow.child(&place.folder, &place.name) {
            Some(Child::Node(id)) => shadow.node(id).and_then(|node| node.folder_key(id)),
            Some(Child::Hidden) => None,
            None => place.lower().map(FolderKey::Lower),
        };
        let key = key.ok_or(Errno::NOENT)?;
        let children = shadow.folder(&key).map(|folder| &folder.children);
        let own = children.is_some_and(|children| {
            children
                .values()
                .any(|child| matches!(child, Child::Node(_)))
        });
        let hosts = match &key {
            FolderKey::Made(_) => false,
            FolderKey::Lower(path) => self
                .list_lower(path)?
                .iter()
                .any(|entry| children.is_none_or(|children| !children.contains_key(&entry.name))),
        };
        if own || hosts {
            Err(Errno::NOTEMPTY.into())
        } else {
            Ok(())
        }
    }
}
