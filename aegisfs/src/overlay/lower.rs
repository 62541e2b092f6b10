//! The host's tree. It can only be read: nothing here takes a flag or has a method that writes.
//!
//! Every name is opened beneath the project's directory descriptor and no symbolic link is ever
//! followed (openat2(2)), so a name that the host swaps while we look can not lead outside. Mounts
//! inside the project are crossed, because a `node_modules` on a volume of its own is part of the
//! project that the person sees.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aegis_policies::RelPath;
use aegis_policies::journal::{Baseline, LowerFile, NodeKind};
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, StatVfs, StatxFlags, fstat, fstatvfs,
    lgetxattr, llistxattr, openat2, readlinkat, statx,
};
use rustix::io::Errno;

use super::acl::ACCESS;
use super::attr::Stat;
use super::relocations::Relocations;

/// How long a directory descriptor is trusted to be what its path names: as long as the kernel
/// trusts an answer that nobody would take back.
const TRUST: Duration = Duration::from_secs(1);
/// Descriptors kept; far below the usual soft limit of 1024.
const KEPT: usize = 256;
const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

/// The project's real tree.
#[derive(Debug)]
pub(crate) struct LowerRoot {
    root: Arc<LowerFolder>,
    relocations: Relocations,
    folders: Mutex<HashMap<RelPath, (Arc<LowerFolder>, Instant)>>,
    acl: bool,
}

/// A directory of the host.
#[derive(Debug)]
pub(crate) struct LowerFolder {
    descriptor: OwnedFd,
    /// Its device and inode number.
    pub(crate) identity: (u64, u64),
}

/// One name in a directory of the host.
#[derive(Debug)]
pub(crate) struct LowerEntry {
    pub(crate) name: Box<[u8]>,
    pub(crate) ino: u64,
    pub(crate) kind: FileType,
}

impl LowerRoot {
    /// The tree at `root`, of which landings have moved parts.
    ///
    /// # Errors
    /// ENOTDIR when `root` is not a directory.
    pub(crate) fn new(root: OwnedFd, relocations: Relocations) -> Result<Self, Errno> {
        let stat = Stat::from(fstat(&root)?);
        if stat.kind != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        let mut lower = Self {
            root: Arc::new(LowerFolder {
                descriptor: root,
                identity: (stat.dev, stat.ino),
            }),
            relocations,
            folders: Mutex::default(),
            acl: false,
        };
        let list = lower.xattr(&RelPath::root(), ACCESS);
        lower.acl = matches!(list, Ok(_) | Err(Errno::NODATA));
        Ok(lower)
    }

    /// `st_dev` of the project's directory.
    pub(crate) fn device(&self) -> u64 {
        self.root.identity.0
    }

    /// `st_ino` of the project's directory.
    pub(crate) fn inode(&self) -> u64 {
        self.root.identity.1
    }

