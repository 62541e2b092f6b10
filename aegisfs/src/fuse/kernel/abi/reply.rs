//! Answers, put together field by field in a buffer of the transport's.

use std::time::Duration;

use rustix::fs::{FileType, StatVfs};
use rustix::io::Errno;

use crate::fuse::requests::{Named, Opened, Shown};
use crate::overlay::Attr;

/// The type bits of `st_mode`.
const TYPE_SHIFT: u32 = 12;
/// The size of `struct fuse_entry_out`.
const ENTRY: usize = 128;
/// The size of `struct fuse_dirent` without its name.
const DIRENT: usize = 24;

/// The body of an answer.
#[derive(Debug)]
pub(in crate::fuse::kernel) struct Reply<'a> {
    body: &'a mut [u8],
    most: usize,
    used: usize,
}

/// What the kernel may do with an open file (`FOPEN_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::fuse::kernel) struct OpenFlags(u32);

impl OpenFlags {
    /// The kernel keeps a listing until it is told to forget it.
    pub(in crate::fuse::kernel) const CACHED_DIR: Self = Self(Self::KEEP_CACHE | Self::CACHE_DIR);

    const KEEP_CACHE: u32 = 1 << 1;
    const CACHE_DIR: u32 = 1 << 3;
    const NOFLUSH: u32 = 1 << 5;
    const PASSTHROUGH: u32 = 1 << 7;
}

impl<'a> Reply<'a> {
    /// An answer that may fill `body`.
    pub(in crate::fuse::kernel) const fn new(body: &'a mut [u8]) -> Self {
        let most = body.len();
        Self {
            body,
            most,
            used: 0,
        }
    }

    /// Bytes of the answer.
    pub(in crate::fuse::kernel) const fn len(&self) -> usize {
        self.used
    }

    /// Bytes that still fit.
    pub(in crate::fuse::kernel) const fn room(&self) -> usize {
        self.most.saturating_sub(self.used)
    }

    /// Leaves room for so many bytes at most.
    pub(in crate::fuse::kernel) fn limit(&mut self, size: u32) {
        self.most = self.most.min(size as usize);
    }

    /// Starts anew.
    pub(in crate::fuse::kernel) const fn clear(&mut self) {
        self.used = 0;
    }

    /// Room for up to `size` bytes of content; what is filled in is kept with [`Reply::filled`].
    pub(in crate::fuse::kernel) fn content(&mut self, size: usize) -> &mut [u8] {
        let end = self.used.saturating_add(size).min(self.most);
        self.body.get_mut(self.used..end).unwrap_or_default()
    }

    /// Keeps so many bytes of what [`Reply::content`] gave.
    pub(in crate::fuse::kernel) fn filled(&mut self, size: usize) {
        self.used = self.used.saturating_add(size).min(self.most);
    }

