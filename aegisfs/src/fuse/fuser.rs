//! The requests over the `fuser` crate, a second carrier that is independent of ours: it is there to be
//! asked for, and where the kernel refuses our handshake. Unwrap, ask, wrap.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

use ::fuser::{
    BsdFileFlags, Config, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek,
    ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, SessionACL, TimeOrNow, WriteFlags,
};

use super::convert::{absent, attributes, file_type, set_time};
use super::options::{BACKGROUND, Feature, Features, Options, Transport};
use super::requests::{
    Asker, Fitting, Lookup, Make, Move, Named, Opened, Requests, Shown, fitting,
};
use crate::overlay::{Caller, Durable, HandleId, SetAttr};

/// Bytes in one write, and so the most that one request carries; the kernel's own limit is as high
/// (`fs.fuse.max_pages_limit`, 256 pages).
const MOST_WRITTEN: u32 = 1 << 20;

/// The requests in fuser's terms.
#[derive(Debug)]
pub(super) struct Adapter {
    requests: Requests,
    /// Whether ENOSYS to one OPENDIR stands for all directories.
    no_opendir: bool,
}

impl Adapter {
    pub(super) const fn new(requests: Requests) -> Self {
        Self {
            requests,
            no_opendir: false,
        }
    }

    /// Whether a change by this caller keeps the set-group-id bit of a node. fuser 0.18 does not pass
    /// FUSE_SETXATTR_ACL_KILL_SGID on, and of the groups of a caller only the first is known here.
    fn keeps_group(&self, asker: Asker, ino: INodeNo) -> Caller {
        let own = |shown: Shown| shown.attr.gid == asker.gid;
        let keeps = asker.uid == 0 || self.requests.getattr(ino.0).is_ok_and(own);
        asker.caller(!keeps)
    }

    /// Where there are lists, the umask is ours to apply: a directory's default list takes its place
    /// (umask(2)).
    fn acl_flags(&self) -> InitFlags {
        if self.requests.has_acl() {
            InitFlags::FUSE_POSIX_ACL | InitFlags::FUSE_DONT_MASK
        } else {
            InitFlags::empty()
        }
    }
}

/// How fuser runs; who may use the mount was settled when it was made.
pub(super) fn config(options: Options) -> Config {
    let mut config = Config::default();
    config.acl = SessionACL::All;
    config.n_threads = Some(options.threads.max(1));
    config
}

