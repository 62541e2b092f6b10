//! Looking at the host's tree, always beneath a directory descriptor and never through a link.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use aegis_policies::RelPath;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, readlinkat,
    statat,
};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::state::{DIRECTORY_BITS, Digest, Observed, State};

/// The host's project, by descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree<'a>(BorrowedFd<'a>);

/// A parent directory and the last component of a path below it.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) parent: OwnedFd,
    pub(crate) name: Vec<u8>,
}

impl<'a> Tree<'a> {
    pub(crate) const fn new(root: BorrowedFd<'a>) -> Self {
        Self(root)
    }

    pub(crate) const fn root(&self) -> BorrowedFd<'a> {
        self.0
    }

    /// Opens a directory; a link anywhere in the path, or a mount point, is an error.
    pub(crate) fn directory(&self, path: &RelPath) -> io::Result<OwnedFd> {
        self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Opens a directory that may not be readable, for its mode and its names only.
    pub(crate) fn passage(&self, path: &RelPath) -> io::Result<OwnedFd> {
        self.open(path, OFlags::PATH | OFlags::DIRECTORY)
    }

    /// The place of `path`; the root has none.
    pub(crate) fn place(&self, path: &RelPath) -> io::Result<Place> {
        let (parent, name) = path.split_last().ok_or(Errno::INVAL)?;
        Ok(Place {
            parent: self.directory(&parent)?,
            name: name.to_vec(),
        })
    }

    /// Opens a regular file for reading.
    pub(crate) fn file(&self, path: &RelPath) -> io::Result<OwnedFd> {
        // O_NONBLOCK: a pipe put there by someone else must not hold us.
        let file = self.open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        require_regular(file)
    }

    /// What the host has at `path` now. A missing parent is the same as a missing name.
    pub(crate) fn observe(&self, path: &RelPath) -> io::Result<Observed> {
        if path.is_root() {
            let stat = fstat(self.0)?;
            let mode = stat.st_mode & DIRECTORY_BITS;
            return Ok(Observed {
                state: State::Directory { mode },
                stat: Some(stat),
            });
        }
        match self.place(path) {
            Ok(place) => place.observe(),
            Err(error) if is_absence(&error) => Ok(Observed::ABSENT),
            Err(error) => Err(error),
        }
    }

    /// The names in a directory; empty when there is no such directory.
    pub(crate) fn names(&self, path: &RelPath) -> io::Result<Vec<Vec<u8>>> {
        match self.directory(path) {
            Ok(directory) => names(directory.as_fd()),
            Err(error) if is_absence(&error) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// The text of the link that the host has at `path`, if it has one there.
    pub(crate) fn link(&self, path: &RelPath) -> Option<Vec<u8>> {
        let Place { parent, name } = self.place(path).ok()?;
        let text = readlinkat(&parent, name.as_slice(), Vec::new()).ok()?;
        Some(text.into_bytes())
    }

    /// The names of the links in a directory; none when it can not be listed.
    pub(crate) fn links(&self, path: &RelPath) -> Vec<Vec<u8>> {
        let entries = self.directory(path).and_then(|it| Ok(Dir::read_from(&it)?));
        let entries = entries.into_iter().flatten().flatten();
        entries
            .filter(|entry| matches!(entry.file_type(), FileType::Symlink | FileType::Unknown))
            .map(|entry| entry.file_name().to_bytes().to_vec())
            .collect()
    }

    /// Whether the text of a link in `parent` leads out of the project through a link that the host
    /// has already.
    pub(crate) fn leaves(&self, parent: &RelPath, target: &[u8]) -> bool {
        let mut path = parent.as_path().as_os_str().as_bytes().to_vec();
        path.push(b'/');
        path.extend_from_slice(target);
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let opened = retry(|| openat2(self.0, path.as_slice(), flags, Mode::empty(), resolve));
        opened.is_err_and(|error| Errno::from_io_error(&error) == Some(Errno::XDEV))
    }

    fn open(&self, path: &RelPath, flags: OFlags) -> io::Result<OwnedFd> {
        let resolve = ResolveFlags::BENEATH
            | ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        retry(|| openat2(self.0, path.as_path(), flags, Mode::empty(), resolve))
    }
}

impl Place {
    /// What is there now.
    pub(crate) fn observe(&self) -> io::Result<Observed> {
        observe_at(self.parent.as_fd(), &self.name)
    }
}

/// What `directory` has under `name` now; the content of a regular file is hashed.
pub(crate) fn observe_at(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<Observed> {
    let stat = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(Observed::ABSENT),
        Err(errno) => return Err(errno.into()),
    };
    let state = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return observe_file(open_file_at(directory, name)?),
        FileType::Symlink => State::Symlink {
            target: readlinkat(directory, name, Vec::new())?.into_bytes(),
        },
        FileType::Directory => State::Directory {
            mode: stat.st_mode & DIRECTORY_BITS,
        },
        _ => State::Other,
    };
    Ok(Observed {
        state,
        stat: Some(stat),
    })
}

/// Opens a regular file for reading; a link or anything else is an error.
pub(crate) fn open_file_at(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<OwnedFd> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    require_regular(openat(directory, name, flags, Mode::empty())?)
}

/// The names in an open directory.
pub(crate) fn names(directory: BorrowedFd<'_>) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// The name under which the kernel shows an open file, whatever became of its own.
pub(crate) fn magic_link(file: &OwnedFd) -> String {
    use std::os::fd::AsRawFd as _;
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Opens for reading what a descriptor stands for.
pub(crate) fn reopen(file: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(openat(CWD, magic_link(file), flags, Mode::empty())?)
}

/// The SHA-256 of everything that can be read.
pub(crate) fn hash(mut from: impl Read) -> io::Result<Digest> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 128 << 10];
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return Ok(Digest::new(hasher.finalize().into()));
        }
        hasher.update(buffer.get(..read).unwrap_or_default());
    }
}

/// Whether the error says that there is nothing of that name.
pub(crate) fn is_absence(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::NOTDIR)
    )
}

fn observe_file(file: OwnedFd) -> io::Result<Observed> {
    let stat = fstat(&file)?;
    let sha256 = hash(std::fs::File::from(file))?;
    let state = State::File {
        sha256,
        mode: stat.st_mode & 0o7777,
    };
    Ok(Observed {
        state,
        stat: Some(stat),
    })
}

fn require_regular(file: OwnedFd) -> io::Result<OwnedFd> {
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(file),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        )),
    }
}

/// openat2 reports EAGAIN when a rename elsewhere raced with the walk (openat2(2)).
fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> io::Result<T> {
    for _ in 0..64 {
        match call() {
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other.map_err(io::Error::from),
        }
    }
    Err(Errno::AGAIN.into())
}
