//! The two ends of the way back: the session's directory and the host's project.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use aegis_policies::RelPath;
use rustix::fs::{CWD, Mode, OFlags, open};

use super::beneath::{Tree, hash, open_file_at};
use super::error::CommitError;
use super::plan::UNKNOWN;
use super::relocations;
use super::state::State;
use crate::layout::SessionDir;
use crate::overlay::changes::{After, Content};
use crate::overlay::{ContentFile, complete};

/// Where changes come from and where they go.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    session: &'a SessionDir,
    project: BorrowedFd<'a>,
}

impl<'a> Site<'a> {
    /// The session kept in `session`, whose project is the directory `project`.
    #[must_use]
    pub const fn new(session: &'a SessionDir, project: BorrowedFd<'a>) -> Self {
        Self { session, project }
    }

    /// The session's directory.
    #[must_use]
    pub const fn session(&self) -> &'a SessionDir {
        self.session
    }

    /// Opens what the host has at `path` now, when that is a regular file.
    ///
    /// # Errors
    /// When it is not, or can not be read.
    pub fn host_file(&self, path: &RelPath) -> io::Result<std::fs::File> {
        self.tree().file(path).map(Into::into)
    }

    /// What the host has at `path` now.
    ///
    /// # Errors
    /// When it can not be read.
    pub fn host_state(&self, path: &RelPath) -> io::Result<State> {
        self.tree().observe(path).map(|observed| observed.state)
    }

    /// Opens the bytes of a changed file as the agent left them.
    ///
    /// # Errors
    /// When they can not be read.
    pub fn agent_file(&self, content: &Content) -> io::Result<ContentFile> {
        self.open_content(content)
    }

    /// What a name holds as the agent left it. Content that can not be read has no hash that any
    /// content has.
    #[must_use]
    pub fn agent_state(&self, after: Option<&After>) -> State {
        let Some(after) = after else {
            return State::Absent;
        };
        let content = after.content.as_ref();
        let hashed = content.and_then(|content| hash(self.open_content(content).ok()?).ok());
        State::new(&after.kind, after.mode, hashed.unwrap_or(UNKNOWN))
    }

    /// Opens the content that both sides started from, as far as it was kept.
    ///
    /// # Errors
    /// When it was not kept, or can not be read.
    pub fn base_file(&self, sha256: super::Digest) -> io::Result<std::fs::File> {
        self.open_base(sha256).map(Into::into)
    }

    pub(crate) const fn tree(&self) -> Tree<'a> {
        Tree::new(self.project)
    }

    /// Opens the bytes of a changed file for reading.
    pub(crate) fn open_content(&self, content: &Content) -> io::Result<ContentFile> {
        match content {
            Content::Shadow(path) => {
                // What can not be told leaves the file where it was, and then it is not found.
                let relocations = || relocations(self.session).unwrap_or_default();
                // `join` with an absolute path is that path.
                ContentFile::open(
                    &self.session.content().join(path),
                    self.project,
                    &relocations,
                )
            }
            // Stricter than a look at it: what lies behind a mount point does not land.
            Content::Host(path) => self.tree().file(path).map(Into::into),
        }
    }

    /// Copies what the session still reads from the host's files at `paths`, which are about to
    /// change.
    pub(crate) fn bring_up(&self, paths: &[&RelPath]) -> Result<(), CommitError> {
        let relocations = relocations(self.session)?;
        let paths: BTreeSet<&RelPath> = paths.iter().copied().collect();
        let goes = |path: &RelPath| paths.contains(path);
        let done = complete(self.session, self.project, &relocations, &goes);
        done.map_err(|(path, source)| CommitError::Io {
            doing: "copy the rest of",
            name: path.to_string(),
            source,
        })
    }

    /// Opens the content with this hash that the host had when the agent first touched it.
    pub(crate) fn open_base(&self, sha256: super::Digest) -> io::Result<OwnedFd> {
        open_private(&self.session.base().join(sha256.to_string()))
    }
}

/// Opens a regular file in a directory that only we write.
pub(crate) fn open_private(path: &Path) -> io::Result<OwnedFd> {
    use std::os::unix::ffi::OsStrExt as _;
    open_file_at(CWD, path.as_os_str().as_bytes())
}

/// Opens a directory that only we write, making it (and those above it) when it is missing.
pub(crate) fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(open(path, flags, Mode::empty())?)
}
