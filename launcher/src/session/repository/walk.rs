//! Following a path through the project by hand, so that every link on the way is known.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use aegis_policies::RelPath;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, readlinkat};
use rustix::io::Errno;

use super::super::home::real_path;
use super::super::project::Project;
use super::join;

/// As many links as Linux follows in one path (path_resolution(7)).
const MOST_LINKS: usize = 40;
/// As long as a `.git` file may be for git.
const LONGEST: u64 = 1 << 20;
/// No path has more names than bytes (PATH_MAX).
const DEEPEST: usize = 4096;

/// Where a path ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// At this name of the project, which need not exist.
    Inside(RelPath),
    /// Somewhere else.
    Outside(PathBuf),
}

/// Follows paths that begin in a project.
#[derive(Debug)]
pub(super) struct Walk<'a>(&'a Project);

impl<'a> Walk<'a> {
    pub(super) const fn new(project: &'a Project) -> Self {
        Self(project)
    }

    /// Goes where `text` leads from the directory `from`; also gives the links of the project that
    /// it goes through.
    pub(super) fn go(&self, from: &RelPath, text: &[u8]) -> io::Result<(End, Vec<RelPath>)> {
        let mut links = Vec::new();
        let mut at = from.clone();
        let mut left = Vec::new();
        if let Some(end) = self.take(text, &mut at, &mut left) {
            return Ok((end?, links));
        }
        while let Some(name) = left.pop() {
            if name == b".." {
                let Some((parent, _)) = at.split_last() else {
                    let above = self.0.path().join("..").join(rest(&left));
                    return Ok((self.arrive(above)?, links));
                };
                at = parent;
                continue;
            }
            let next = at.join(&name).map_err(io::Error::other)?;
            let Some(target) = self.link(&next)? else {
                at = next;
                continue;
            };
            links.push(next);
            if links.len() > MOST_LINKS {
                return Err(Errno::LOOP.into());
            }
            if let Some(end) = self.take(&target, &mut at, &mut left) {
                return Ok((end?, links));
            }
        }
        Ok((End::Inside(at), links))
    }

    /// What is at `path`; a link is not followed.
    pub(super) fn kind(&self, path: &RelPath) -> io::Result<Option<FileType>> {
        let found = self.open(path, OFlags::PATH)?;
        found
            .map(|found| Ok(FileType::from_raw_mode(fstat(&found)?.st_mode)))
            .transpose()
    }

    /// Where the regular file `name` of `directory` is, links followed; `None` when there is none.
    pub(super) fn file_in(&self, directory: &RelPath, name: &[u8]) -> io::Result<Option<RelPath>> {
        let End::Inside(at) = self.go(directory, name)?.0 else {
            return Ok(None);
        };
        Ok((self.kind(&at)? == Some(FileType::RegularFile)).then_some(at))
    }

    /// The content of the regular file at `path`.
    pub(super) fn read(&self, path: &RelPath) -> io::Result<Vec<u8>> {
        // NONBLOCK: a pipe put there meanwhile must not hold us.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.open(path, flags)?.ok_or(Errno::NOENT)?;
        let mut text = Vec::new();
        std::fs::File::from(file)
            .take(LONGEST + 1)
            .read_to_end(&mut text)?;
        if text.len() as u64 > LONGEST {
            return Err(Errno::FBIG.into());
        }
        Ok(text)
    }

    /// Puts the names of `text` before those that are left; gives the end when it is known at once.
    fn take(
        &self,
        text: &[u8],
        at: &mut RelPath,
        left: &mut Vec<Vec<u8>>,
    ) -> Option<io::Result<End>> {
        let path = Path::new(OsStr::from_bytes(text));
        let below = match path.strip_prefix(self.0.path()) {
            Ok(below) => {
                *at = RelPath::root();
                below
            }
            Err(_) if path.is_absolute() => return Some(self.arrive(path.join(rest(left)))),
            Err(_) => path,
        };
        let names = below.as_os_str().as_bytes().split(|byte| *byte == b'/');
        let names = names.filter(|name| !matches!(*name, b"" | b"."));
        left.extend(names.rev().map(<[u8]>::to_vec));
        None
    }

    fn link(&self, path: &RelPath) -> io::Result<Option<Vec<u8>>> {
        let Some(found) = self.open(path, OFlags::PATH)? else {
            return Ok(None);
        };
        if FileType::from_raw_mode(fstat(&found)?.st_mode) != FileType::Symlink {
            return Ok(None);
        }
        Ok(Some(readlinkat(&found, c"", Vec::new())?.into_bytes()))
    }

    /// Opens a name of the project without following any link; `None` when there is nothing.
    fn open(&self, path: &RelPath, flags: OFlags) -> io::Result<Option<OwnedFd>> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match openat2(
            self.0.directory(),
            path.as_path(),
            flags,
            Mode::empty(),
            resolve,
        ) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// A path that has left the project may come back to it under another name of the project. Where
    /// it can not be opened git can not follow it either.
    fn arrive(&self, path: PathBuf) -> io::Result<End> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let Ok(found) = openat(CWD, &path, flags, Mode::empty()) else {
            return Ok(End::Outside(path));
        };
        let real = real_path(found.as_fd())?;
        let is_directory = FileType::from_raw_mode(fstat(&found)?.st_mode) == FileType::Directory;
        let (from, rest) = match real.parent() {
            Some(parent) if !is_directory => (openat(CWD, parent, flags, Mode::empty())?, 1),
            _ => (found, 0),
        };
        let Some(depth) = self.height_above(from)? else {
            return Ok(End::Outside(real));
        };
        let names: Vec<_> = real.iter().map(OsStr::as_bytes).collect();
        let below = names.len().saturating_sub(depth + rest);
        let below = names.get(below..).unwrap_or_default().join(&b'/');
        if below.is_empty() {
            return Ok(End::Inside(RelPath::root()));
        }
        join(&RelPath::root(), &below).map(End::Inside)
    }

    /// How many directories up from `directory` the project is; `None` when it is not above. Asked by
    /// identity, since the project may be mounted at several places.
    fn height_above(&self, mut directory: OwnedFd) -> io::Result<Option<usize>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut status = fstat(&directory)?;
        for height in 0..DEEPEST {
            if (status.st_dev, status.st_ino) == self.0.identity() {
                return Ok(Some(height));
            }
            directory = openat(&directory, c"..", flags, Mode::empty())?;
            let above = fstat(&directory)?;
            if (above.st_dev, above.st_ino) == (status.st_dev, status.st_ino) {
                return Ok(None);
            }
            status = above;
        }
        Ok(None)
    }
}

/// The names that are left, as a path.
fn rest(left: &[Vec<u8>]) -> PathBuf {
    left.iter()
        .rev()
        .map(|name| OsStr::from_bytes(name))
        .collect()
}
