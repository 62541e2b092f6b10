//! Attributes that are set.

use aegis_policies::journal::{NodeId, ShadowOp};
use aegis_policies::{Permit, RelPath};
use rustix::fs::{FileType, Timespec, Timestamps, futimens};
use rustix::io::Errno;

use super::found::Found;
use super::handles::Handle;
use super::shadow::Shadow;
use super::{Attr, Overlay, OverlayError, Result, covers, now};

/// What setattr changes; only what is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission bits.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Access time.
    pub atime: Option<SetTime>,
    /// Modification time.
    pub mtime: Option<SetTime>,
    /// Who makes the change.
    pub caller: Caller,
}

/// Whether a change of content takes set-id bits away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caller {
    /// It does not: the caller has `CAP_FSETID`, or is not known to lack it.
    #[default]
    Trusted,
    /// It does.
    Ordinary {
        /// The caller's group. It may have others, which nobody tells this side.
        group: u32,
    },
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The time of the call.
    Now,
    /// Nanoseconds since the Unix epoch.
    At(i64),
}

impl Overlay {
    /// Changes attributes; a new size takes the content up first.
    ///
    /// # Errors
    /// ESTALE, EISDIR for the size of a directory, [`OverlayError::Moved`] when the permit is for
    /// another path, ENOSPC from content or journal.
    pub fn setattr(&self, permit: &Permit, id: NodeId, mut set: SetAttr) -> Result<Attr> {
        let truncated = set.size.is_some() && set.caller != Caller::Trusted;
        if set.mode.is_none() && (truncated || set.uid.is_some() || set.gid.is_some()) {
            set.mode = without_set_id(&self.getattr(id)?, set.caller);
        }
        if let Some(size) = set.size {
            self.truncate(permit, id, size)?;
        }
        let times = (
            set.atime.map(SetTime::nanoseconds),
            set.mtime.map(SetTime::nanoseconds),
        );
        // A request that changes nothing, such as chown(2) to nobody new, sets the status change time.
        if set.size.is_none() || set.changes_attributes() {
            let mut shadow = self.write();
            self.set(&mut shadow, permit, id, &set, times)?;
        }
        self.getattr(id)
    }

    /// Takes set-id bits away from a file that is about to be written to.
    pub(super) fn drop_set_id(&self, handle: &Handle, caller: Caller) -> Result<()> {
        let id = handle.inode.id;
        let Some(mode) = without_set_id(&self.getattr(id)?, caller) else {
            return Ok(());
        };
        self.record_mode(&handle.permit(), id, mode)?;
        // After a write the kernel takes only size and times for changed.
        if let Some(kernel) = self.kernel() {
            kernel.forget_attributes(id);
        }
        Ok(())
    }

    /// Puts new permission bits of an open file on record. What the session has named since is
    /// written by any name; what the host has named since is not.
    fn record_mode(&self, permit: &Permit, id: NodeId, mode: u32) -> Result<()> {
        let mut shadow = self.write();
        let found = self.locate(&shadow, id)?;
        let path = match &found {
            Found::Lower(lower) => shadow.shown(&lower.path),
            _ => self.names_in(&shadow, id).shown.into_iter().next(),
        };
        if let (Found::Lower(_), Some(path)) = (&found, &path) {
            covers(permit, path)?;
        }
        let Some(path) = path else {
            shadow.set_attributes(id, [Some(mode), None, None], None, None, now());
            return Ok(());
        };
        let (node, first_touch) = self.first_touch(&found)?;
        let operation = ShadowOp::SetAttr {
            path,
            node,
            first_touch,
            mode: Some(mode),
            uid: None,
            gid: None,
            atime: None,
            mtime: None,
            size: None,
        };
        self.record(&mut shadow, permit, operation)
    }