/// What is in force on this road.
pub(super) fn features(options: Options) -> Features {
    const NOT_HERE: &str = "not through fuser";
    Features {
        transport: Transport::Fuser,
        protocol: None,
        threads: options.threads.max(1),
        largest_write: MOST_WRITTEN,
        features: vec![
            Feature::off("io_uring", NOT_HERE),
            Feature::off("passthrough", NOT_HERE),
            Feature::off("writeback", NOT_HERE),
            Feature::off("nameless files (O_TMPFILE)", NOT_HERE),
        ],
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
            | InitFlags::FUSE_CACHE_SYMLINKS
            | self.acl_flags();
        let offered = config.capabilities();
        self.no_opendir = offered.contains(InitFlags::FUSE_NO_OPENDIR_SUPPORT);
        // An old kernel lacks some; each of them only saves requests.
        let _ = config.add_capabilities(wanted & offered);
        let _ = config.set_max_write(MOST_WRITTEN);
        let _ = config.set_max_background(BACKGROUND);
        Ok(())
    }

    fn destroy(&mut self) {
        self.requests.end();
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.requests.lookup(parent.0, name.as_bytes()) {
            Ok(Lookup::Found(named)) => reply_entry(Ok(named), reply),
            Ok(Lookup::Missing(lifetime)) => reply.entry(&lifetime, &absent(), Generation(0)),
            Err(errno) => reply.error(number(errno)),
        }
    }

    fn forget(&self, _request: &Request, ino: INodeNo, count: u64) {
        self.requests.forget(ino.0, count);
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply_attr(self.requests.getattr(ino.0), reply);
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
        // fuser 0.18 does not pass FATTR_KILL_SUIDGID on; root alone is sure to have CAP_FSETID.
        let asker = asker(request);
        let caller = asker.caller(asker.uid != 0);
        let set = SetAttr {
            mode,
            uid,
            gid,
            size,
            atime: atime.map(set_time),
            mtime: mtime.map(set_time),
            caller,
        };
        reply_attr(self.requests.setattr(asker, ino.0, set), reply);
    }

    fn readlink(&self, _request: &Request, ino: INodeNo, reply: ReplyData) {
        match self.requests.readlink(ino.0) {
            Ok(target) => reply.data(&target),
            Err(errno) => reply.error(number(errno)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let make = make(parent, name, mode, umask);
        let made = self.requests.mknod(asker(request), make, rdev);
        reply_entry(made, reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let make = make(parent, name, mode, umask);
        let made = self.requests.mkdir(asker(request), make);
        reply_entry(made, reply);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let target = target.as_os_str().as_bytes();
        let made = self
            .requests
            .symlink(asker(request), parent.0, name.as_bytes(), target);
        reply_entry(made, reply);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done = self
            .requests
            .unlink(asker(request), parent.0, name.as_bytes());
        reply_empty(done, reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done = self
            .requests
            .rmdir(asker(request), parent.0, name.as_bytes());
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
        let names = Move {
            from: (parent.0, name.as_bytes()),
            to: (new_parent.0, new_name.as_bytes()),
            flags: flags.bits(),
        };
        reply_empty(self.requests.rename(asker(request), names), reply);
    }

    fn link(
        &self,
        request: &Request,
        ino: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        let name = new_name.as_bytes();
        let made = self
            .requests
            .link(asker(request), ino.0, new_parent.0, name);
        reply_entry(made, reply);
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let flags = flags.0.cast_unsigned();
        match self.requests.open(asker(request), ino.0, flags) {
            Ok(opened) => reply.opened(FileHandle(opened.handle.0), open_flags(opened)),
            Err(errno) => reply.error(number(errno)),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let make = make(parent, name, mode, umask);
        match self
            .requests
            .create(asker(request), make, flags.cast_unsigned())
        {
            Ok((named, opened)) => reply.created(
                &named.lifetime,
                &attributes(&named.shown.attr),
                Generation(named.generation.into()),
                FileHandle(opened.handle.0),
                open_flags(opened),
            ),
            Err(errno) => reply.error(number(errno)),
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
        let mut bytes = vec![0; size as usize];
        match self.requests.read(HandleId(handle.0), offset, &mut bytes) {
            Ok(read) => reply.data(bytes.get(..read).unwrap_or_default()),
            Err(errno) => reply.error(number(errno)),
        }
    }

    fn write(
        &self,
        request: &Request,
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
        let caller = asker(request).caller(kills);
        match self
            .requests
            .write(HandleId(handle.0), offset, data, caller)
        {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(0)),
            Err(errno) => reply.error(number(errno)),
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
        reply_empty(self.requests.release(HandleId(handle.0)), reply);
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
        reply_empty(self.requests.fsync(HandleId(handle.0), what), reply);
    }

    fn opendir(&self, _request: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE;
        match self.requests.opendir(self.no_opendir) {
            Ok(()) => reply.opened(FileHandle(0), flags),
            Err(errno) => reply.error(number(errno)),
        }
    }

    fn readdir(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        match self.requests.readdir(ino.0, offset) {
            Ok(listing) => {
                for entry in listing.entries() {
                    let (node, name) = (INodeNo(entry.node.0), OsStr::from_bytes(&entry.name));
                    if reply.add(node, entry.next, file_type(entry.kind), name) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(errno) => reply.error(number(errno)),
        }
    }

    fn readdirplus(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let done = self.requests.readdirplus(ino.0, offset, |entry, named| {
            let attr = attributes(&named.shown.attr);
            // fuser packs one lifetime for the name and the attributes.
            let lifetime = named.lifetime.min(named.shown.lifetime);
            let generation = Generation(named.generation.into());
            let name = OsStr::from_bytes(&entry.name);
            !reply.add(attr.ino, entry.next, name, &lifetime, &attr, generation)
        });
        match done {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(number(errno)),
        }
    }

    fn releasedir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
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
        reply_empty(self.requests.fsyncdir(), reply);
    }

    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        match self.requests.statfs() {
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
            Err(errno) => reply.error(number(errno)),
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
        let asker = asker(request);
        let how = (flags.cast_unsigned(), self.keeps_group(asker, ino));
        let name = name.as_bytes();
        reply_empty(
            self.requests.setxattr(asker, ino.0, name, value, how),
            reply,
        );
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let value = self.requests.getxattr(ino.0, name.as_bytes());
        reply_fitting(value.and_then(|value| fitting(value, size)), reply);
    }

    fn listxattr(&self, _request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let names = self.requests.listxattr(ino.0);
        reply_fitting(names.and_then(|names| fitting(names, size)), reply);
    }

    fn removexattr(&self, request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done = self
            .requests
            .removexattr(asker(request), ino.0, name.as_bytes());
        reply_empty(done, reply);
    }

    fn fallocate(
        &self,
        request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let (handle, mode) = (HandleId(handle.0), mode.cast_unsigned());
        reply_empty(
            self.requests
                .fallocate(asker(request), handle, mode, offset, length),
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
        let (offset, whence) = (offset.cast_unsigned(), whence.cast_unsigned());
        match self.requests.lseek(HandleId(handle.0), offset, whence) {
            Ok(found) => reply.offset(i64::try_from(found).unwrap_or(i64::MAX)),
            Err(errno) => reply.error(number(errno)),
        }
    }

    fn copy_file_range(
        &self,
        request: &Request,
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
        match self
            .requests
            .copy_file_range(asker(request), from, to, length)
        {
            Ok(copied) => reply.written(u32::try_from(copied).unwrap_or(0)),
            Err(errno) => reply.error(number(errno)),
        }
    }
}

fn asker(request: &Request) -> Asker {
    Asker {
        pid: request.pid(),
        uid: request.uid(),
        gid: request.gid(),
    }
}

fn make(parent: INodeNo, name: &OsStr, mode: u32, umask: u32) -> Make<'_> {
    Make {
        parent: parent.0,
        name: name.as_bytes(),
        mode,
        umask,
    }
}

fn number(errno: rustix::io::Errno) -> Errno {
    Errno::from_i32(errno.raw_os_error())
}

fn reply_entry(named: Result<Named, rustix::io::Errno>, reply: ReplyEntry) {
    match named {
        Ok(named) => reply.entry_with_ttls(
            &named.shown.lifetime,
            &named.lifetime,
            &attributes(&named.shown.attr),
            Generation(named.generation.into()),
        ),
        Err(errno) => reply.error(number(errno)),
    }
}

fn reply_attr(shown: Result<Shown, rustix::io::Errno>, reply: ReplyAttr) {
    match shown {
        Ok(shown) => reply.attr(&shown.lifetime, &attributes(&shown.attr)),
        Err(errno) => reply.error(number(errno)),
    }
}

fn reply_empty(done: Result<(), rustix::io::Errno>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(number(errno)),
    }
}

fn reply_fitting(bytes: Result<Fitting, rustix::io::Errno>, reply: ReplyXattr) {
    match bytes {
        Ok(Fitting::Size(size)) => reply.size(size),
        Ok(Fitting::Bytes(bytes)) => reply.data(&bytes),
        Err(errno) => reply.error(number(errno)),
    }
}

fn open_flags(opened: Opened) -> FopenFlags {
    let mut flags = FopenFlags::empty();
    flags.set(FopenFlags::FOPEN_NOFLUSH, opened.no_flush);
    flags.set(FopenFlags::FOPEN_KEEP_CACHE, opened.keep_cache);
    flags
}
