//! Content as its readers and writers see it, whole or in blocks.

use std::fs::File;
use std::sync::Arc;

use rustix::fs::{
    FallocateFlags, SeekFrom, copy_file_range, fallocate, fdatasync, fstat, fsync, ftruncate, seek,
};
use rustix::io::Errno;

use super::Partial;
use crate::overlay::attr::Stat;
use crate::overlay::bytes::{next_data, next_hole, read_full, write_all};

/// Bytes that are copied at once through a buffer of ours.
const BUFFER: usize = 1 << 20;

/// The bytes of a file.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// All in one file.
    Whole(Arc<File>),
    /// In a file of which some blocks are there.
    Partial(Arc<Partial>),
}

impl Body {
    /// The file that holds the length, the times and what is there; all of it when it is whole.
    pub(crate) fn file(&self) -> &Arc<File> {
        match self {
            Self::Whole(file) => file,
            Self::Partial(partial) => partial.file(),
        }
    }

    /// The one file that all bytes are in, when there is one.
    pub(crate) fn whole(&self) -> Option<&Arc<File>> {
        match self {
            Self::Partial(partial) if !partial.is_whole() => None,
            _ => Some(self.file()),
        }
    }

    /// Attributes of the file; what is still elsewhere counts as well.
    pub(crate) fn stat(&self) -> Result<Stat, Errno> {
        let mut stat = Stat::from(fstat(&**self.file())?);
        if let Self::Partial(partial) = self {
            stat.blocks += partial.blocks_below();
        }
        Ok(stat)
    }

    /// Fills `bytes` from `offset` on; returns how many there were, fewer only at the end.
    pub(crate) fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, Errno> {
        match self {
            Self::Whole(file) => read_full(file, bytes, offset),
            Self::Partial(partial) => partial.read_at(bytes, offset),
        }
    }

    /// Writes all of `bytes`.
    pub(crate) fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), Errno> {
        match self {
            Self::Whole(file) => write_all(file, bytes, offset),
            Self::Partial(partial) => partial.write_at(bytes, offset),
        }
    }

    /// Sets the length.
    pub(crate) fn truncate(&self, size: u64) -> Result<(), Errno> {
        match self {
            Self::Whole(file) => ftruncate(&**file, size),
            Self::Partial(partial) => partial.truncate(size),
        }
    }

    /// Allocates, punches or zeroes a range (fallocate(2)).
    pub(crate) fn allocate(
        &self,
        mode: FallocateFlags,
        offset: u64,
        length: u64,
    ) -> Result<(), Errno> {
        match self {
            Self::Whole(file) => fallocate(&**file, mode, offset, length),
            Self::Partial(partial) => partial.allocate(mode, offset, length),
        }
    }

    /// Where data begins at or after `offset`; `end` when there is none before it.
    pub(crate) fn next_data(&self, offset: u64, end: u64) -> u64 {
        match self {
            Self::Whole(file) => next_data(file, offset, end),
            Self::Partial(partial) => partial.next_data(offset, end),
        }
    }

    /// Where the data at `offset` ends; `end` when it does not end before.
    pub(crate) fn next_hole(&self, offset: u64, end: u64) -> u64 {
        match self {
            Self::Whole(file) => next_hole(file, offset, end),
            Self::Partial(partial) => partial.next_hole(offset, end),
        }
    }

    /// Finds the next data or hole (lseek(2)).
    ///
    /// # Errors
    /// ENXIO past the end, EINVAL for other positions.
    pub(crate) fn seek(&self, position: SeekFrom) -> Result<u64, Errno> {
        if let Some(file) = self.whole() {
            return seek(&**file, position);
        }
        let size = self.stat()?.size;
        let (from, found) = match position {
            SeekFrom::Data(from) => (from, self.next_data(from, size)),
            SeekFrom::Hole(from) => (from, self.next_hole(from, size)),
            _ => return Err(Errno::INVAL),
        };
        let none = from >= size || (matches!(position, SeekFrom::Data(_)) && found == size);
        if none { Err(Errno::NXIO) } else { Ok(found) }
    }

    /// Makes the content durable, and what is needed to find it.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        match self {
            Self::Whole(file) => fdatasync(&**file),
            Self::Partial(partial) => partial.sync(),
        }
    }

    /// Makes the content durable, and all attributes.
    pub(crate) fn sync_all(&self) -> Result<(), Errno> {
        if let Self::Partial(partial) = self {
            partial.sync()?;
        }
        fsync(&**self.file())
    }

    /// How many files have to be asked at most for one byte.
    pub(super) fn depth(&self) -> usize {
        match self {
            Self::Whole(_) => 1,
            Self::Partial(partial) => partial.depth() + 1,
        }
    }

    /// Copies up to `length` bytes to another file; returns how many, fewer at the end or when it
    /// is more than goes at once (copy_file_range(2)).
    pub(crate) fn copy_to(
        &self,
        mut from: u64,
        target: &Self,
        mut to: u64,
        length: usize,
    ) -> Result<usize, Errno> {
        if let (Some(source), Some(target)) = (self.whole(), target.whole()) {
            let (from, to) = (Some(&mut from), Some(&mut to));
            return copy_file_range(&**source, from, &**target, to, length);
        }
        let mut bytes = vec![0; length.min(BUFFER)];
        let read = self.read_at(&mut bytes, from)?;
        target.write_at(bytes.get(..read).unwrap_or_default(), to)?;
        Ok(read)
    }
}
