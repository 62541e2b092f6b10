//! Where a session keeps its things.

use std::path::{Path, PathBuf};

/// The directory of one session; mode 0700, never visible inside the sandbox.
#[derive(Clone, Debug)]
pub struct SessionDir(PathBuf);

impl SessionDir {
    /// The session directory at `root`.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self(root)
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.0
    }

    /// The journal's segments.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.0.join("journal")
    }

    /// States of the shadow at positions of the journal, so that a replay starts from there.
    #[must_use]
    pub fn checkpoints(&self) -> PathBuf {
        self.0.join("checkpoints")
    }

    /// Content of files that the agent wrote, one flat file per node, named by its number in
    /// hexadecimal.
    #[must_use]
    pub fn content(&self) -> PathBuf {
        self.0.join("content")
    }

    /// Content that the host had at first touch, named by its SHA-256 in hexadecimal.
    #[must_use]
    pub fn base(&self) -> PathBuf {
        self.0.join("base")
    }

    /// Frozen content waiting for a landing, named by its SHA-256 in hexadecimal.
    #[must_use]
    pub fn stage(&self) -> PathBuf {
        self.0.join("stage")
    }

    /// One directory per landing: intent log and displaced files.
    #[must_use]
    pub fn landings(&self) -> PathBuf {
        self.0.join("landings")
    }

    /// The private home directory that the sandbox sees.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.0.join("home")
    }

    /// Where aegisfs is mounted, in a mount namespace of the session's own.
    #[must_use]
    pub fn mountpoint(&self) -> PathBuf {
        self.0.join("mnt")
    }

    /// Held with flock(2) by the process that serves the session.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }
}
