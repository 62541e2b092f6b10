//! The system calls that change the host's tree, each announced before it is made.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use aegis_policies::RelPath;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, chmodat, fchmod, fsync, linkat, mkdirat,
    openat, renameat_with, statat, symlinkat, syncfs, unlinkat,
};
use rustix::io::Errno;

use super::super::beneath::{Place, Tree, magic_link};
use super::super::error::{CommitError, Doing as _};
use super::super::landing::{Hook, Landing};
use super::super::site::Site;
use super::step::Step;

/// What a landing stands on.
pub(crate) struct Floor<'a> {
    pub(crate) site: Site<'a>,
    pub(crate) landing: &'a Landing,
    pub(crate) hook: Hook<'a>,
}

/// A name in an open directory.
pub(crate) type Spot<'a> = (BorrowedFd<'a>, &'a [u8]);

impl Place {
    pub(crate) fn spot(&self) -> Spot<'_> {
        (self.parent.as_fd(), &self.name)
    }

    /// The inode that has the name now.
    pub(crate) fn inode(&self) -> io::Result<Option<u64>> {
        match statat(
            &self.parent,
            self.name.as_slice(),
            AtFlags::SYMLINK_NOFOLLOW,
        ) {
            Ok(stat) => Ok(Some(stat.st_ino)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl<'a> Floor<'a> {
    pub(crate) const fn tree(&self) -> Tree<'a> {
        self.site.tree()
    }

    /// The place of a step's own name.
    pub(crate) fn place(&self, step: &Step) -> io::Result<Place> {
        self.tree().place(&step.path)
    }

    /// The place of a step's temporary name.
    pub(crate) fn temporary(&self, index: usize, step: &Step) -> io::Result<Place> {
        let name = format!(".aegis-{}-{index}", self.landing.id()).into_bytes();
        Ok(Place {
            parent: self.tree().directory(&step.shelter)?,
            name,
        })
    }

    /// The place of a name of the host's.
    pub(crate) fn place_of(&self, path: &RelPath) -> io::Result<Place> {
        self.tree().place(path)
    }

    /// Renames without replacing anything.
    pub(crate) fn rename(&self, from: Spot<'_>, to: Spot<'_>) -> io::Result<()> {
        (self.hook)("rename");
        Ok(renameat_with(
            from.0,
            from.1,
            to.0,
            to.1,
            RenameFlags::NOREPLACE,
        )?)
    }

    /// Exchanges two names in one step.
    pub(crate) fn exchange(&self, one: Spot<'_>, other: Spot<'_>) -> io::Result<()> {
        (self.hook)("exchange");
        Ok(renameat_with(
            one.0,
            one.1,
            other.0,
            other.1,
            RenameFlags::EXCHANGE,
        )?)
    }

    /// Removes a name that is not a directory's; a missing one is fine.
    pub(crate) fn unlink(&self, spot: Spot<'_>) -> io::Result<()> {
        (self.hook)("unlink");
        match unlinkat(spot.0, spot.1, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Removes an empty directory.
    pub(crate) fn remove_directory(&self, spot: Spot<'_>) -> io::Result<()> {
        (self.hook)("rmdir");
        Ok(unlinkat(spot.0, spot.1, AtFlags::REMOVEDIR)?)
    }

    /// Makes a directory that only its owner may enter; whether it is new.
    pub(crate) fn make_directory(&self, spot: Spot<'_>) -> io::Result<bool> {
        (self.hook)("mkdir");
        match mkdirat(spot.0, spot.1, Mode::RWXU) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) if is_directory(spot)? => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Gives a directory that was just made its permission bits.
    pub(crate) fn open_up(&self, spot: Spot<'_>, mode: u32) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(spot.0, spot.1, flags, Mode::empty())?;
        self.chmod(&directory, mode | inherited(&directory)?)
    }

    /// Makes an empty file that only we may read.
    pub(crate) fn create(&self, spot: Spot<'_>) -> io::Result<OwnedFd> {
        (self.hook)("create");
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(spot.0, spot.1, flags, Mode::RUSR | Mode::WUSR)?)
    }

    /// Makes a symbolic link.
    pub(crate) fn symlink(&self, target: &[u8], spot: Spot<'_>) -> io::Result<()> {
        (self.hook)("symlink");
        Ok(symlinkat(target, spot.0, spot.1)?)
    }

    /// Makes a hard link.
    pub(crate) fn link(&self, from: Spot<'_>, to: Spot<'_>) -> io::Result<()> {
        (self.hook)("link");
        Ok(linkat(from.0, from.1, to.0, to.1, AtFlags::empty())?)
    }

    /// Sets permission bits.
    pub(crate) fn chmod(&self, file: &OwnedFd, mode: u32) -> io::Result<()> {
        (self.hook)("chmod");
        Ok(fchmod(file, Mode::from_raw_mode(mode))?)
    }

    /// Sets permission bits of what its owner may not read.
    pub(crate) fn chmod_closed(&self, passage: &OwnedFd, mode: u32) -> io::Result<()> {
        (self.hook)("chmod");
        let mode = Mode::from_raw_mode(mode);
        Ok(chmodat(CWD, magic_link(passage), mode, AtFlags::empty())?)
    }

    /// Forces a file or directory to the disk.
    pub(crate) fn sync(&self, file: &OwnedFd) -> io::Result<()> {
        (self.hook)("fsync");
        Ok(fsync(file)?)
    }
}

impl Floor<'_> {
    /// Forces the project's whole file system to the disk.
    pub(crate) fn sync_all(&self) -> Result<(), CommitError> {
        (self.hook)("syncfs");
        syncfs(self.tree().root())
            .map_err(io::Error::from)
            .doing("sync", &"the project")
    }
}

fn is_directory(spot: Spot<'_>) -> io::Result<bool> {
    let stat = statat(spot.0, spot.1, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// The set-group bit that a directory got from the one above it.
pub(crate) fn inherited(directory: &OwnedFd) -> io::Result<u32> {
    Ok(rustix::fs::fstat(directory)?.st_mode & 0o2000)
}