    fn set(
        &self,
        shadow: &mut Shadow,
        permit: &Permit,
        id: NodeId,
        set: &SetAttr,
        (atime, mtime): (Option<i64>, Option<i64>),
    ) -> Result<()> {
        let found = self.locate(shadow, id)?;
        match self.named(shadow, permit, &found, id)? {
            Some(path) => {
                let (node, first_touch) = self.first_touch(&found)?;
                let operation = ShadowOp::SetAttr {
                    path,
                    node,
                    first_touch,
                    mode: set.mode,
                    uid: set.uid,
                    gid: set.gid,
                    atime,
                    mtime,
                    size: None,
                };
                self.record(shadow, permit, operation)?;
            }
            None => shadow.set_attributes(id, [set.mode, set.uid, set.gid], atime, mtime, now()),
        }
        let generation = shadow.generation();
        if shadow.has_content(&(id, generation)) && (atime, mtime) != (None, None) {
            futimens(
                self.content.file(id, generation)?,
                &timestamps(atime, mtime),
            )?;
        }
        Ok(())
    }

    /// The path that a record about a node goes under, which the permit must be for. An untouched
    /// node goes by the name that it is found by: the host may have given those that it had to
    /// others. `None` for one without a name.
    pub(super) fn named(
        &self,
        shadow: &Shadow,
        permit: &Permit,
        found: &Found,
        id: NodeId,
    ) -> Result<Option<RelPath>> {
        if let Found::Lower(lower) = found {
            let path = shadow.shown(&lower.path).ok_or(OverlayError::Stale)?;
            return covers(permit, &path).map(|()| Some(path));
        }
        let names = self.names_in(shadow, id).shown;
        if names.is_empty() {
            return match shadow.node(id) {
                Some(node) if node.is_orphan() => Ok(None),
                _ => Err(OverlayError::Stale),
            };
        }
        let judged = names.into_iter().find(|path| covers(permit, path).is_ok());
        judged.map(Some).ok_or(OverlayError::Moved)
    }

    /// Whether a node is a regular file.
    pub(super) fn check_file(&self, shadow: &Shadow, found: &Found) -> Result<()> {
        match self.kind_of(shadow, found) {
            Some(FileType::RegularFile) => Ok(()),
            Some(FileType::Directory) => Err(Errno::ISDIR.into()),
            Some(FileType::Symlink) => Err(Errno::LOOP.into()),
            Some(_) => Err(Errno::INVAL.into()),
            None => Err(OverlayError::Stale),
        }
    }
}

impl SetAttr {
    const fn changes_attributes(&self) -> bool {
        let owner = self.uid.is_some() || self.gid.is_some();
        owner || self.mode.is_some() || self.atime.is_some() || self.mtime.is_some()
    }
}

impl SetTime {
    fn nanoseconds(self) -> i64 {
        match self {
            Self::Now => now(),
            Self::At(nanoseconds) => nanoseconds,
        }
    }
}

/// The mode of a file after a change of owner, or of content by somebody ordinary, when that takes
/// bits away (chown(2), write(2)). Root, and who is of the group, keep a set-group-id bit that has no
/// group execution.
fn without_set_id(attr: &Attr, caller: Caller) -> Option<u32> {
    let outside = matches!(caller, Caller::Ordinary { group } if group != attr.gid);
    let group = if outside || attr.mode & 0o010 != 0 {
        0o2000
    } else {
        0
    };
    let mode = attr.mode & !(0o4000 | group);
    (attr.kind == FileType::RegularFile && mode != attr.mode).then_some(mode)
}

/// Times for futimens(2); what is not given stays.
pub(super) fn timestamps(atime: Option<i64>, mtime: Option<i64>) -> Timestamps {
    let time = |nanoseconds: Option<i64>| match nanoseconds {
        Some(nanoseconds) => Timespec {
            tv_sec: nanoseconds.div_euclid(1_000_000_000),
            tv_nsec: nanoseconds.rem_euclid(1_000_000_000),
        },
        None => Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_OMIT,
        },
    };
    Timestamps {
        last_access: time(atime),
        last_modification: time(mtime),
    }
}