    /// The project's directory.
    pub(crate) fn top(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Attributes of a name; a symbolic link is not followed.
    pub(crate) fn stat(&self, path: &RelPath) -> Result<Stat, Errno> {
        let path = self.relocations.locate(path);
        let Some((folder, name)) = path.split_last() else {
            return self.root.stat();
        };
        self.folder(&folder)?.stat_name(name)
    }

    /// The directory that is at `path` now. One that was seen there before will do when it is the
    /// inode that is wanted.
    pub(crate) fn folder_at(
        &self,
        path: &RelPath,
        wanted: Option<(u64, u64)>,
    ) -> Result<Arc<LowerFolder>, Errno> {
        let path = self.relocations.locate(path);
        let known = self.folders().get(&*path).map(|it| Arc::clone(&it.0));
        match known {
            Some(folder) if wanted == Some(folder.identity) => Ok(folder),
            Some(_) if wanted.is_some() => self.open_folder(&path),
            _ => self.folder(&path),
        }
    }

    /// The directory `name` of `above`, which is at `path` in all.
    pub(crate) fn folder_in(
        &self,
        above: &LowerFolder,
        path: &RelPath,
    ) -> Result<Arc<LowerFolder>, Errno> {
        let (_, name) = path.split_last().ok_or(Errno::INVAL)?;
        let folder = LowerFolder::open(&above.descriptor, name)?;
        Ok(self.keep_folder(&self.relocations.locate(path), folder))
    }

    /// Whether what the host has as `path` lies in the directory where the name says: no landing
    /// has moved it alone.
    pub(crate) fn is_in_place(&self, path: &RelPath) -> bool {
        if self.relocations.is_empty() {
            return true;
        }
        let (Some((folder, name)), located) = (path.split_last(), self.relocations.locate(path))
        else {
            return true;
        };
        let folder = self.relocations.locate(&folder);
        folder.join(name).is_ok_and(|expected| expected == *located)
    }

    /// Trusts no descriptor any longer: the host has moved or removed directories.
    pub(crate) fn forget_folders(&self) {
        self.folders().clear();
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// ESTALE when the name is anything but a regular file.
    pub(crate) fn open(&self, path: &RelPath) -> Result<File, Errno> {
        // A pipe that the host put there meanwhile must not block us.
        let file = File::from(self.open_with(path, OFlags::RDONLY | OFlags::NONBLOCK)?);
        if Stat::from(fstat(&file)?).kind != FileType::RegularFile {
            return Err(Errno::STALE);
        }
        Ok(file)
    }

    /// The names in a directory, without `.` and `..`.
    pub(crate) fn list(&self, path: &RelPath) -> Result<Vec<LowerEntry>, Errno> {
        let folder = self.open_with(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut entries = Vec::new();
        for entry in Dir::new(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                let (ino, mut kind) = (entry.ino(), entry.file_type());
                if kind == FileType::Unknown {
                    kind = path
                        .join(name)
                        .map_or(kind, |path| self.stat(&path).map_or(kind, |stat| stat.kind));
                }
                entries.push(LowerEntry {
                    name: name.into(),
                    ino,
                    kind,
                });
            }
        }
        Ok(entries)
    }

    /// The target of a symbolic link.
    pub(crate) fn readlink(&self, path: &RelPath) -> Result<Vec<u8>, Errno> {
        let path = self.relocations.locate(path);
        let (folder, name) = path.split_last().ok_or(Errno::INVAL)?;
        let folder = self.folder(&folder)?;
        Ok(readlinkat(&folder.descriptor, name, Vec::new())?.into_bytes())
    }

    /// The value of an extended attribute of any node.
    pub(crate) fn xattr(&self, path: &RelPath, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let (_folder, node) = self.named(path)?;
        read_whole(|buffer| lgetxattr(&node, name, buffer))
    }

    /// The names of the extended attributes of any node.
    pub(crate) fn xattrs(&self, path: &RelPath) -> Result<Vec<Vec<u8>>, Errno> {
        let (_folder, node) = self.named(path)?;
        let list = read_whole(|buffer| llistxattr(&node, buffer))?;
        let names = list
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty());
        Ok(names.map(<[u8]>::to_vec).collect())
    }

    /// Whether the project's file system keeps access control lists.
    pub(crate) const fn has_acl(&self) -> bool {
        self.acl
    }

    /// Space and inodes of the project's file system.
    pub(crate) fn statvfs(&self) -> Result<StatVfs, Errno> {
        fstatvfs(&self.root.descriptor)
    }

    /// Where a node is and what it is now, for the record of its first touch. The content is not
    /// read.
    ///
    /// # Errors
    /// EPERM for a type that stat(2) does not know.
    pub(crate) fn describe(
        &self,
        path: &RelPath,
        stat: &Stat,
    ) -> Result<(LowerFile, Baseline), Errno> {
        let kind = match stat.kind {
            FileType::RegularFile => NodeKind::File,
            FileType::Directory => NodeKind::Directory,
            FileType::Symlink => NodeKind::Symlink(self.readlink(path)?),
            FileType::Fifo => NodeKind::Fifo,
            FileType::Socket => NodeKind::Socket,
            FileType::CharacterDevice => NodeKind::Character(stat.rdev),
            FileType::BlockDevice => NodeKind::Block(stat.rdev),
            FileType::Unknown => return Err(Errno::PERM),
        };
        let lower = LowerFile {
            path: path.clone(),
            dev: stat.dev,
            ino: stat.ino,
            links: stat.nlink,
        };
        Ok((lower, stat.baseline(kind)))
    }

    fn open_with(&self, path: &RelPath, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
        let path = self.relocations.locate(path);
        let Some((folder, name)) = path.split_last() else {
            return openat2(&self.root.descriptor, ".", flags, Mode::empty(), BENEATH);
        };
        let folder = self.folder(&folder)?;
        openat2(&folder.descriptor, name, flags, Mode::empty(), BENEATH)
    }

    /// A path by which the kernel finds a node without following it: the name in the directory that
    /// the descriptor beside it holds. Unlike opening it, this needs no right to read it.
    fn named(&self, path: &RelPath) -> Result<(Arc<LowerFolder>, Vec<u8>), Errno> {
        let path = self.relocations.locate(path);
        let (folder, name) = match path.split_last() {
            Some((folder, name)) => (self.folder(&folder)?, name.to_vec()),
            None => (Arc::clone(&self.root), b".".to_vec()),
        };
        let mut node = format!("/proc/self/fd/{}/", folder.descriptor.as_raw_fd()).into_bytes();
        node.extend(name);
        Ok((folder, node))
    }

    /// The directory that is at `path` now, good for looking up one name in it.
    fn folder(&self, path: &RelPath) -> Result<Arc<LowerFolder>, Errno> {
        if path.is_root() {
            return Ok(Arc::clone(&self.root));
        }
        if let Some((folder, since)) = self.folders().get(path)
            && since.elapsed() < TRUST
        {
            return Ok(Arc::clone(folder));
        }
        self.open_folder(path)
    }

    fn open_folder(&self, path: &RelPath) -> Result<Arc<LowerFolder>, Errno> {
        if path.is_root() {
            return Ok(Arc::clone(&self.root));
        }
        let folder = LowerFolder::open(&self.root.descriptor, path.as_bytes())?;
        Ok(self.keep_folder(path, folder))
    }

    fn keep_folder(&self, path: &RelPath, folder: LowerFolder) -> Arc<LowerFolder> {
        let folder = Arc::new(folder);
        let mut folders = self.folders();
        if folders.len() >= KEPT {
            folders.retain(|_, (_, since)| since.elapsed() < TRUST);
        }
        if folders.len() >= KEPT {
            folders.clear();
        }
        folders.insert(path.clone(), (Arc::clone(&folder), Instant::now()));
        folder
    }

    fn folders(&self) -> MutexGuard<'_, HashMap<RelPath, (Arc<LowerFolder>, Instant)>> {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LowerFolder {
    /// Attributes of the directory.
    pub(crate) fn stat(&self) -> Result<Stat, Errno> {
        Ok(fstat(&self.descriptor)?.into())
    }

    /// Attributes of a name in it; a symbolic link is not followed.
    pub(crate) fn stat_name(&self, name: &[u8]) -> Result<Stat, Errno> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        Ok(statx(&self.descriptor, name, flags, wanted)?.into())
    }

    fn open(above: &OwnedFd, path: &[u8]) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = openat2(above, path, flags, Mode::empty(), BENEATH)?;
        let stat = Stat::from(fstat(&descriptor)?);
        Ok(Self {
            descriptor,
            identity: (stat.dev, stat.ino),
        })
    }
}

impl AsFd for LowerFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// What a call puts into a buffer, which is small when that is enough.
fn read_whole(read: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    for room in [256, XATTR_MOST] {
        let mut buffer = vec![0; room];
        match read(&mut buffer) {
            Err(Errno::RANGE) => {}
            length => {
                buffer.truncate(length?);
                return Ok(buffer);
            }
        }
    }
    Err(Errno::TOOBIG)
}

/// The most that Linux allows for a value and for a list (XATTR_SIZE_MAX, XATTR_LIST_MAX).
const XATTR_MOST: usize = 65536;
