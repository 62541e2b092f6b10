//! Attributes: what a stat(2) says, and what the agent is shown.

use aegis_policies::journal::{Baseline, NodeId, NodeKind};
use rustix::fs::{FileType, Statx, StatxFlags, StatxTimestamp, makedev};

use super::shadow::{Folder, Node, Touched};

/// What changes whenever a file's content does: device, inode, modification time, status change
/// time, size.
pub(crate) type Version = (u64, u64, i64, i64, u64);

/// What stat(2) said, in one set of units: bytes, and nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    pub(crate) kind: FileType,
    pub(crate) mode: u32,
    pub(crate) nlink: u64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) rdev: u64,
    pub(crate) size: u64,
    pub(crate) blocks: u64,
    pub(crate) atime: i64,
    pub(crate) mtime: i64,
    pub(crate) ctime: i64,
    /// When the inode was made; 0 where that was not asked for or is not known. A file system gives
    /// the number of an inode that is gone to a new one.
    pub(crate) born: i64,
}

/// The attributes that the agent is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// The number, which is `st_ino`.
    pub node: NodeId,
    /// The type.
    pub kind: FileType,
    /// Permission bits, with set-uid, set-gid and sticky.
    pub mode: u32,
    /// How many names it has.
    pub nlink: u64,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The device number of a device node.
    pub rdev: u64,
    /// Size in bytes.
    pub size: u64,
    /// Blocks of 512 bytes.
    pub blocks: u64,
    /// Access time in nanoseconds since the Unix epoch.
    pub atime: i64,
    /// Modification time in nanoseconds since the Unix epoch.
    pub mtime: i64,
    /// Status change time in nanoseconds since the Unix epoch.
    pub ctime: i64,
    /// Whether the host can change them without our being told, so that they must not be trusted
    /// for long.
    pub unannounced: bool,
}

impl Stat {
    /// The baseline of a node of this kind; its content has not been read.
    pub(crate) fn baseline(&self, kind: NodeKind) -> Baseline {
        Baseline {
            kind,
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            size: self.size,
            mtime: self.mtime,
            ctime: self.ctime,
            dev: self.dev,
            ino: self.ino,
            sha256: None,
        }
    }

    /// What tells one content from another.
    pub(crate) const fn version(&self) -> Version {
        (self.dev, self.ino, self.mtime, self.ctime, self.size)
    }

    fn shown(&self, node: NodeId) -> Attr {
        Attr {
            node,
            kind: self.kind,
            mode: self.mode,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            size: self.size,
            blocks: self.blocks,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            unannounced: true,
        }
    }
}

impl Attr {
    /// An untouched node of the host; `folder` is what the session changed inside, for a directory.
    pub(crate) fn of_lower(id: NodeId, stat: &Stat, folder: Option<&Folder>) -> Self {
        let mut attr = stat.shown(id);
        if let Some(folder) = folder {
            attr.add_folder(folder, Some(stat.ctime));
        }
        attr
    }

    /// A node of the shadow. `base` is the content file of a file with content of its own, else
    /// what the host has now under the node's name there, if it is still of the same kind.
    pub(crate) fn of_node(
        id: NodeId,
        node: &Node,
        base: Option<&Stat>,
        folder: Option<&Folder>,
    ) -> Self {
        let mut attr = base.map_or_else(|| Self::remembered(id, node), |stat| stat.shown(id));
        attr.unannounced = node.origin.is_some() && node.content.is_none();
        if node.content.is_some() {
            attr.kind = FileType::RegularFile;
            attr.rdev = 0;
            // The content file is private; what the agent sees comes from the node.
            if let Some(origin) = &node.origin {
                (attr.mode, attr.uid, attr.gid) = (
                    origin.baseline.mode,
                    origin.baseline.uid,
                    origin.baseline.gid,
                );
            }
        }
        attr.mode = node.mode.unwrap_or(attr.mode);
        attr.uid = node.uid.unwrap_or(attr.uid);
        attr.gid = node.gid.unwrap_or(attr.gid);
        attr.atime = node.atime.unwrap_or(attr.atime);
        attr.mtime = node.mtime.unwrap_or(attr.mtime);
        attr.ctime = attr.ctime.max(node.changed);
        if node.is_folder() {
            if node.is_orphan() {
                attr.nlink = 0;
            } else if let Some(folder) = folder {
                attr.add_folder(folder, base.map(|stat| stat.ctime));
            }
        } else {
            attr.nlink = node.links;
        }
        attr
    }

