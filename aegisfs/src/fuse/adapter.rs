//! One method per request: unwrap it, ask the guard, wrap the answer.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use aegis_policies::journal::{NodeId, NodeKind};
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{FileType, OFlags, SeekFrom};

use super::convert::{absent, access, attributes, file_type, node, set_time, trust};
use super::reply::{GENERATION, reply_bytes, reply_empty, reply_entry};
use crate::guard::Guard;
use crate::overlay::{
    Caller, DirEntry, Durable, Entry, HandleId, Lookup, New, Opened, OverlayError, RenameMode,
    SetAttr, XattrMode,
};

/// Bytes in one write, and so the most that one request carries; the kernel's own limit is as high
/// (`fs.fuse.max_pages_limit`, 256 pages).
const MOST_WRITTEN: u32 = 1 << 20;
/// Read-ahead and other requests that the kernel may have under way at once.
const BACKGROUND: u16 = 64;
/// O_EXCL of open(2).
const EXCLUSIVE: i32 = OFlags::EXCL.bits().cast_signed();

/// The guard in the kernel's terms.
#[derive(Debug)]
pub(super) struct Adapter {
    guard: Arc<Guard>,
    root: NodeId,
}

impl Adapter {
    pub(super) fn new(guard: Arc<Guard>) -> Self {
        let root = guard.overlay().root();
        Self { guard, root }
    }

    /// Does the work of a request.
    fn answer<T>(&self, work: impl FnOnce(&Guard) -> Result<T, OverlayError>) -> Result<T, Errno> {
        guarded(|| work(&self.guard))
    }

    fn node(&self, ino: INodeNo) -> NodeId {
        node(ino, self.root)
    }

    fn make(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        kind: NodeKind,
        mode: u32,
        reply: ReplyEntry,
    ) {
        let new = New {
            kind,
            mode: mode & 0o7777,
            uid: request.uid(),
            gid: request.gid(),
        };
        let parent = self.node(parent);
        let made = self.answer(|guard| guard.create(request.pid(), parent, name.as_bytes(), new));
        reply_entry(made, reply);
    }

    /// The listing from `offset` on, with the offsets of what follows each name.
    fn listing(&self, handle: FileHandle, offset: u64) -> Result<Listing, Errno> {
        let entries = self.answer(|guard| guard.readdir(HandleId(handle.0), offset))?;
        Ok(Listing {
            entries,
            next: usize::try_from(offset).unwrap_or(usize::MAX),
        })
    }
}

/// What is left of a listing.
struct Listing {
    entries: Arc<[DirEntry]>,
    next: usize,
}

impl Listing {
    fn entries(&self) -> impl Iterator<Item = (u64, &DirEntry)> {
        let numbered = self.entries.iter().enumerate().skip(self.next);
        numbered.map(|(index, entry)| (index as u64 + 1, entry))
    }
}

