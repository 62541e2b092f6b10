//! Names that move. One record, whatever lies below: nothing is copied.

use aegis_policies::journal::{Displaced, NodeId, ShadowOp};
use aegis_policies::{Permit, RelPath};
use rustix::fs::FileType;
use rustix::io::Errno;

use super::found::Found;
use super::lookup::{check_length, check_name, path_of};
use super::shadow::{Place, Shadow};
use super::{Overlay, Result, covers};

/// What happens to the new name (renameat2(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// It is replaced.
    Replace,
    /// It must be free.
    NoReplace,
    /// It takes the old name.
    Exchange,
}

/// One side of a rename.
struct Side {
    place: Place,
    path: RelPath,
    found: Found,
    kind: Option<FileType>,
}

impl Overlay {
    /// Moves a name. `permits` are for the old and the new name.
    ///
    /// # Errors
    /// ENOENT, EEXIST, EISDIR, ENOTDIR, ENOTEMPTY, EINVAL when a directory would be moved into
    /// itself, [`super::OverlayError::Moved`] when a permit is for another path, ENOSPC from the
    /// journal.
    pub fn rename(
        &self,
        permits: (&Permit, &Permit),
        from: (NodeId, &[u8]),
        to: (NodeId, &[u8]),
        mode: RenameMode,
    ) -> Result<()> {
        let mut shadow = self.write();
        let old = self.side(&shadow, permits.0, from)?;
        let new = self.side(&shadow, permits.1, to)?;
        check_length(&new.path)?;
        if !check_types(&old, &new, mode)? {
            // Two names of one file: rename(2) does nothing.
            return Ok(());
        }
        if mode == RenameMode::Replace && new.kind == Some(FileType::Directory) {
            self.check_empty(&shadow, &new.place)?;
        }
        let (node, first_touch) = self.first_touch(&old.found)?;
        let displaced = match new.kind {
            Some(_) => {
                let (node, mut first_touch) = self.first_touch(&new.found)?;
                if let Some((lower, baseline)) = &mut first_touch {
                    self.keep_replaced(&lower.path, baseline);
                }
                Some(Displaced { node, first_touch })
            }
            None => None,
        };
        let exchange = mode == RenameMode::Exchange;
        let (from, to) = (old.path, new.path);
        let operation = ShadowOp::Rename {
            from,
            to,
            node,
            first_touch,
            displaced,
            exchange,
        };
        self.record(&mut shadow, permits.0, operation)
    }

    fn side(&self, shadow: &Shadow, permit: &Permit, name: (NodeId, &[u8])) -> Result<Side> {
        check_name(name.1)?;
        let place = Place {
            folder: self.folder_of(shadow, name.0)?,
            name: name.1.into(),
        };
        let path = path_of(shadow, &place)?;
        covers(permit, &path)?;
        let found = self.find(shadow, &place.folder, name.1)?;
        let kind = self.kind_of(shadow, &found);
        Ok(Side {
            place,
            path,
            found,
            kind,
        })
    }
}

/// Refuses what rename(2) refuses, for the first reason that it would give. Returns whether there
/// is anything to do.
fn check_types(old: &Side, new: &Side, mode: RenameMode) -> Result<bool> {
    const FOLDER: Option<FileType> = Some(FileType::Directory);
    let inside = |inner: &Side, outer: &Side| {
        outer.kind == FOLDER && inner.path != outer.path && inner.path.starts_with(&outer.path)
    };
    let errno = match (old.kind, new.kind, mode) {
        (None, _, _) | (_, None, RenameMode::Exchange) => Errno::NOENT,
        (_, Some(_), RenameMode::NoReplace) => Errno::EXIST,
        _ if inside(new, old) => Errno::INVAL,
        (_, _, RenameMode::Exchange) if inside(old, new) => Errno::INVAL,
        _ if inside(old, new) => Errno::NOTEMPTY,
        _ if old.found.id().is_some() && old.found.id() == new.found.id() => return Ok(false),
        (FOLDER, Some(kind), RenameMode::Replace) if kind != FileType::Directory => Errno::NOTDIR,
        (old, FOLDER, RenameMode::Replace) if old != FOLDER => Errno::ISDIR,
        _ => return Ok(true),
    };
    Err(errno.into())
}
