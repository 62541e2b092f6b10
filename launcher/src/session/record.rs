//! What `session.json` says about a session.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use aegisfs::fuse::Features;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use super::clock::Moment;

/// The name of the record in the session's directory.
const NAME: &str = "session.json";
/// Where the next version of the record is written before it takes that name.
const NEXT: &str = "session.json.next";
/// No honest record is longer than this, in bytes: a command line is at most 2 MiB.
const LONGEST: u64 = 16 << 20;

/// What a session is and how its last run went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The layout of this record.
    pub version: u32,
    /// The session's id.
    pub id: String,
    /// The real project.
    pub project: Bytes,
    /// `st_dev` of the project.
    pub project_dev: u64,
    /// `st_ino` of the project.
    pub project_ino: u64,
    /// What the session calls its agent.
    pub agent: String,
    /// The command of the last run, with its arguments; empty for a mount without a sandbox.
    pub command: Vec<Bytes>,
    /// How aegisfs was mounted.
    pub mount: MountMode,
    /// Where aegisfs was mounted.
    pub mountpoint: Bytes,
    /// Whether the tree could be changed in the last run.
    #[serde(default)]
    pub access: Access,
    /// How the tree was served in the last run; `None` when it did not get that far.
    #[serde(default)]
    pub features: Option<Features>,
    /// What the kernel enforced in the last run; `None` when it did not get that far.
    #[serde(default)]
    pub enforced: Option<Enforcement>,
    /// The process that serves or served the session.
    pub server: u32,
    /// When the session was made.
    pub created: Moment,
    /// When its last run ended.
    pub ended: Option<Moment>,
    /// How far its last run got.
    pub state: State,
    /// The exit status of its last run; 128+n for signal n.
    pub status: Option<i32>,
}

/// Whether a tree can be changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// What is changed is kept in the session.
    #[default]
    Shadow,
    /// It can not.
    ReadOnly,
}

/// How aegisfs is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MountMode {
    /// With mount(2) in a mount namespace of the session's own.
    Namespace,
    /// By the set-uid helper fusermount3, where every process of the user sees it.
    Fusermount,
    /// With mount(2) in the launcher's mount namespace, as root.
    Direct,
}

/// What the kernel enforces in a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforcement {
    /// The Landlock ABI in force; 0 when the kernel has none.
    pub landlock: i32,
    /// What is weaker than planned, in words.
    pub missing: Vec<String>,
}

/// How far the last run of a session got, as far as the record knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The server has started and has not said that it ended.
    Running,
    /// The server has ended in order.
    Ended,
}

/// A path or argument: as text when it is UTF-8, else as a list of bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Bytes {
    /// UTF-8.
    Text(String),
    /// Anything else.
    Raw(Vec<u8>),
}

impl Record {
    /// Reads the record in `directory`.
    ///
    /// # Errors
    /// When there is none, or it is not a record of a known version.
    pub fn read(directory: BorrowedFd<'_>) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(directory, NAME, flags, Mode::empty())?);
        let mut text = Vec::new();
        file.take(LONGEST).read_to_end(&mut text)?;
        let record: Self = serde_json::from_slice(&text)?;
        if record.version != 1 {
            return Err(io::Error::other("it was made by a newer aegis-os"));
        }
        Ok(record)
    }

    /// Replaces the record in `directory`; after a crash there is either the old or the new one.
    ///
    /// # Errors
    /// When the file system refuses; the old record is then still there.
    pub fn write(&self, directory: BorrowedFd<'_>) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR;
        let next = rustix::fs::openat(directory, NEXT, flags | OFlags::CLOEXEC, mode)?;
        let mut file = File::from(next);
        file.write_all(&text)?;
        rustix::fs::fsync(file.as_fd())?;
        rustix::fs::renameat(directory, NEXT, directory, NAME)?;
        Ok(rustix::fs::fsync(directory)?)
    }

    /// The real project.
    #[must_use]
    pub fn project(&self) -> &Path {
        Path::new(self.project.as_os_str())
    }

    /// Where aegisfs was mounted.
    #[must_use]
    pub fn mountpoint(&self) -> &Path {
        Path::new(self.mountpoint.as_os_str())
    }
}

impl Bytes {
    /// The bytes as the operating system takes them.
    #[must_use]
    pub fn as_os_str(&self) -> &OsStr {
        match self {
            Self::Text(text) => OsStr::new(text),
            Self::Raw(bytes) => OsStr::from_bytes(bytes),
        }
    }

    /// The bytes, fit for a terminal.
    #[must_use]
    pub fn shown(&self) -> String {
        aegis_policies::path::escape(self.as_os_str().as_bytes())
    }
}

impl From<OsString> for Bytes {
    fn from(text: OsString) -> Self {
        text.into_string()
            .map_or_else(|raw| Self::Raw(raw.into_vec()), Self::Text)
    }
}

impl From<&Path> for Bytes {
    fn from(path: &Path) -> Self {
        PathBuf::from(path).into_os_string().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_the_record() {
        for bytes in [&b"/home/a b"[..], b"/\xff\xfe"] {
            let stored = Bytes::from(OsStr::from_bytes(bytes).to_owned());
            let text = serde_json::to_string(&stored).unwrap();
            let back: Bytes = serde_json::from_str(&text).unwrap();
            assert_eq!(back.as_os_str().as_bytes(), bytes);
        }
    }
}
