//! The entries that are the state of the shadow. Replayed in order on an empty tree, without
//! looking at the host, they give the same name space (DESIGN: "the journal is the file system").

use serde::{Deserialize, Serialize};

use crate::path::RelPath;

/// The inode number that the agent sees; stable through copy-up, rename and remount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u64);

/// How often the shadow has been put aside, by a snapshot or a rewind. Content that was written in
/// an earlier generation than the shadow's belongs to what was put aside, and is copied before it
/// is written again.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Generation(pub u64);

impl Generation {
    /// The generation of a session that has no snapshot.
    pub const FIRST: Self = Self(0);

    /// The one after it.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// The type of a node. Journals hold the number of a variant: a new one goes to the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link and the bytes it holds.
    Symlink(Vec<u8>),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device and its number (`st_rdev`). A record only: it opens nothing.
    Character(u64),
    /// A block device and its number (`st_rdev`). A record only: it opens nothing.
    Block(u64),
}

/// Where in the host's tree a node comes from, and which inode was there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LowerFile {
    /// The path below the real project.
    pub path: RelPath,
    /// `st_dev` of the inode.
    pub dev: u64,
    /// `st_ino` of the inode.
    pub ino: u64,
    /// How many names the inode has; with more than one, the others lead to the same node.
    pub links: u64,
}

/// What the host had when the agent first touched a name: the base of the three-way merge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// The type.
    pub kind: NodeKind,
    /// The permission bits, with set-uid, set-gid and sticky.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The size in bytes.
    pub size: u64,
    /// Modification time in nanoseconds since the Unix epoch.
    pub mtime: i64,
    /// Status change time in nanoseconds since the Unix epoch.
    pub ctime: i64,
    /// `st_dev`.
    pub dev: u64,
    /// `st_ino`.
    pub ino: u64,
    /// SHA-256 of the content, where it was read. The content itself is kept under this name in
    /// the session's `base` folder when it is small enough to be merged.
    pub sha256: Option<[u8; 32]>,
}

/// A node of the host's tree when the agent first touched it: where it is, and what it was.
///
/// An operation carries one exactly when the shadow does not know the node yet; for a node that the
/// agent made, or touched before, there is none.
pub type FirstTouch = Option<(LowerFile, Baseline)>;

/// The node that a rename replaces, or exchanges with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Displaced {
    /// The node.
    pub node: NodeId,
    /// Where it comes from and what it was, when this is the first touch.
    pub first_touch: FirstTouch,
}

/// One change of the shadow.
///
/// Paths are those that the agent sees at that moment. The host's path of what is under a name
/// follows from the shadow itself, because a directory remembers which directory of the host its
/// untouched children come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ShadowOp {
    /// A node of the host's tree got content of its own.
    CopyUp {
        /// Its name in the shadow.
        path: RelPath,
        /// The node.
        node: NodeId,
        /// Where it comes from.
        lower: LowerFile,
        /// What it was when its content was taken.
        baseline: Baseline,
    },
    /// A new node.
    Create {
        /// Its name.
        path: RelPath,
        /// The node.
        node: NodeId,
        /// Its type.
        kind: NodeKind,
        /// Permission bits.
        mode: u32,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
    },
    /// A further name for a node.
    Link {
        /// An existing name.
        from: RelPath,
        /// The new name.
        path: RelPath,
        /// The node.
        node: NodeId,
        /// Where the node comes from and what it was, when this is the first touch.
        first_touch: FirstTouch,
    },
    /// A name is gone.
    Remove {
        /// The name.
        path: RelPath,
        /// The node it named.
        node: NodeId,
        /// Where the node comes from and what it was, when this is the first touch.
        first_touch: FirstTouch,
    },
    /// A name moved, or two names were exchanged.
    Rename {
        /// The old name.
        from: RelPath,
        /// The new name.
        to: RelPath,
        /// The node that moved.
        node: NodeId,
        /// Where the node comes from and what it was, when this is the first touch.
        first_touch: FirstTouch,
        /// What the new name led to.
        displaced: Option<Displaced>,
        /// Whether the two names were exchanged (RENAME_EXCHANGE).
        exchange: bool,
    },
    /// Mode, owner or times changed; only what is given.
    SetAttr {
        /// A name of the node.
        path: RelPath,
        /// The node.
        node: NodeId,
        /// Where the node comes from and what it was, when this is the first touch.
        first_touch: FirstTouch,
        /// New permission bits.
        mode: Option<u32>,
        /// New owner.
        uid: Option<u32>,
        /// New group.
        gid: Option<u32>,
        /// New access time, nanoseconds since the Unix epoch.
        atime: Option<i64>,
        /// New modification time, nanoseconds since the Unix epoch.
        mtime: Option<i64>,
        /// New size in bytes.
        size: Option<u64>,
    },
    /// An extended attribute changed; `None` removes it.
    SetXattr {
        /// A name of the node.
        path: RelPath,
        /// The node.
        node: NodeId,
        /// Where the node comes from and what it was, when this is the first touch.
        first_touch: FirstTouch,
        /// The attribute.
        name: Vec<u8>,
        /// Its value.
        value: Option<Vec<u8>>,
    },
    /// A node's content was copied before it was written again, because a snapshot may hold what it
    /// was; the times that were set since go to the copy.
    Fork {
        /// A name of the node.
        path: RelPath,
        /// The node.
        node: NodeId,
        /// The shadow's generation, and the content's from now on.
        generation: Generation,
    },
    /// A file that was made without a name got its first one; nothing of it was on record before.
    Name {
        /// The name.
        path: RelPath,
        /// The node.
        node: NodeId,
        /// Permission bits.
        mode: u32,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
        /// The generation of its content.
        generation: Generation,
        /// Its extended attributes, by name.
        xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    },
}

impl ShadowOp {
    /// The name that changes; for a rename, the new one.
    #[must_use]
    pub const fn path(&self) -> &RelPath {
        match self {
            Self::CopyUp { path, .. }
            | Self::Create { path, .. }
            | Self::Link { path, .. }
            | Self::Remove { path, .. }
            | Self::SetAttr { path, .. }
            | Self::SetXattr { path, .. }
            | Self::Fork { path, .. }
            | Self::Name { path, .. } => path,
            Self::Rename { to, .. } => to,
        }
    }
}
