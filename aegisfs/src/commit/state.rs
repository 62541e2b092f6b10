//! What a name can hold, as a value that can be compared, recorded and approved.

use std::fmt;

use aegis_policies::journal::NodeKind;
use aegis_policies::path::{escape, hex};
use rustix::fs::Stat;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest with these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Parses 64 hexadecimal digits.
    fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(index * 2..index * 2 + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("not a SHA-256 in hexadecimal"))
    }
}

/// What a name holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum State {
    /// Nothing.
    Absent,
    /// A regular file.
    File {
        /// The SHA-256 of its content.
        sha256: Digest,
        /// Permission bits with set-uid, set-gid and sticky.
        mode: u32,
    },
    /// A symbolic link.
    Symlink {
        /// The bytes it holds.
        target: Vec<u8>,
    },
    /// A directory.
    Directory {
        /// Permission bits.
        mode: u32,
    },
    /// A pipe, a socket or a device: never landed.
    Other,
}

/// The permission bits of a directory that a landing carries. The set-gid bit is the host's own
/// business: it inherits it from the directory above.
pub(crate) const DIRECTORY_BITS: u32 = 0o1777;

impl State {
    /// The state of a node of this kind; `sha256` is the content of a regular file.
    #[must_use]
    pub fn new(kind: &NodeKind, mode: u32, sha256: Digest) -> Self {
        match kind {
            NodeKind::File => Self::File {
                sha256,
                mode: mode & 0o7777,
            },
            NodeKind::Directory => Self::Directory {
                mode: mode & DIRECTORY_BITS,
            },
            NodeKind::Symlink(target) => Self::Symlink {
                target: target.clone(),
            },
            NodeKind::Fifo | NodeKind::Socket | NodeKind::Character(_) | NodeKind::Block(_) => {
                Self::Other
            }
        }
    }

    /// Whether this is a directory.
    #[must_use]
    pub const fn is_directory(&self) -> bool {
        matches!(self, Self::Directory { .. })
    }

    /// Whether what is here goes away as `next` takes its place. Changed content does not count:
    /// that is a change of what stays.
    pub(crate) fn is_taken_away_by(&self, next: &Self) -> bool {
        *self != Self::Absent && self.noun() != next.noun()
    }

    /// The hash of a regular file's content.
    #[must_use]
    pub const fn sha256(&self) -> Option<Digest> {
        match self {
            Self::File { sha256, .. } => Some(*sha256),
            _ => None,
        }
    }

    /// The permission bits, where they mean something.
    #[must_use]
    pub const fn mode(&self) -> Option<u32> {
        match self {
            Self::File { mode, .. } | Self::Directory { mode } => Some(*mode),
            _ => None,
        }
    }

    /// Whether this is a directory that its owner may read, change and enter.
    pub(crate) const fn lets_owner_in(&self) -> bool {
        matches!(self, Self::Directory { mode } if *mode & 0o700 == 0o700)
    }

    /// The same thing with other permission bits.
    #[must_use]
    pub fn with_mode(&self, mode: u32) -> Self {
        match self {
            Self::File { sha256, .. } => Self::File {
                sha256: *sha256,
                mode,
            },
            Self::Directory { .. } => Self::Directory { mode },
            other => other.clone(),
        }
    }

    /// The word for it.
    #[must_use]
    pub const fn noun(&self) -> &'static str {
        match self {
            Self::Absent => "nothing",
            Self::File { .. } => "file",
            Self::Symlink { .. } => "symbolic link",
            Self::Directory { .. } => "directory",
            Self::Other => "special file",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { sha256, mode } => write!(formatter, "file {mode:04o} {sha256}"),
            Self::Directory { mode } => write!(formatter, "directory {mode:04o}"),
            Self::Symlink { target } => write!(formatter, "link to {}", escape(target)),
            Self::Absent | Self::Other => formatter.write_str(self.noun()),
        }
    }
}

/// A state together with what stat(2) said of the inode that had it.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    pub(crate) state: State,
    pub(crate) stat: Option<Stat>,
}

impl Observed {
    pub(crate) const ABSENT: Self = Self {
        state: State::Absent,
        stat: None,
    };

    pub(crate) fn inode(&self) -> Option<u64> {
        self.stat.as_ref().map(|stat| stat.st_ino)
    }

    /// How many names the inode has.
    pub(crate) fn links(&self) -> u128 {
        self.stat
            .as_ref()
            .map_or(0, |stat| u128::from(stat.st_nlink))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_survive_their_text() {
        let digest = Digest::new([0xa5; 32]);
        let text = serde_json::to_string(&digest).unwrap();
        assert_eq!(serde_json::from_str::<Digest>(&text).unwrap(), digest);
        assert!(serde_json::from_str::<Digest>("\"a5\"").is_err());
    }

    #[test]
    fn the_set_group_bit_of_a_directory_is_the_hosts() {
        let state = State::new(&NodeKind::Directory, 0o42775, Digest::new([0; 32]));
        assert_eq!(state.mode(), Some(0o775));
    }
}
