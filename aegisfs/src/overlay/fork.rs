//! Content that a snapshot may hold is copied before it is written again.

use std::fs::File;

use aegis_policies::Permit;
use aegis_policies::journal::{Generation, NodeId, ShadowOp};
use rustix::fs::{fstat, ftruncate, futimens, ioctl_ficlone};
use rustix::io::pread;

use super::attr::Stat;
use super::copyup::{CHUNK, next_data, next_hole, write_all};
use super::meta::timestamps;
use super::shadow::Shadow;
use super::{Overlay, OverlayError, Result, covers};

impl Overlay {
    /// Gives a node content of the shadow's generation in place of that of an earlier one, of which
    /// the first `keep` bytes are wanted. The caller holds the node's backing, so nobody writes it.
    pub(super) fn fork(
        &self,
        permit: &Permit,
        id: NodeId,
        before: Generation,
        keep: u64,
    ) -> Result<(File, Generation)> {
        let needed = self.read().is_needed(id, before);
        if !needed && let Some(carried) = self.carry(permit, id, before)? {
            return Ok(carried);
        }
        let old = self.content.file(id, before)?;
        let file = self.content.prepare(id)?;
        let copied = copy(&old, &file, keep);
        copied.inspect_err(|_| self.content.abandon(id))?;
        let mut shadow = self.write();
        let generation = shadow.generation();
        set_times(&shadow, id, &file, &Stat::from(fstat(&old)?))?;
        self.content.publish(id, generation)?;
        self.record_fork(&mut shadow, permit, id)?;
        Ok((file, generation))
    }

    /// Lets content grow into the shadow's generation; `None` when a snapshot needs it as it is.
    fn carry(
        &self,
        permit: &Permit,
        id: NodeId,
        before: Generation,
    ) -> Result<Option<(File, Generation)>> {
        let mut shadow = self.write();
        if shadow.is_needed(id, before) {
            return Ok(None);
        }
        let generation = shadow.generation();
        let file = self.content.file(id, before)?;
        set_times(&shadow, id, &file, &Stat::from(fstat(&file)?))?;
        self.content.carry(id, before, generation)?;
        self.record_fork(&mut shadow, permit, id)?;
        Ok(Some((file, generation)))
    }

    /// Puts a fork on record. One of a file without a name has no place there; it is gone when the
    /// server is.
    fn record_fork(&self, shadow: &mut Shadow, permit: &Permit, node: NodeId) -> Result<()> {
        let generation = shadow.generation();
        let names = self.names_in(shadow, node).shown;
        let judged = names.iter().find(|path| covers(permit, path).is_ok());
        let Some(path) = judged.or(names.first()).cloned() else {
            shadow.orphan_forked(node);
            self.remove_freed(shadow);
            return Ok(());
        };
        let operation = ShadowOp::Fork {
            path,
            node,
            generation,
        };
        let recorded = self.record(shadow, permit, operation);
        recorded.inspect_err(|_| self.content.remove(node, generation))
    }
}

/// The content file carries the times: those of the content before, or those set since.
fn set_times(shadow: &Shadow, id: NodeId, file: &File, old: &Stat) -> Result<()> {
    let node = shadow.node(id).ok_or(OverlayError::Stale)?;
    let atime = node.atime.unwrap_or(old.atime);
    let mtime = node.mtime.unwrap_or(old.mtime);
    Ok(futimens(file, &timestamps(Some(atime), Some(mtime)))?)
}

/// Copies content with its times.
pub(super) fn copy_whole(old: &File, file: &File) -> Result<()> {
    copy(old, file, u64::MAX)?;
    let stat = Stat::from(fstat(old)?);
    let times = timestamps(Some(stat.atime), Some(stat.mtime));
    Ok(futimens(file, &times)?)
}

/// Copies the first `keep` bytes; holes stay holes.
fn copy(old: &File, file: &File, keep: u64) -> Result<()> {
    let size = Stat::from(fstat(old)?).size;
    if keep >= size && ioctl_ficlone(file, old).is_ok() {
        return Ok(());
    }
    let end = size.min(keep);
    let mut buffer = vec![0; CHUNK.min(usize::try_from(end).unwrap_or(CHUNK)).max(1)];
    let mut offset = next_data(old, 0, end);
    while offset < end {
        let room = usize::try_from(next_hole(old, offset, end) - offset).unwrap_or(CHUNK);
        let room = room.min(buffer.len());
        let read = pread(old, buffer.get_mut(..room).unwrap_or_default(), offset)?;
        if read == 0 {
            break;
        }
        write_all(file, buffer.get(..read).unwrap_or_default(), offset)?;
        offset = next_data(old, offset + read as u64, end);
    }
    Ok(ftruncate(file, end)?)
}
