//! Content that a snapshot may hold is copied before it is written again.

use std::fs::File;
use std::sync::Arc;

use aegis_policies::Permit;
use aegis_policies::journal::{Generation, NodeId, ShadowOp};
use rustix::fs::{fstat, ftruncate, futimens, ioctl_ficlone};

use super::attr::Stat;
use super::blocks::Body;
use super::bytes::write_all;
use super::content::{file_name, part_name};
use super::meta::timestamps;
use super::shadow::Shadow;
use super::take::{CHUNK, LARGEST_COPIED};
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
    ) -> Result<(Body, Generation)> {
        let needed = self.read().is_needed(id, before);
        if !needed && let Some(carried) = self.carry(permit, id, before)? {
            return Ok(carried);
        }
        let old = self.content.body(id, before)?;
        let times = Stat::from(fstat(&**old.file())?);
        let split = self.split(id, before, old, keep);
        let body = split.inspect_err(|_| self.content.abandon(id))?;
        let mut shadow = self.write();
        let generation = shadow.generation();
        set_times(&shadow, id, body.file(), &times)?;
        self.content.publish(id, generation)?;
        self.record_fork(&mut shadow, permit, id)?;
        Ok((body, generation))
    }

    /// New content that begins as what the old is: a clone, or a copy, or blocks over it.
    fn split(&self, id: NodeId, before: Generation, old: Body, keep: u64) -> Result<Body> {
        let file = self.content.prepare(id)?;
        let size = old.stat()?.size;
        let whole = old.whole().filter(|_| keep >= size);
        if whole.is_some_and(|old| ioctl_ficlone(&file, old).is_ok()) {
            return Ok(Body::Whole(Arc::new(file)));
        }
        let kept = size.min(keep);
        if kept > LARGEST_COPIED && self.content.blocks().has_room_over(&old) {
            let older = file_name(id, before);
            let blocks = self.content.blocks();
            return Ok(blocks.over_older(&part_name(id), file, (&older, old), kept)?);
        }
        copy(&old, &file, kept)?;
        Ok(Body::Whole(Arc::new(file)))
    }

    /// Lets content grow into the shadow's generation; `None` when a snapshot, or other content,
    /// needs it as it is.
    fn carry(
        &self,
        permit: &Permit,
        id: NodeId,
        before: Generation,
    ) -> Result<Option<(Body, Generation)>> {
        let mut shadow = self.write();
        let shown = self.content.blocks().is_below(&file_name(id, before));
        if shown || shadow.is_needed(id, before) {
            return Ok(None);
        }
        let generation = shadow.generation();
        let body = self.content.body(id, before)?;
        let times = Stat::from(fstat(&**body.file())?);
        set_times(&shadow, id, body.file(), &times)?;
        self.content.carry(id, before, generation)?;
        self.record_fork(&mut shadow, permit, id)?;
        Ok(Some((body, generation)))
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
pub(super) fn copy_whole(old: &Body, file: &File) -> Result<()> {
    let stat = old.stat()?;
    copy(old, file, stat.size)?;
    let times = timestamps(Some(stat.atime), Some(stat.mtime));
    Ok(futimens(file, &times)?)
}

/// Copies the first `end` bytes; holes stay holes.
fn copy(old: &Body, file: &File, end: u64) -> Result<()> {
    let mut buffer = vec![0; CHUNK.min(usize::try_from(end).unwrap_or(CHUNK)).max(1)];
    let mut offset = old.next_data(0, end);
    while offset < end {
        let room = usize::try_from(old.next_hole(offset, end) - offset).unwrap_or(CHUNK);
        let room = room.min(buffer.len());
        let read = old.read_at(buffer.get_mut(..room).unwrap_or_default(), offset)?;
        if read == 0 {
            break;
        }
        write_all(file, buffer.get(..read).unwrap_or_default(), offset)?;
        offset = old.next_data(offset + read as u64, end);
    }
    Ok(ftruncate(file, end)?)
}
