//! The stage: frozen content, named by its SHA-256, in a directory that the sandbox never sees.
//!
//! Nothing here is forced to the disk: a landing hashes what it takes from the stage, and one that
//! was interrupted is taken back and frozen anew.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, openat, renameat, unlinkat,
};

use super::beneath::open_file_at;
use super::carry;
use super::error::{CommitError, Doing as _};
use super::site::open_directory;
use super::state::Digest;
use crate::layout::SessionDir;
use crate::overlay::ContentFile;

/// The stage of a session, held by one freeze at a time.
#[derive(Debug)]
pub(crate) struct Stage {
    directory: OwnedFd,
    path: PathBuf,
    base: PathBuf,
}

/// The largest content that is kept as the base of a later merge.
const MERGEABLE: i64 = 4 << 20;

impl Stage {
    /// Takes the stage and empties it of what an earlier freeze left.
    pub(crate) fn take(session: &SessionDir) -> Result<Self, CommitError> {
        let path = session.stage();
        let directory = open_directory(&path).doing("open", &path.display())?;
        lock(&directory)?;
        empty(&directory, 4).doing("empty", &path.display())?;
        Ok(Self {
            directory,
            path,
            base: session.base(),
        })
    }

    /// Copies content in and says which it is.
    pub(crate) fn add(&self, from: &mut ContentFile) -> std::io::Result<Digest> {
        let part = "part-content";
        // One may be left of content that could not be read.
        let _ = unlinkat(&self.directory, part, AtFlags::empty());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let to = openat(&self.directory, part, flags, Mode::RUSR | Mode::WUSR)?;
        let sha256 = carry::copy_content(from, &to)?;
        renameat(&self.directory, part, &self.directory, sha256.to_string())?;
        Ok(sha256)
    }

    /// Puts bytes of our own in.
    pub(crate) fn add_bytes(&self, bytes: &[u8]) -> std::io::Result<Digest> {
        let name = "part-merged";
        let path = self.path.join(name);
        std::fs::write(&path, bytes)?;
        let file = open_file_at(self.directory.as_fd(), name.as_bytes())?;
        let sha256 = super::beneath::hash(std::fs::File::from(file.try_clone()?))?;
        renameat(&self.directory, name, &self.directory, sha256.to_string())?;
        Ok(sha256)
    }

    /// The path of frozen content.
    pub(crate) fn path(&self, sha256: Digest) -> PathBuf {
        self.path.join(sha256.to_string())
    }

    /// A directory for checks, emptied with the stage.
    pub(crate) fn bench(&self) -> PathBuf {
        self.path.join("bench")
    }

    /// Keeps content for the merges of later landings, when it is small enough.
    pub(crate) fn keep_as_base(&self, sha256: Digest) -> std::io::Result<()> {
        let base = open_directory(&self.base)?;
        let name = sha256.to_string();
        let Ok(file) = open_file_at(self.directory.as_fd(), name.as_bytes()) else {
            return Ok(());
        };
        if rustix::fs::fstat(&file)?.st_size > MERGEABLE {
            return Ok(());
        }
        Ok(renameat(&self.directory, &name, &base, &name)?)
    }

    /// Removes everything.
    pub(crate) fn clear(&self) -> Result<(), CommitError> {
        empty(&self.directory, 4).doing("empty", &self.path.display())
    }
}

/// A process that is being started holds copies of our descriptors for an instant, and so the lock
/// of a freeze that is over.
fn lock(directory: &OwnedFd) -> Result<(), CommitError> {
    for _ in 0..20 {
        if flock(directory, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Err(CommitError::Busy)
}

/// Removes what is in a directory of ours, without following a link.
fn empty(directory: &OwnedFd, depth: usize) -> std::io::Result<()> {
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if entry.file_type() == FileType::Directory && depth > 0 {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            empty(&openat(directory, name, flags, Mode::empty())?, depth - 1)?;
            unlinkat(directory, name, AtFlags::REMOVEDIR)?;
        } else {
            unlinkat(directory, name, AtFlags::empty())?;
        }
    }
    Ok(())
}