    /// Adds bytes as they are.
    ///
    /// # Errors
    /// ERANGE when they do not fit.
    pub(in crate::fuse::kernel) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        let room = self.content(bytes.len());
        if room.len() < bytes.len() {
            return Err(Errno::RANGE);
        }
        room.copy_from_slice(bytes);
        self.filled(bytes.len());
        Ok(())
    }

    /// `struct fuse_entry_out`: a node under a name.
    ///
    /// # Errors
    /// ERANGE when it does not fit, like all that follow.
    pub(in crate::fuse::kernel) fn entry(&mut self, named: &Named) -> Result<(), Errno> {
        let node = (named.shown.attr.node.0, named.generation);
        self.entry_head(node, named.lifetime, named.shown.lifetime)?;
        self.attributes(&named.shown.attr)
    }

    /// A name that leads nowhere, and may be trusted to for so long: node 0.
    pub(in crate::fuse::kernel) fn absent(&mut self, lifetime: Duration) -> Result<(), Errno> {
        self.entry_head((0, 0), lifetime, Duration::ZERO)?;
        self.bytes(&[0; ENTRY - 40])
    }

    /// `struct fuse_attr_out`.
    pub(in crate::fuse::kernel) fn attr(&mut self, shown: &Shown) -> Result<(), Errno> {
        self.u64(shown.lifetime.as_secs())?;
        self.u32(shown.lifetime.subsec_nanos())?;
        self.u32(0)?;
        self.attributes(&shown.attr)
    }

    /// `struct fuse_open_out`; `backing` is what the kernel reads from without asking.
    pub(in crate::fuse::kernel) fn open(
        &mut self,
        opened: &Opened,
        backing: Option<u32>,
    ) -> Result<(), Errno> {
        let mut flags = 0;
        for (flag, wanted) in [
            // With a file of its own to read the node has no pages; to say so is an error.
            (
                OpenFlags::KEEP_CACHE,
                opened.keep_cache && backing.is_none(),
            ),
            (OpenFlags::NOFLUSH, opened.no_flush),
            (OpenFlags::PASSTHROUGH, backing.is_some()),
        ] {
            flags |= if wanted { flag } else { 0 };
        }
        self.handle(opened.handle.0, OpenFlags(flags), backing)
    }

    /// `struct fuse_open_out` in its parts.
    pub(in crate::fuse::kernel) fn handle(
        &mut self,
        handle: u64,
        flags: OpenFlags,
        backing: Option<u32>,
    ) -> Result<(), Errno> {
        self.u64(handle)?;
        self.u32(flags.0)?;
        self.u32(backing.unwrap_or(0))
    }

    /// `struct fuse_write_out`, and `struct fuse_getxattr_out`: a number of bytes.
    pub(in crate::fuse::kernel) fn size(&mut self, size: u32) -> Result<(), Errno> {
        self.u32(size)?;
        self.u32(0)
    }

    /// `struct fuse_lseek_out` and `struct fuse_copy_file_range_out`.
    pub(in crate::fuse::kernel) fn offset(&mut self, offset: u64) -> Result<(), Errno> {
        self.u64(offset)
    }

    /// `struct fuse_statfs_out`.
    pub(in crate::fuse::kernel) fn statfs(&mut self, it: &StatVfs) -> Result<(), Errno> {
        for field in [it.f_blocks, it.f_bfree, it.f_bavail, it.f_files, it.f_ffree] {
            self.u64(field)?;
        }
        for (field, usual) in [(it.f_bsize, 4096), (it.f_namemax, 255), (it.f_frsize, 4096)] {
            self.u32(u32::try_from(field).unwrap_or(usual))?;
        }
        self.bytes(&[0; 28])
    }

    /// A name in a listing; returns whether there was room for it.
    pub(in crate::fuse::kernel) fn dirent(
        &mut self,
        node: u64,
        next: u64,
        kind: FileType,
        name: &[u8],
    ) -> Result<bool, Errno> {
        if self.room() < padded(name) {
            return Ok(false);
        }
        self.u64(node)?;
        self.u64(next)?;
        self.u32(u32::try_from(name.len()).map_err(|_| Errno::NAMETOOLONG)?)?;
        self.u32(kind.as_raw_mode() >> TYPE_SHIFT)?;
        self.bytes(name)?;
        let padding = padded(name) - DIRENT - name.len();
        self.bytes([0; 8].get(..padding).unwrap_or_default())?;
        Ok(true)
    }

    /// A name in a listing with the node it leads to; returns whether there was room for it.
    pub(in crate::fuse::kernel) fn dirent_plus(
        &mut self,
        named: &Named,
        next: u64,
        name: &[u8],
    ) -> Result<bool, Errno> {
        if self.room() < ENTRY + padded(name) {
            return Ok(false);
        }
        self.entry(named)?;
        let attr = &named.shown.attr;
        self.dirent(attr.node.0, next, attr.kind, name)
    }

    fn entry_head(
        &mut self,
        (node, generation): (u64, u32),
        name: Duration,
        attr: Duration,
    ) -> Result<(), Errno> {
        for field in [node, generation.into(), name.as_secs(), attr.as_secs()] {
            self.u64(field)?;
        }
        self.u32(name.subsec_nanos())?;
        self.u32(attr.subsec_nanos())
    }

    /// `struct fuse_attr`.
    fn attributes(&mut self, attr: &Attr) -> Result<(), Errno> {
        const SECOND: i64 = 1_000_000_000;
        let times = [attr.atime, attr.mtime, attr.ctime];
        for field in [attr.node.0, attr.size, attr.blocks] {
            self.u64(field)?;
        }
        for time in times {
            self.u64(time.div_euclid(SECOND).cast_unsigned())?;
        }
        for time in times {
            self.u32(u32::try_from(time.rem_euclid(SECOND)).unwrap_or(0))?;
        }
        let links = u32::try_from(attr.nlink).unwrap_or(u32::MAX);
        let device = u32::try_from(attr.rdev).unwrap_or(0);
        let mode = attr.kind.as_raw_mode() | (attr.mode & 0o7777);
        for field in [mode, links, attr.uid, attr.gid, device, BLOCK, 0] {
            self.u32(field)?;
        }
        Ok(())
    }

    fn u32(&mut self, value: u32) -> Result<(), Errno> {
        self.bytes(&value.to_ne_bytes())
    }

    fn u64(&mut self, value: u64) -> Result<(), Errno> {
        self.bytes(&value.to_ne_bytes())
    }
}

/// Bytes of a name in a listing: what follows starts at a multiple of eight.
const fn padded(name: &[u8]) -> usize {
    (DIRENT + name.len()).next_multiple_of(8)
}

/// `st_blksize`.
const BLOCK: u32 = 4096;
