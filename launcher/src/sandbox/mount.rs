//! One thing at one place of the sandbox's file system.

use std::fmt;
use std::path::PathBuf;

/// A mount, or a link, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The absolute path inside.
    pub at: PathBuf,
    /// What is there.
    pub what: What,
}

/// What is at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Something that exists outside.
    Bind {
        /// Where it comes from.
        from: Source,
        /// Whether it can be written.
        access: Access,
        /// What it is, so that a mount point of that kind is made.
        kind: Kind,
    },
    /// An empty directory in memory that stays empty but for mounts.
    Hidden,
    /// A directory in memory that everybody inside may write (mode 1777).
    Scratch {
        /// It holds this many bytes.
        most: u64,
    },
    /// An empty file.
    Empty,
    /// A symbolic link with this target.
    Link(PathBuf),
    /// The process table of the sandbox's own pid namespace.
    Processes,
    /// The harmless devices, and terminals of the sandbox's own.
    Devices,
}

/// Where a bind comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A path of the host, links resolved.
    Host(PathBuf),
    /// The aegisfs view of the project, by descriptor.
    View,
    /// The project's real directory, by descriptor.
    RealTree,
    /// The session's private home, by descriptor.
    Home,
    /// The launcher's own program, by descriptor.
    Binary,
}

/// Whether a bind can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It cannot.
    ReadOnly,
    /// It can, as far as permissions allow.
    ReadWrite,
}

/// Whether something is a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
}

impl fmt::Display for Mount {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.as_os_str();
        match &self.what {
            What::Bind {
                from,
                access: Access::ReadOnly,
                ..
            } => write!(out, "read {at:?} {from}"),
            What::Bind {
                from,
                access: Access::ReadWrite,
                ..
            } => write!(out, "write {at:?} {from}"),
            What::Hidden => write!(out, "hide {at:?}"),
            What::Scratch { most } => write!(out, "scratch {at:?} of {most} bytes"),
            What::Empty => write!(out, "empty {at:?}"),
            What::Link(target) => write!(out, "link {at:?} to {target:?}"),
            What::Processes => write!(out, "processes {at:?}"),
            What::Devices => write!(out, "devices {at:?}"),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(path) => write!(out, "from {:?}", path.as_os_str()),
            Self::View => out.write_str("from the view"),
            Self::RealTree => out.write_str("from the real tree"),
            Self::Home => out.write_str("from the private home"),
            Self::Binary => out.write_str("from this program"),
        }
    }
}