    /// What is known of a node without looking at a file system.
    fn remembered(id: NodeId, node: &Node) -> Self {
        let size = match &node.kind {
            NodeKind::Symlink(target) => target.len() as u64,
            NodeKind::Directory => 4096,
            _ => 0,
        };
        let rdev = match node.kind {
            NodeKind::Character(number) | NodeKind::Block(number) => number,
            _ => 0,
        };
        let blank = Self {
            node: id,
            kind: file_type(&node.kind),
            mode: 0,
            nlink: if node.is_folder() { 2 } else { 1 },
            uid: 0,
            gid: 0,
            rdev,
            size,
            blocks: 0,
            atime: node.changed,
            mtime: node.changed,
            ctime: node.changed,
            unannounced: false,
        };
        let Some(origin) = &node.origin else {
            return blank;
        };
        let baseline = &origin.baseline;
        Self {
            mode: baseline.mode,
            uid: baseline.uid,
            gid: baseline.gid,
            size: baseline.size,
            atime: baseline.mtime,
            mtime: baseline.mtime,
            ctime: baseline.ctime,
            ..blank
        }
    }

    /// A directory that the host removed while the session kept something in it.
    pub(crate) fn pinned(id: NodeId, owner: (u32, u32), folder: Option<&Folder>) -> Self {
        let at = folder
            .and_then(|folder| folder.touched)
            .map_or(0, |touched| touched.at);
        let mut attr = Self {
            node: id,
            kind: FileType::Directory,
            mode: 0o755,
            nlink: 2,
            uid: owner.0,
            gid: owner.1,
            rdev: 0,
            size: 4096,
            blocks: 0,
            atime: at,
            mtime: at,
            ctime: at,
            unannounced: true,
        };
        if let Some(folder) = folder {
            attr.add_folder(folder, None);
        }
        attr
    }

    /// Adds what the session changed inside to a directory that the host changed last at
    /// `host_changed`.
    fn add_folder(&mut self, folder: &Folder, host_changed: Option<i64>) {
        if self.nlink >= 2 {
            self.nlink = self.nlink.saturating_add_signed(folder.subfolders).max(2);
        }
        if let Some(Touched { mtime, at }) = folder.touched {
            // A later change by the host is as good a reason to look again as ours.
            let later = host_changed.is_some_and(|changed| changed > at);
            self.mtime = if later { self.mtime.max(mtime) } else { mtime };
            self.ctime = self.ctime.max(at);
        }
    }
}

impl From<rustix::fs::Stat> for Stat {
    fn from(stat: rustix::fs::Stat) -> Self {
        Self {
            dev: stat.st_dev,
            ino: stat.st_ino,
            kind: FileType::from_raw_mode(stat.st_mode),
            mode: stat.st_mode & 0o7777,
            nlink: names(&stat),
            uid: stat.st_uid,
            gid: stat.st_gid,
            rdev: stat.st_rdev,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            blocks: u64::try_from(stat.st_blocks).unwrap_or(0),
            atime: nanoseconds(stat.st_atime, stat.st_atime_nsec),
            mtime: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
            ctime: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
            born: 0,
        }
    }
}

impl From<Statx> for Stat {
    fn from(stat: Statx) -> Self {
        let time = |it: StatxTimestamp| nanoseconds(it.tv_sec, it.tv_nsec.into());
        let mode = u32::from(stat.stx_mode);
        let knows_birth = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
        Self {
            dev: makedev(stat.stx_dev_major, stat.stx_dev_minor),
            ino: stat.stx_ino,
            kind: FileType::from_raw_mode(mode),
            mode: mode & 0o7777,
            nlink: stat.stx_nlink.into(),
            uid: stat.stx_uid,
            gid: stat.stx_gid,
            rdev: makedev(stat.stx_rdev_major, stat.stx_rdev_minor),
            size: stat.stx_size,
            blocks: stat.stx_blocks,
            atime: time(stat.stx_atime),
            mtime: time(stat.stx_mtime),
            ctime: time(stat.stx_ctime),
            born: if knows_birth { time(stat.stx_btime) } else { 0 },
        }
    }
}

/// The type bits of a node's kind.
pub(crate) const fn file_type(kind: &NodeKind) -> FileType {
    match kind {
        NodeKind::File => FileType::RegularFile,
        NodeKind::Directory => FileType::Directory,
        NodeKind::Symlink(_) => FileType::Symlink,
        NodeKind::Fifo => FileType::Fifo,
        NodeKind::Socket => FileType::Socket,
        NodeKind::Character(_) => FileType::CharacterDevice,
        NodeKind::Block(_) => FileType::BlockDevice,
    }
}

#[cfg_attr(
    target_arch = "x86_64",
    expect(
        clippy::useless_conversion,
        reason = "`st_nlink` has 32 bits on other machines"
    )
)]
fn names(stat: &rustix::fs::Stat) -> u64 {
    u64::from(stat.st_nlink)
}

fn nanoseconds(seconds: i64, nanoseconds: u64) -> i64 {
    let nanoseconds = i64::try_from(nanoseconds).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(nanoseconds)
}
