//! Requests about open files.

use std::fs::File;
use std::sync::Arc;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::names::access;
use super::{Answer, Asker, Opened, Requests};
use crate::overlay::{Caller, Durable, HandleId};

impl Requests {
    /// Opens a file; `flags` are those of open(2). With O_TRUNC the kernel empties it afterwards, when
    /// nobody runs it (ETXTBSY): FUSE_ATOMIC_O_TRUNC would empty a running program first.
    pub(in crate::fuse) fn open(&self, asker: Asker, number: u64, flags: u32) -> Answer<Opened> {
        let (node, access) = (self.node(number), access(flags)?);
        let opened = self.answer(|guard| guard.open(asker.pid, node, access))?;
        Ok(opened.into())
    }

    /// Whether nothing is ever written here.
    pub(in crate::fuse) fn is_read_only(&self) -> bool {
        self.guard.is_read_only()
    }

    /// The host's file that a handle will read to its end, where that is sure.
    pub(in crate::fuse) fn unchanging_file(&self, handle: HandleId) -> Option<Arc<File>> {
        self.answer(|guard| Ok(guard.unchanging_file(handle)))
            .ok()
            .flatten()
    }

    /// Fills `bytes` from `offset` on; returns how many there were.
    pub(in crate::fuse) fn read(
        &self,
        handle: HandleId,
        offset: u64,
        bytes: &mut [u8],
    ) -> Answer<usize> {
        self.answer(|guard| guard.read(handle, offset, bytes))
    }

    /// Writes all of `bytes` at `offset`.
    pub(in crate::fuse) fn write(
        &self,
        handle: HandleId,
        offset: u64,
        bytes: &[u8],
        caller: Caller,
    ) -> Answer<()> {
        self.answer(|guard| guard.write(handle, offset, bytes, caller))
    }

    /// Closes a file.
    pub(in crate::fuse) fn release(&self, handle: HandleId) -> Answer<()> {
        self.answer(|guard| {
            guard.release(handle);
            Ok(())
        })
    }

    /// Closes what is still open: the mount is gone, and nobody else will.
    pub(in crate::fuse) fn end(&self) {
        let _ = self.answer(|guard| {
            guard.release_all();
            Ok(())
        });
    }

    /// Makes a file durable.
    pub(in crate::fuse) fn fsync(&self, handle: HandleId, what: Durable) -> Answer<()> {
        self.answer(|guard| guard.sync(handle, what))
    }

    /// Allocates, punches or zeroes a range; `mode` is that of fallocate(2).
    pub(in crate::fuse) fn fallocate(
        &self,
        asker: Asker,
        handle: HandleId,
        mode: u32,
        offset: u64,
        length: u64,
    ) -> Answer<()> {
        self.answer(|guard| {
            guard.changed_by(handle, asker.caller(asker.uid != 0))?;
            guard.allocate(handle, mode, offset, length)
        })
    }

    /// Finds the next data or hole; `whence` is that of lseek(2).
    pub(in crate::fuse) fn lseek(&self, handle: HandleId, offset: u64, whence: u32) -> Answer<u64> {
        // SEEK_DATA and SEEK_HOLE; the kernel does the others itself.
        let position = match (whence, i64::try_from(offset)) {
            (3, Ok(_)) => SeekFrom::Data(offset),
            (4, Ok(_)) => SeekFrom::Hole(offset),
            // As ext4 and xfs have it.
            (3 | 4, Err(_)) => return Err(Errno::NXIO),
            _ => return Err(Errno::INVAL),
        };
        self.answer(|guard| guard.seek(handle, position))
    }

    /// Copies between two open files; returns how many bytes.
    pub(in crate::fuse) fn copy_file_range(
        &self,
        asker: Asker,
        from: (HandleId, u64),
        to: (HandleId, u64),
        length: u64,
    ) -> Answer<usize> {
        // The answer has 32 bits.
        let most = i32::MAX as usize;
        let length = usize::try_from(length).unwrap_or(most).min(most);
        self.answer(|guard| {
            guard.changed_by(to.0, asker.caller(asker.uid != 0))?;
            guard.copy_range(from, to, length)
        })
    }
}