impl Filesystem for Adapter {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_READDIRPLUS_AUTO
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_AUTO_INVAL_DATA
            // Without it the kernel asks for `security.capability` before every write.
            | InitFlags::FUSE_HANDLE_KILLPRIV_V2
            | InitFlags::FUSE_CACHE_SYMLINKS;
        let offered = config.capabilities();
        // An old kernel lacks some; each of them only saves requests.
        let _ = config.add_capabilities(wanted & offered);
        let _ = config.set_max_write(MOST_WRITTEN);
        let _ = config.set_max_background(BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let parent = self.node(parent);
        match self.answer(|guard| guard.lookup(parent, name.as_bytes())) {
            Ok(Lookup::Found(entry)) => reply_entry(Ok(entry), reply),
            Ok(Lookup::Missing { follows_host }) => {
                reply.entry(&trust(follows_host), &absent(), GENERATION);
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn forget(&self, _request: &Request, ino: INodeNo, count: u64) {
        let node = self.node(ino);
        let _ = self.answer(|guard| {
            guard.forget(node, count);
            Ok(())
        });
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let node = self.node(ino);
        match self.answer(|guard| guard.getattr(node)) {
            Ok(attr) => reply.attr(&trust(attr.follows_host), &attributes(&attr)),
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let node = self.node(ino);
        let mode = mode.map(|mode| mode & 0o7777);
        let (atime, mtime) = (atime.map(set_time), mtime.map(set_time));
        // fuser 0.18 does not pass FATTR_KILL_SUIDGID on; root alone is sure to have CAP_FSETID.
        let caller = if request.uid() == 0 {
            Caller::Trusted
        } else {
            Caller::Ordinary
        };
        let set = SetAttr {
            mode,
            uid,
            gid,
            size,
            atime,
            mtime,
            caller,
        };
        match self.answer(|guard| guard.setattr(request.pid(), node, set)) {
            Ok(attr) => reply.attr(&trust(attr.follows_host), &attributes(&attr)),
            Err(errno) => reply.error(errno),
        }
    }

    fn readlink(&self, _request: &Request, ino: INodeNo, reply: ReplyData) {
        let node = self.node(ino);
        match self.answer(|guard| guard.readlink(node)) {
            Ok(target) => reply.data(&target),
            Err(errno) => reply.error(errno),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        let kind = match FileType::from_raw_mode(mode) {
            FileType::RegularFile => NodeKind::File,
            FileType::Fifo => NodeKind::Fifo,
            FileType::Socket => NodeKind::Socket,
            _ => return reply.error(Errno::EPERM),
        };
        self.make(request, parent, name, kind, mode, reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        self.make(request, parent, name, NodeKind::Directory, mode, reply);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let target = target.as_os_str().as_bytes().to_vec();
        self.make(
            request,
            parent,
            name,
            NodeKind::Symlink(target),
            0o777,
            reply,
        );
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let parent = self.node(parent);
        let done = self.answer(|guard| guard.unlink(request.pid(), parent, name.as_bytes()));
        reply_empty(done, reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let parent = self.node(parent);
        let done = self.answer(|guard| guard.rmdir(request.pid(), parent, name.as_bytes()));
        reply_empty(done, reply);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mode = match flags {
            flags if flags.is_empty() => RenameMode::Replace,
            RenameFlags::RENAME_NOREPLACE => RenameMode::NoReplace,
            RenameFlags::RENAME_EXCHANGE => RenameMode::Exchange,
            _ => return reply.error(Errno::EINVAL),
        };
        let from = (self.node(parent), name.as_bytes());
        let to = (self.node(new_parent), new_name.as_bytes());
        reply_empty(
            self.answer(|guard| guard.rename(request.pid(), from, to, mode)),
            reply,
        );
    }

    fn link(
        &self,
        request: &Request,
        ino: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        let (node, parent) = (self.node(ino), self.node(new_parent));
        let name = new_name.as_bytes();
        reply_entry(
            self.answer(|guard| guard.link(request.pid(), node, parent, name)),
            reply,
        );
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let node = self.node(ino);
        match self.answer(|guard| guard.open(request.pid(), node, access(flags))) {
            Ok(opened) => reply.opened(FileHandle(opened.handle.0), open_flags(opened)),
            Err(errno) => reply.error(errno),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let parent = self.node(parent);
        let (uid, gid) = (request.uid(), request.gid());
        let new = New {
            kind: NodeKind::File,
            mode: mode & 0o7777,
            uid,
            gid,
        };
        let access = access(OpenFlags(flags));
        let made = self
            .answer(|guard| guard.create_open(request.pid(), parent, name.as_bytes(), new, access));
        match made {
            Ok((entry, opened)) => reply.created(
                &trust(entry.follows_host),
                &attributes(&entry.attr),
                GENERATION,
                FileHandle(opened.handle.0),
                open_flags(opened),
            ),
            // The host made the name after the kernel looked: it looks again, and opens what is there.
            Err(errno) if errno.code() == Errno::EEXIST.code() && flags & EXCLUSIVE == 0 => {
                reply.error(Errno::ESTALE);
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.answer(|guard| guard.read(HandleId(handle.0), offset, size as usize)) {
            Ok(bytes) => reply.data(&bytes),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        _open_flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let kills = flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let caller = if kills {
            Caller::Ordinary
        } else {
            Caller::Trusted
        };
        match self.answer(|guard| guard.write(HandleId(handle.0), offset, data, caller)) {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(0)),
            Err(errno) => reply.error(errno),
        }
    }

    fn flush(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn release(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let released = self.answer(|guard| {
            guard.release(HandleId(handle.0));
            Ok(())
        });
        reply_empty(released, reply);
    }

    fn fsync(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        let what = if datasync {
            Durable::Data
        } else {
            Durable::Everything
        };
        reply_empty(
            self.answer(|guard| guard.sync(HandleId(handle.0), what)),
            reply,
        );
    }

    fn opendir(&self, _request: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let node = self.node(ino);
        match self.answer(|guard| guard.opendir(node)) {
            Ok(handle) => reply.opened(FileHandle(handle.0), FopenFlags::empty()),
            Err(errno) => reply.error(errno),
        }
    }

    fn readdir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        match self.listing(handle, offset) {
            Ok(listing) => {
                for (next, entry) in listing.entries() {
                    let name = OsStr::from_bytes(&entry.name);
                    if reply.add(INodeNo(entry.node.0), next, file_type(entry.kind), name) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn readdirplus(
        &self,
        _request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let listing = match self.listing(handle, offset) {
            Ok(listing) => listing,
            Err(errno) => return reply.error(errno),
        };
        let folder = self.node(ino);
        for (next, entry) in listing.entries() {
            let dot = matches!(&*entry.name, b"." | b"..");
            let found = self.answer(|guard| match dot {
                // The kernel takes neither the node nor a reference from these two.
                true => Ok(Some(Entry {
                    attr: guard.getattr(folder)?,
                    follows_host: true,
                })),
                false => match guard.lookup(folder, &entry.name)? {
                    Lookup::Found(entry) => Ok(Some(entry)),
                    Lookup::Missing { .. } => Ok(None),
                },
            });
            // A name that is gone since the listing was taken is left out.
            let Ok(Some(found)) = found else { continue };
            let mut attr = attributes(&found.attr);
            if dot {
                attr.ino = INodeNo(entry.node.0);
            }
            let trust = trust(found.follows_host || found.attr.follows_host);
            let name = OsStr::from_bytes(&entry.name);
            if reply.add(attr.ino, next, name, &trust, &attr, GENERATION) {
                if !dot {
                    self.guard.forget(found.attr.node, 1);
                }
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.guard.releasedir(HandleId(handle.0));
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        reply_empty(self.answer(Guard::sync_records), reply);
    }

    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        match self.answer(Guard::statvfs) {
            Ok(it) => reply.statfs(
                it.f_blocks,
                it.f_bfree,
                it.f_bavail,
                it.f_files,
                it.f_ffree,
                u32::try_from(it.f_bsize).unwrap_or(4096),
                u32::try_from(it.f_namemax).unwrap_or(255),
                u32::try_from(it.f_frsize).unwrap_or(4096),
            ),
            Err(errno) => reply.error(errno),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        // XATTR_CREATE and XATTR_REPLACE of setxattr(2).
        let mode = match flags {
            1 => XattrMode::Create,
            2 => XattrMode::Replace,
            _ => XattrMode::Any,
        };
        let (node, name) = (self.node(ino), name.as_bytes());
        let done = self.answer(|guard| guard.set_xattr(request.pid(), node, name, value, mode));
        reply_empty(done, reply);
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let node = self.node(ino);
        reply_bytes(
            self.answer(|guard| guard.xattr(node, name.as_bytes())),
            size,
            reply,
        );
    }

    fn listxattr(&self, _request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let node = self.node(ino);
        let list = self.answer(|guard| {
            let names = guard.xattrs(node)?;
            Ok(names
                .into_iter()
                .flat_map(|name| [name, vec![0]].concat())
                .collect())
        });
        reply_bytes(list, size, reply);
    }

    fn removexattr(&self, request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (node, name) = (self.node(ino), name.as_bytes());
        reply_empty(
            self.answer(|guard| guard.remove_xattr(request.pid(), node, name)),
            reply,
        );
    }

    fn fallocate(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = mode.cast_unsigned();
        let handle = HandleId(handle.0);
        reply_empty(
            self.answer(|guard| guard.allocate(handle, mode, offset, length)),
            reply,
        );
    }

    fn lseek(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        // SEEK_DATA and SEEK_HOLE of lseek(2); the kernel does the others itself.
        let position = match (whence, u64::try_from(offset)) {
            (3, Ok(offset)) => SeekFrom::Data(offset),
            (4, Ok(offset)) => SeekFrom::Hole(offset),
            _ => return reply.error(Errno::EINVAL),
        };
        match self.answer(|guard| guard.seek(HandleId(handle.0), position)) {
            Ok(found) => reply.offset(i64::try_from(found).unwrap_or(i64::MAX)),
            Err(errno) => reply.error(errno),
        }
    }

    fn copy_file_range(
        &self,
        _request: &Request,
        _from: INodeNo,
        from_handle: FileHandle,
        from_offset: u64,
        _to: INodeNo,
        to_handle: FileHandle,
        to_offset: u64,
        length: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let from = (HandleId(from_handle.0), from_offset);
        let to = (HandleId(to_handle.0), to_offset);
        let length = usize::try_from(length)
            .unwrap_or(usize::MAX)
            .min(i32::MAX as usize);
        match self.answer(|guard| guard.copy_range(from, to, length)) {
            Ok(copied) => reply.written(u32::try_from(copied).unwrap_or(0)),
            Err(errno) => reply.error(errno),
        }
    }
}

/// A fault of ours is an error of one request and nothing more: a server that died of it would hang
/// the agent for ever.
fn guarded<T>(work: impl FnOnce() -> Result<T, OverlayError>) -> Result<T, Errno> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(Errno::from_i32(error.errno().raw_os_error())),
        Err(_) => Err(Errno::EIO),
    }
}

fn open_flags(opened: Opened) -> FopenFlags {
    // Writes have reached the content file when write(2) returns: there is nothing to flush.
    let flags = FopenFlags::FOPEN_NOFLUSH;
    if opened.keep_cache {
        flags | FopenFlags::FOPEN_KEEP_CACHE
    } else {
        flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_an_error_of_that_request_alone() {
        let fault: Result<(), Errno> = guarded(|| panic!("a fault of ours"));
        assert_eq!(fault.unwrap_err().code(), Errno::EIO.code());
        assert!(guarded(|| Ok(())).is_ok());
    }
}
