//! Changed files as whoever takes them back to the host reads them, wherever their bytes lie.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use aegis_policies::RelPath;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use super::Relocations;
use super::blocks::{self, Body, read_content};
use super::changes::Content;
use super::lower::LowerRoot;
use crate::layout::SessionDir;

/// A file of which the first byte is read next.
#[derive(Debug)]
pub struct ContentFile {
    body: Body,
    at: u64,
}

impl ContentFile {
    /// Opens one in a folder of contents. What it has not copied is read from the host's `project`,
    /// of which landings of the session have moved parts: `relocations` is asked for them then.
    ///
    /// # Errors
    /// When it can not be read; what has been lost is told by reading.
    pub fn open(
        path: &Path,
        project: BorrowedFd<'_>,
        relocations: &dyn Fn() -> Relocations,
    ) -> io::Result<Self> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::INVAL.into());
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = open(folder, flags, Mode::empty())?;
        let name = name.to_str().ok_or(Errno::INVAL)?;
        let body = read_content(&folder, name, &|path| {
            open_host(project, relocations(), path)
        })?;
        Ok(Self { body, at: 0 })
    }

    /// Opens content wherever it lies; `relocations` as for [`ContentFile::open`].
    ///
    /// # Errors
    /// What the file system said.
    pub(crate) fn of(
        content: &Content,
        project: BorrowedFd<'_>,
        relocations: &dyn Fn() -> Relocations,
    ) -> io::Result<Self> {
        match content {
            Content::Shadow(path) => Self::open(path, project, relocations),
            // That name is the present one.
            Content::Host(path) => {
                let file = open_host(project, Relocations::default(), path)?;
                Ok(OwnedFd::from(file).into())
            }
        }
    }

    /// When it was last changed in any way, in nanoseconds since the Unix epoch.
    ///
    /// # Errors
    /// What fstat(2) said.
    pub(crate) fn changed(&self) -> io::Result<i64> {
        Ok(self.body.stat()?.ctime)
    }

    /// Size in bytes.
    ///
    /// # Errors
    /// What fstat(2) said.
    pub fn size(&self) -> io::Result<u64> {
        Ok(self.body.stat()?.size)
    }

    /// Bytes that are not a hole.
    ///
    /// # Errors
    /// What fstat(2) said.
    pub fn held(&self) -> io::Result<u64> {
        Ok(self.body.stat()?.blocks.saturating_mul(512))
    }

    /// Whether a part of it is lost: the host's file changed before all of it was copied.
    #[must_use]
    pub fn is_torn(&self) -> bool {
        matches!(&self.body, Body::Partial(partial) if partial.is_torn())
    }

    /// The one file that holds all of it, when there is one.
    #[must_use]
    pub fn whole(&self) -> Option<&File> {
        self.body.whole().map(|file| &**file)
    }
}

/// Copies what a session has not copied yet of the host's files for whose paths, as the host has
/// them now, `goes` holds: they are about to be replaced or removed. Nobody serves the session.
///
/// # Errors
/// The path of the host's file, and what the file system said.
pub fn complete(
    session: &SessionDir,
    project: BorrowedFd<'_>,
    relocations: &Relocations,
    goes: &dyn Fn(&RelPath) -> bool,
) -> Result<(), (RelPath, io::Error)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match open(session.content(), flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        opened => opened.map_err(|errno| (RelPath::root(), errno.into()))?,
    };
    let host = |path: &RelPath| open_host(project, relocations.clone(), path);
    let goes = |path: &RelPath| goes(&relocations.locate(path));
    let done = blocks::complete(&folder, &host, &goes);
    done.map_err(|(path, errno)| (path, errno.into()))
}

fn open_host(
    project: BorrowedFd<'_>,
    relocations: Relocations,
    path: &RelPath,
) -> Result<File, Errno> {
    let project = project.try_clone_to_owned();
    let project = project.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    LowerRoot::new(project, relocations)?.open(path)
}

impl From<OwnedFd> for ContentFile {
    fn from(file: OwnedFd) -> Self {
        Self {
            body: Body::Whole(Arc::new(file.into())),
            at: 0,
        }
    }
}

impl Read for ContentFile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.body.read_at(bytes, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
