//! How a tree is to be served, and how it is.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// Read-ahead and other requests that the kernel may have under way at once.
pub(super) const BACKGROUND: u16 = 64;

/// How a tree is to be served. What can not be had is left out, and [`Features`] says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Threads that answer the kernel; more than there are processors only cost (measured).
    pub threads: usize,
    /// What carries the requests.
    pub transport: Transport,
    /// Whether the kernel refuses every change (EROFS).
    pub read_only: bool,
    /// Whether the kernel may acknowledge writes that this process has not seen yet. What was
    /// acknowledged is then lost when this process is killed.
    pub writeback: bool,
    /// Whether the kernel may read large files without asking, where that is sound.
    pub passthrough: bool,
}

/// What carries the requests of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// [`Transport::Device`], or [`Transport::Fuser`] where the kernel refuses our handshake. Rings
    /// are taken only when they are asked for.
    #[default]
    Auto,
    /// read(2) and write(2) on `/dev/fuse`.
    Device,
    /// A ring for each processor (Linux 6.14, when the administrator allows it).
    IoUring,
    /// The `fuser` crate: a second carrier, independent of ours.
    Fuser,
}

/// How a tree is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Features {
    /// What carries the requests; never [`Transport::Auto`].
    pub transport: Transport,
    /// Major and minor version of the protocol, where it is known.
    pub protocol: Option<[u32; 2]>,
    /// Threads that answer.
    pub threads: usize,
    /// The most bytes that one request writes.
    pub largest_write: u32,
    /// What depends on the machine, the kernel and the options.
    pub features: Vec<Feature>,
}

/// Something that is in force, or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feature {
    /// What it is: `io_uring`, `passthrough`, `writeback`, ...
    pub name: Cow<'static, str>,
    /// Whether it is in force.
    pub in_force: bool,
    /// How far it goes, or why it is not in force and what would change that.
    pub note: Cow<'static, str>,
}

impl Default for Options {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            threads: processors.min(4),
            transport: Transport::Auto,
            read_only: false,
            writeback: false,
            passthrough: true,
        }
    }
}

impl Feature {
    /// A feature that is in force.
    #[must_use]
    pub fn on(name: &'static str, note: impl Into<Cow<'static, str>>) -> Self {
        Self {
            name: name.into(),
            in_force: true,
            note: note.into(),
        }
    }

    /// A feature that is not, and why.
    #[must_use]
    pub fn off(name: &'static str, note: impl Into<Cow<'static, str>>) -> Self {
        Self {
            in_force: false,
            ..Self::on(name, note)
        }
    }
}
