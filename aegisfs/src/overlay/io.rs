//! Bytes in and out of open files.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use aegis_policies::Permit;
use aegis_policies::journal::{NodeId, ShadowOp};
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

use super::blocks::Body;
use super::found::Found;
use super::handles::{Handle, HandleId};
use super::inode::{Backing, Inode};
use super::meta::Caller;
use super::{Overlay, OverlayError, Result, covers};

/// Bytes copied at once between files, so that a snapshot waits for no more.
const LARGEST_COPY: usize = 16 << 20;

/// What fsync(2) is asked to make durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// The content, and what is needed to find it.
    Data,
    /// All attributes as well.
    Everything,
}

impl Overlay {
    /// Fills `bytes` from `offset` on; returns how many there were, fewer only at the end of the file.
    ///
    /// # Errors
    /// EBADF for a handle that is not open, or what the host said.
    pub fn read_at(&self, handle: HandleId, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let body = self.shared(&*self.handle(handle)?)?;
        Ok(body.read_at(bytes, offset)?)
    }

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// EBADF for a handle that is not open for writing, ENOSPC, and as for copy-up.
    pub fn write_at(
        &self,
        handle: HandleId,
        offset: u64,
        bytes: &[u8],
        caller: Caller,
    ) -> Result<()> {
        self.changed_by(handle, caller)?;
        let handle = self.handle(handle)?;
        self.change(&handle, |body| body.write_at(bytes, offset))?;
        handle
            .written
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Takes set-id bits away from a file that `caller` is about to change the content of.
    ///
    /// # Errors
    /// EBADF for a handle that is not open, ENOSPC from the journal.
    pub fn changed_by(&self, handle: HandleId, caller: Caller) -> Result<()> {
        let handle = self.handle(handle)?;
        if caller == Caller::Trusted || !handle.access.writes() {
            return Ok(());
        }
        self.drop_set_id(&handle, caller)
    }

    /// Allocates, punches or zeroes a range (fallocate(2)).
    ///
    /// # Errors
    /// EBADF, EOPNOTSUPP for a mode that is not known, and what the file system said.
    pub fn allocate(&self, handle: HandleId, mode: u32, offset: u64, length: u64) -> Result<()> {
        let mode = FallocateFlags::from_bits(mode).ok_or(Errno::OPNOTSUPP)?;
        let handle = self.handle(handle)?;
        self.change(&handle, |body| body.allocate(mode, offset, length))?;
        handle.written.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Finds the next data or hole (lseek(2)).
    ///
    /// # Errors
    /// EBADF, ENXIO past the end.
    pub fn seek_to(&self, handle: HandleId, position: SeekFrom) -> Result<u64> {
        let body = self.shared(&*self.handle(handle)?)?;
        Ok(body.seek(position)?)
    }

    /// Copies between two open files without a way through the caller.
    ///
    /// # Errors
    /// EBADF, and what the file system said; the caller may fall back to read and write.
    pub fn copy_range(
        &self,
        from: (HandleId, u64),
        to: (HandleId, u64),
        length: usize,
    ) -> Result<usize> {
        let target = self.handle(to.0)?;
        let length = length.min(LARGEST_COPY);
        // Within one file, what is read is the content that is written.
        self.change(&target, |_| Ok(()))?;
        let source = self.shared(&*self.handle(from.0)?)?;
        let copied = self.change(&target, |body| source.copy_to(from.1, body, to.1, length))?;
        target.written.fetch_add(copied as u64, Ordering::Relaxed);
        Ok(copied)
    }

    /// Makes a file durable, and everything recorded so far.
    ///
    /// # Errors
    /// EBADF, EIO, ENOSPC.
    pub fn sync_file(&self, handle: HandleId, what: Durable) -> Result<()> {
        let handle = self.handle(handle)?;
        let backing = handle
            .inode
            .backing
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        if let Backing::Upper(body, _) = &*backing {
            match what {
                Durable::Data => body.sync()?,
                Durable::Everything => body.sync_all()?,
            }
        }
        drop(backing);
        self.sync_records()
    }

    /// Makes everything recorded so far durable: names, directories and attributes.
    ///
    /// # Errors
    /// EIO, ENOSPC.
    pub fn sync_records(&self) -> Result<()> {
        Ok(self.gate.journal().sync()?)
    }

    /// Sets the size of a file.
    pub(super) fn truncate(&self, permit: &Permit, id: NodeId, size: u64) -> Result<()> {
        {
            let shadow = self.read();
            if self.inodes.find(id).is_none_or(|inode| !inode.is_open()) {
                let found = self.locate(&shadow, id)?;
                self.check_file(&shadow, &found)?;
            }
            self.named(&shadow, permit, &Found::Missing, id)?;
        }
        let inode = self.inodes.find(id).ok_or(OverlayError::Stale)?;
        self.change_content(permit, &inode, size, |body| {
            self.record_size(permit, id, size)?;
            Ok(body.truncate(size)?)
        })
    }

    /// Puts a new size on record; one of a file without a name has no place there.
    fn record_size(&self, permit: &Permit, node: NodeId, size: u64) -> Result<()> {
        let mut shadow = self.write();
        let names = self.names_in(&shadow, node).shown;
        let judged = names.iter().find(|path| covers(permit, path).is_ok());
        let Some(path) = judged.or(names.first()).cloned() else {
            return Ok(());
        };
        let operation = ShadowOp::SetAttr {
            path,
            node,
            first_touch: None,
            mode: None,
            uid: None,
            gid: None,
            atime: None,
            mtime: None,
            size: Some(size),
        };
        self.record(&mut shadow, permit, operation)
    }

    /// Changes the content that a handle writes, which is the session's own and of its present
    /// generation while `change` runs.
    fn change<T>(
        &self,
        handle: &Handle,
        change: impl Fn(&Body) -> std::result::Result<T, Errno>,
    ) -> Result<T> {
        if !handle.access.writes() {
            return Err(Errno::BADF.into());
        }
        self.change_content(&handle.permit(), &handle.inode, u64::MAX, |body| {
            Ok(change(body)?)
        })
    }

    /// Changes the content of a node; of what it has before, the first `keep` bytes are wanted.
    fn change_content<T>(
        &self,
        permit: &Permit,
        inode: &Inode,
        keep: u64,
        change: impl Fn(&Body) -> Result<T>,
    ) -> Result<T> {
        let mut own = None;
        loop {
            let writing = self.writing.read().unwrap_or_else(PoisonError::into_inner);
            let generation = self.generation();
            let body = match own.take() {
                Some((body, since)) if since == generation => Some(body),
                _ => inode.own_body(generation),
            };
            if let Some(body) = body {
                self.changes.fetch_add(1, Ordering::Relaxed);
                return change(&body);
            }
            drop(writing);
            let mut backing = inode
                .backing
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            let generation = self.generation();
            own = Some((
                self.own_content(permit, inode, &mut backing, keep)?,
                generation,
            ));
        }
    }
}
