//! Extended attributes. `user.*` is the session's own; what the host's security modules and the
//! administrator keep in other name spaces can be read on an untouched node and never changed.

use std::collections::BTreeSet;

use aegis_policies::Permit;
use aegis_policies::journal::{NodeId, ShadowOp};
use rustix::io::Errno;

use super::found::{Found, LowerNode};
use super::shadow::Shadow;
use super::{Overlay, Result, now};

const USER: &[u8] = b"user.";
/// Asked for by the kernel at every write and start of a program; no file of a shadow has any.
const CAPABILITY: &[u8] = b"security.capability";
/// Longest name (XATTR_NAME_MAX) and largest value (XATTR_SIZE_MAX).
const LONGEST: usize = 255;
const LARGEST: usize = 65536;

/// What must hold before an attribute is set (setxattr(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Nothing.
    Any,
    /// It must be new.
    Create,
    /// It must exist.
    Replace,
}

impl Overlay {
    /// The value of an attribute.
    ///
    /// # Errors
    /// ENODATA when there is none.
    pub fn xattr(&self, id: NodeId, name: &[u8]) -> Result<Vec<u8>> {
        if name == CAPABILITY {
            return Err(Errno::NODATA.into());
        }
        let shadow = self.read();
        let found = self.locate(&shadow, id)?;
        self.xattr_of(&shadow, &found, name)
    }

    /// The names of the attributes.
    ///
    /// # Errors
    /// ESTALE, or what the host said.
    pub fn xattrs(&self, id: NodeId) -> Result<Vec<Vec<u8>>> {
        let shadow = self.read();
        let found = self.locate(&shadow, id)?;
        let mut names = BTreeSet::new();
        if let Some(lower) = lower_path(&shadow, &found) {
            names.extend(self.lower.xattrs(&lower).unwrap_or_default());
        }
        if let Found::Node(id) = &found
            && let Some(node) = shadow.node(*id)
        {
            names.retain(|name| name.starts_with(USER));
            for (name, value) in &node.xattrs {
                if value.is_some() {
                    names.insert(name.clone());
                } else {
                    names.remove(name);
                }
            }
        }
        Ok(names.into_iter().collect())
    }

    /// Sets an attribute.
    ///
    /// # Errors
    /// EOPNOTSUPP outside `user.*`, EEXIST and ENODATA as the mode says, ENOSPC from the journal.
    pub fn set_xattr(
        &self,
        permit: &Permit,
        id: NodeId,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        check_settable(name)?;
        if value.len() > LARGEST {
            return Err(Errno::TOOBIG.into());
        }
        let mut shadow = self.write();
        let found = self.locate(&shadow, id)?;
        match (mode, self.xattr_of(&shadow, &found, name).is_ok()) {
            (XattrMode::Create, true) => return Err(Errno::EXIST.into()),
            (XattrMode::Replace, false) => return Err(Errno::NODATA.into()),
            _ => {}
        }
        self.put_xattr(&mut shadow, permit, id, &found, name, Some(value.to_vec()))
    }

    /// Removes an attribute.
    ///
    /// # Errors
    /// ENODATA when there is none, EOPNOTSUPP outside `user.*`.
    pub fn remove_xattr(&self, permit: &Permit, id: NodeId, name: &[u8]) -> Result<()> {
        check_settable(name)?;
        let mut shadow = self.write();
        let found = self.locate(&shadow, id)?;
        self.xattr_of(&shadow, &found, name)?;
        self.put_xattr(&mut shadow, permit, id, &found, name, None)
    }

    fn put_xattr(
        &self,
        shadow: &mut Shadow,
        permit: &Permit,
        id: NodeId,
        found: &Found,
        name: &[u8],
        value: Option<Vec<u8>>,
    ) -> Result<()> {
        let name = name.to_vec();
        let Some(path) = self.named(shadow, permit, found, id)? else {
            shadow.set_nameless_xattr(id, name, value, now());
            return Ok(());
        };
        let (node, first_touch) = self.first_touch(found)?;
        let operation = ShadowOp::SetXattr {
            path,
            node,
            first_touch,
            name,
            value,
        };
        self.record(shadow, permit, operation)
    }

    fn xattr_of(&self, shadow: &Shadow, found: &Found, name: &[u8]) -> Result<Vec<u8>> {
        if let Found::Node(id) = found
            && let Some(node) = shadow.node(*id)
        {
            if let Some(value) = node.xattrs.get(name) {
                return value.clone().ok_or(Errno::NODATA.into());
            }
            if !name.starts_with(USER) {
                return Err(Errno::NODATA.into());
            }
        }
        let lower = lower_path(shadow, found).ok_or(Errno::NODATA)?;
        match self.lower.xattr(&lower, name) {
            // Links and special files have none; what can not be opened can not be asked.
            Err(Errno::LOOP | Errno::NXIO | Errno::ACCESS | Errno::NOENT | Errno::PERM) => {
                Err(Errno::NODATA.into())
            }
            value => Ok(value?),
        }
    }
}

/// Where the host has a node.
fn lower_path(shadow: &Shadow, found: &Found) -> Option<aegis_policies::RelPath> {
    match found {
        Found::Lower(LowerNode { path, .. }) => Some(path.clone()),
        Found::Node(id) => shadow
            .node(*id)?
            .origin
            .as_ref()
            .map(|it| it.lower.path.clone()),
        Found::Missing => None,
    }
}

fn check_settable(name: &[u8]) -> Result<()> {
    if !name.starts_with(USER) {
        return Err(Errno::OPNOTSUPP.into());
    }
    if name.len() > LONGEST || name.len() == USER.len() || name.contains(&0) {
        return Err(Errno::RANGE.into());
    }
    Ok(())
}
