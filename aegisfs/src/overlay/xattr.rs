//! Extended attributes.
//!
//! `user.*` and access control lists (acl(5)) are the session's own over the host's. What the host's
//! security modules keep in `security.*` can be read where the host has it and never be set: nothing
//! here would enforce it. `trusted.*` is the host's administrator's and not shown at all.

use std::collections::BTreeSet;

use aegis_policies::Permit;
use aegis_policies::journal::{NodeId, ShadowOp};
use rustix::io::Errno;

use super::acl::{ACCESS, Acl, DEFAULT, is_acl};
use super::found::{Found, LowerNode};
use super::meta::Caller;
use super::shadow::Shadow;
use super::{Overlay, OverlayError, Result, SetAttr, now};

const USER: &[u8] = b"user.";
const SECURITY: &[u8] = b"security.";
/// A program on this mount gains no capability (`nosuid`), and a write would have to take it away.
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
    /// Whether nodes can have access control lists: where the project's own file system keeps them.
    #[must_use]
    pub const fn has_acl(&self) -> bool {
        self.lower.has_acl()
    }

    /// The value of an attribute.
    ///
    /// # Errors
    /// ENODATA when there is none.
    pub fn xattr(&self, id: NodeId, name: &[u8]) -> Result<Vec<u8>> {
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
            names.extend(node.xattrs.keys().cloned());
        }
        // Of the host's names some are not shown, and some of ours are removals.
        names.retain(|name| {
            let plain = name.starts_with(USER) && !is_touched(&shadow, &found, name);
            plain || self.xattr_of(&shadow, &found, name).is_ok()
        });
        Ok(names.into_iter().collect())
    }

    /// Sets an attribute.
    ///
    /// # Errors
    /// EOPNOTSUPP for what can not be set, EEXIST and ENODATA as the mode says, EINVAL for a list
    /// that is none, ENOSPC from the journal.
    pub fn set_xattr(
        &self,
        permit: &Permit,
        id: NodeId,
        name: &[u8],
        value: &[u8],
        (mode, caller): (XattrMode, Caller),
    ) -> Result<()> {
        self.check_settable(name)?;
        if value.len() > LARGEST {
            return Err(Errno::TOOBIG.into());
        }
        if is_acl(name) {
            Acl::parse(value).ok_or(Errno::INVAL)?;
        }
        if name == ACCESS && caller != Caller::Trusted {
            self.drop_set_group_id(permit, id)?;
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
    /// ENODATA when there is none, EOPNOTSUPP for what can not be set.
    pub fn remove_xattr(&self, permit: &Permit, id: NodeId, name: &[u8]) -> Result<()> {
        self.check_settable(name)?;
        let mut shadow = self.write();
        let found = self.locate(&shadow, id)?;
        match self.xattr_of(&shadow, &found, name) {
            // A list that is not there need not go (setfacl(1) and the kernel's own file systems).
            Err(OverlayError::Os(Errno::NODATA)) if is_acl(name) => return Ok(()),
            there => there?,
        };
        self.put_xattr(&mut shadow, permit, id, &found, name, None)
    }

    fn check_settable(&self, name: &[u8]) -> Result<()> {
        match name.strip_prefix(USER) {
            None if is_acl(name) && self.lower.has_acl() => Ok(()),
            None => Err(Errno::OPNOTSUPP.into()),
            Some(b"") => Err(Errno::INVAL.into()),
            Some(_) if name.len() > LONGEST || name.contains(&0) => Err(Errno::RANGE.into()),
            Some(_) => Ok(()),
        }
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
        let Some(path) = self.named(shadow, permit, found, id)? else {
            shadow.set_xattr(id, name.to_vec(), value, now());
            return Ok(());
        };
        let (node, first_touch) = self.first_touch(found)?;
        let name = name.to_vec();
        let operation = ShadowOp::SetXattr {
            path,
            node,
            first_touch,
            name,
            value,
        };
        self.record(shadow, permit, operation)
    }

    /// Who sets a list and is not of the node's group takes its set-group-id bit away (chmod(2)).
    fn drop_set_group_id(&self, permit: &Permit, id: NodeId) -> Result<()> {
        let mode = self.getattr(id)?.mode;
        if mode & 0o2000 == 0 {
            return Ok(());
        }
        let set = SetAttr {
            mode: Some(mode & !0o2000),
            ..SetAttr::default()
        };
        self.setattr(permit, id, set).map(drop)
    }

    fn xattr_of(&self, shadow: &Shadow, found: &Found, name: &[u8]) -> Result<Vec<u8>> {
        if is_acl(name) {
            return self.acl_of(shadow, found, name);
        }
        if name == CAPABILITY || !(name.starts_with(USER) || name.starts_with(SECURITY)) {
            return Err(Errno::NODATA.into());
        }
        self.kept_xattr(shadow, found, name)
    }

    /// A list, with the permission bits that the node has now.
    fn acl_of(&self, shadow: &Shadow, found: &Found, name: &[u8]) -> Result<Vec<u8>> {
        if !self.lower.has_acl() {
            return Err(Errno::OPNOTSUPP.into());
        }
        let value = self.kept_xattr(shadow, found, name)?;
        let list = Acl::parse(&value).ok_or(Errno::NODATA)?;
        if name == DEFAULT {
            return Ok(list.encode());
        }
        let attr = self.attr_of_found(shadow, found)?;
        let mode = attr.ok_or(OverlayError::Stale)?.mode;
        Ok(list.with_mode(mode).ok_or(Errno::NODATA)?.encode())
    }

    /// The list that a directory hands on to what is made in it.
    pub(super) fn default_list(&self, shadow: &Shadow, folder: &Found) -> Result<Option<Acl>> {
        if !self.lower.has_acl() {
            return Ok(None);
        }
        match self.kept_xattr(shadow, folder, DEFAULT) {
            Ok(value) => Ok(Acl::parse(&value)),
            Err(OverlayError::Os(Errno::NODATA)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What the session set, else what the host has.
    fn kept_xattr(&self, shadow: &Shadow, found: &Found, name: &[u8]) -> Result<Vec<u8>> {
        if let Found::Node(id) = found
            && let Some(value) = shadow.node(*id).and_then(|node| node.xattrs.get(name))
        {
            return value.clone().ok_or(Errno::NODATA.into());
        }
        if is_written(shadow, found) && name.starts_with(SECURITY) {
            return Err(Errno::NODATA.into());
        }
        let lower = lower_path(shadow, found).ok_or(Errno::NODATA)?;
        match self.lower.xattr(&lower, name) {
            // The host's name is gone, or on a file system without these attributes.
            Err(Errno::ACCESS | Errno::NOENT | Errno::NOTDIR | Errno::PERM | Errno::OPNOTSUPP) => {
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

/// Whether the content is the session's own.
fn is_written(shadow: &Shadow, found: &Found) -> bool {
    let node = found.id().and_then(|id| shadow.node(id));
    node.is_some_and(|node| node.content.is_some())
}

/// Whether the session set or removed this attribute.
fn is_touched(shadow: &Shadow, found: &Found, name: &[u8]) -> bool {
    let node = found.id().and_then(|id| shadow.node(id));
    node.is_some_and(|node| node.xattrs.contains_key(name))
}
