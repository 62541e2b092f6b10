//! What the launcher and the stage say to each other, in this order: [`Order`], [`Ready`],
//! [`Go`], [`Verdict`]; then the socket closes because the command has started.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A name or an argument; these need not be UTF-8.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Bytes(Vec<u8>);

/// What the stage is to do. Beside it come the streams that are not a terminal, in order.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    /// The command and its arguments.
    pub(super) command: Vec<Bytes>,
    /// The ports to listen on.
    pub(super) doors: Vec<u16>,
    /// Below these Landlock allows to write.
    pub(super) writable: Vec<Bytes>,
    /// These Landlock keeps from being read.
    pub(super) unreadable: Vec<Bytes>,
    /// What must be found at a path, to be sure that the right thing was bound.
    pub(super) expected: Vec<Expected>,
    /// Standard input, output and error.
    pub(super) streams: [Stream; 3],
    /// Whether a terminal is to be made.
    pub(super) terminal: bool,
}

/// Where a standard stream comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stream {
    /// The terminal that the stage makes.
    Terminal,
    /// The next descriptor beside the message.
    Passed,
}

/// The identity of a file or directory.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Expected {
    /// Where it should be.
    pub(super) at: Bytes,
    /// `st_dev`.
    pub(super) device: u64,
    /// `st_ino`.
    pub(super) inode: u64,
}

/// Everything that can be made is made. Beside it come: a pidfd of the sandbox's first process, a
/// pidfd of the stage itself, the listeners, and the terminal's master when there is one.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Ready {
    Ready { doors: usize, terminal: bool },
    Refused(String),
}

/// The launcher has taken everything over.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Go;

/// What is in force, sent as the last thing before the command starts.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Verdict {
    Enforced { landlock: i32, missing: Vec<String> },
    Refused(String),
}

impl From<&OsStr> for Bytes {
    fn from(text: &OsStr) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<&Path> for Bytes {
    fn from(path: &Path) -> Self {
        path.as_os_str().into()
    }
}

impl Bytes {
    pub(super) fn into_text(self) -> OsString {
        OsString::from_vec(self.0)
    }

    pub(super) fn to_path(&self) -> PathBuf {
        PathBuf::from(OsStr::from_bytes(&self.0))
    }
}
