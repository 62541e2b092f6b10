//! What the kernel asks for.

use rustix::io::Errno;

use super::bytes::{Fields, Malformed};
use super::init::{Flags, InitRequest};
use crate::fuse::requests::Asker;
use crate::overlay::SetTime;

/// What every request starts with (`struct fuse_in_header`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fuse::kernel) struct Header {
    /// Bytes of the whole request.
    pub(in crate::fuse::kernel) length: u32,
    /// The kind of request.
    pub(in crate::fuse::kernel) opcode: u32,
    /// Names the request in its answer.
    pub(in crate::fuse::kernel) unique: u64,
    /// The node that it is about.
    pub(in crate::fuse::kernel) node: u64,
    /// Who asks.
    pub(in crate::fuse::kernel) asker: Asker,
}

/// A request without its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fuse::kernel) enum Operation<'a> {
    Lookup {
        name: &'a [u8],
    },
    Forget {
        count: u64,
    },
    BatchForget {
        nodes: &'a [u8],
    },
    Getattr,
    Setattr(Setattr),
    Readlink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    Mknod {
        name: &'a [u8],
        mode: u32,
        device: u32,
        umask: u32,
    },
    Mkdir {
        name: &'a [u8],
        mode: u32,
        umask: u32,
    },
    Unlink {
        name: &'a [u8],
    },
    Rmdir {
        name: &'a [u8],
    },
    Rename {
        name: &'a [u8],
        folder: u64,
        new_name: &'a [u8],
        flags: u32,
    },
    Link {
        node: u64,
        name: &'a [u8],
    },
    Open {
        flags: u32,
    },
    Create {
        name: &'a [u8],
        flags: u32,
        mode: u32,
        umask: u32,
    },
    Tmpfile {
        flags: u32,
        mode: u32,
        umask: u32,
    },
    Read {
        handle: u64,
        offset: u64,
        size: u32,
    },
    Write {
        handle: u64,
        offset: u64,
        kills: bool,
        bytes: &'a [u8],
    },
    Statfs,
    Release {
        handle: u64,
    },
    Fsync {
        handle: u64,
        flags: u32,
    },
    Setxattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
        kills: bool,
    },
    Getxattr {
        name: &'a [u8],
        size: u32,
    },
    Listxattr {
        size: u32,
    },
    Removexattr {
        name: &'a [u8],
    },
    Flush,
    Init(InitRequest),
    Opendir,
    Readdir {
        offset: u64,
        size: u32,
    },
    Readdirplus {
        offset: u64,
        size: u32,
    },
    Releasedir,
    Fsyncdir,
    Interrupt,
    Destroy,
    Ioctl,
    Fallocate {
        handle: u64,
        offset: u64,
        length: u64,
        mode: u32,
    },
    Lseek {
        handle: u64,
        offset: u64,
        whence: u32,
    },
    CopyFileRange {
        from: (u64, u64),
        to: (u64, u64),
        length: u64,
        wide: bool,
    },
    Syncfs,
    /// One that is not known here, or not offered.
    Other,
}

/// What SETATTR sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::fuse::kernel) struct Setattr {
    pub(in crate::fuse::kernel) mode: Option<u32>,
    pub(in crate::fuse::kernel) uid: Option<u32>,
    pub(in crate::fuse::kernel) gid: Option<u32>,
    pub(in crate::fuse::kernel) size: Option<u64>,
    pub(in crate::fuse::kernel) atime: Option<SetTime>,
    pub(in crate::fuse::kernel) mtime: Option<SetTime>,
    /// Whether set-id bits go (`FATTR_KILL_SUIDGID`).
    pub(in crate::fuse::kernel) kills: bool,
}

impl Header {
    /// Takes the header off a request.
    ///
    /// # Errors
    /// When the request is too short to have one.
    pub(in crate::fuse::kernel) fn take(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        let (length, opcode) = (fields.u32()?, fields.u32()?);
        let (unique, node) = (fields.u64()?, fields.u64()?);
        let (uid, gid, pid) = (fields.u32()?, fields.u32()?, fields.u32()?);
        // Extensions are not asked for; what would count them is padding.
        fields.skip(4)?;
        Ok(Self {
            length,
            opcode,
            unique,
            node,
            asker: Asker { pid, uid, gid },
        })
    }
}

/// Bytes of the fixed argument of a request: through a ring it comes apart from what follows it.
pub(in crate::fuse::kernel) const fn argument_size(opcode: u32, agreed: Flags) -> usize {
    match opcode {
        SETXATTR if !agreed.has(Flags::SETXATTR_EXT) => 8,
        FORGET | MKDIR | RENAME | LINK | OPEN | GETXATTR | LISTXATTR | OPENDIR | BATCH_FORGET
        | INTERRUPT | SYNCFS => 8,
        MKNOD | CREATE | TMPFILE | FSYNC | FSYNCDIR | GETATTR | SETXATTR | RENAME2 => 16,
        RELEASE | RELEASEDIR | FLUSH | LSEEK => 24,
        FALLOCATE | IOCTL => 32,
        READ | WRITE | READDIR | READDIRPLUS => 40,
        COPY_FILE_RANGE | COPY_FILE_RANGE_64 => 56,
        SETATTR => 88,
        _ => 0,
    }
}

impl<'a> Operation<'a> {
    /// Reads a request from its fixed argument and what follows that.
    ///
    /// # Errors
    /// When something is missing.
    pub(in crate::fuse::kernel) fn read(
        opcode: u32,
        argument: &'a [u8],
        rest: &'a [u8],
    ) -> Result<Self, Malformed> {
        let (mut fixed, mut rest) = (Fields(argument), Fields(rest));
        Ok(match opcode {
            LOOKUP => Self::Lookup { name: rest.name()? },
            UNLINK => Self::Unlink { name: rest.name()? },
            RMDIR => Self::Rmdir { name: rest.name()? },
            REMOVEXATTR => Self::Removexattr { name: rest.name()? },
            SYMLINK | MKNOD | MKDIR | RENAME | RENAME2 | LINK | CREATE | TMPFILE => {
                Self::name(opcode, &mut fixed, &mut rest)?
            }
            SETXATTR | GETXATTR | LISTXATTR => Self::xattr(opcode, &mut fixed, &mut rest)?,
            GETATTR => Self::Getattr,
            SETATTR => Self::Setattr(Setattr::read(&mut fixed)?),
            READLINK => Self::Readlink,
            STATFS => Self::Statfs,
            FORGET => Self::Forget {
                count: fixed.u64()?,
            },
            BATCH_FORGET => Self::BatchForget { nodes: rest.0 },
            OPEN => Self::Open {
                flags: fixed.u32()?,
            },
            READ | READDIR | READDIRPLUS => Self::reading(opcode, &mut fixed)?,
            WRITE => Self::write(&mut fixed, &mut rest)?,
            RELEASE => Self::Release {
                handle: fixed.u64()?,
            },
            FSYNC => Self::Fsync {
                handle: fixed.u64()?,
                flags: fixed.u32()?,
            },
            FALLOCATE => Self::Fallocate {
                handle: fixed.u64()?,
                offset: fixed.u64()?,
                length: fixed.u64()?,
                mode: fixed.u32()?,
            },
            LSEEK => Self::Lseek {
                handle: fixed.u64()?,
                offset: fixed.u64()?,
                whence: fixed.u32()?,
            },
            COPY_FILE_RANGE | COPY_FILE_RANGE_64 => Self::copy(opcode, &mut fixed)?,
            FLUSH => Self::Flush,
            FSYNCDIR => Self::Fsyncdir,
            OPENDIR => Self::Opendir,
            RELEASEDIR => Self::Releasedir,
            SYNCFS => Self::Syncfs,
            INTERRUPT => Self::Interrupt,
            DESTROY => Self::Destroy,
            IOCTL => Self::Ioctl,
            INIT => Self::Init(InitRequest::read(&mut rest)?),
            _ => Self::Other,
        })
    }

    /// Whether a request carries bytes to be written.
    pub(in crate::fuse::kernel) const fn is_write(opcode: u32) -> bool {
        opcode == WRITE
    }

    /// A request that makes or moves a name.
    fn name(opcode: u32, fixed: &mut Fields<'a>, rest: &mut Fields<'a>) -> Result<Self, Malformed> {
        Ok(match opcode {
            SYMLINK => Self::Symlink {
                name: rest.name()?,
                target: rest.name()?,
            },
            MKNOD => Self::Mknod {
                mode: fixed.u32()?,
                device: fixed.u32()?,
                umask: fixed.u32()?,
                name: rest.name()?,
            },
            MKDIR => Self::Mkdir {
                mode: fixed.u32()?,
                umask: fixed.u32()?,
                name: rest.name()?,
            },
            RENAME | RENAME2 => Self::Rename {
                folder: fixed.u64()?,
                flags: if opcode == RENAME2 { fixed.u32()? } else { 0 },
                name: rest.name()?,
                new_name: rest.name()?,
            },
            LINK => Self::Link {
                node: fixed.u64()?,
                name: rest.name()?,
            },
            CREATE => Self::Create {
                flags: fixed.u32()?,
                mode: fixed.u32()?,
                umask: fixed.u32()?,
                name: rest.name()?,
            },
            _ => Self::Tmpfile {
                flags: fixed.u32()?,
                mode: fixed.u32()?,
                umask: fixed.u32()?,
            },
        })
    }

    /// A request about extended attributes.
    fn xattr(
        opcode: u32,
        fixed: &mut Fields<'a>,
        rest: &mut Fields<'a>,
    ) -> Result<Self, Malformed> {
        let size = fixed.u32()?;
        Ok(match opcode {
            GETXATTR => Self::Getxattr {
                size,
                name: rest.name()?,
            },
            LISTXATTR => Self::Listxattr { size },
            _ => Self::Setxattr {
                flags: fixed.u32()?,
                // Kernels before 7.33 do not say.
                kills: fixed
                    .u32()
                    .is_ok_and(|more| more & SETXATTR_ACL_KILL_SGID != 0),
                name: rest.name()?,
                value: rest.take(usize::try_from(size).map_err(|_| Malformed)?)?,
            },
        })
    }

    /// A request for content, of a file or of a directory.
    fn reading(opcode: u32, fixed: &mut Fields<'a>) -> Result<Self, Malformed> {
        let (handle, offset, size) = (fixed.u64()?, fixed.u64()?, fixed.u32()?);
        Ok(match opcode {
            READDIR => Self::Readdir { offset, size },
            READDIRPLUS => Self::Readdirplus { offset, size },
            _ => Self::Read {
                handle,
                offset,
                size,
            },
        })
    }

    fn write(fixed: &mut Fields<'a>, rest: &mut Fields<'a>) -> Result<Self, Malformed> {
        let (handle, offset, size) = (fixed.u64()?, fixed.u64()?, fixed.u32()?);
        Ok(Self::Write {
            handle,
            offset,
            kills: fixed.u32()? & WRITE_KILL_SUIDGID != 0,
            bytes: rest.take(usize::try_from(size).map_err(|_| Malformed)?)?,
        })
    }

    fn copy(opcode: u32, fixed: &mut Fields<'a>) -> Result<Self, Malformed> {
        let from = (fixed.u64()?, fixed.u64()?);
        // The node that is written: its handle says the same.
        fixed.skip(8)?;
        Ok(Self::CopyFileRange {
            from,
            to: (fixed.u64()?, fixed.u64()?),
            length: fixed.u64()?,
            wide: opcode == COPY_FILE_RANGE_64,
        })
    }
}

impl Setattr {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        let valid = fields.u32()?;
        fields.skip(4 + 8)?;
        let size = fields.u64()?;
        fields.skip(8)?;
        let (atime, mtime) = (fields.u64()?, fields.u64()?);
        fields.skip(8)?;
        let (atime_rest, mtime_rest) = (fields.u32()?, fields.u32()?);
        fields.skip(4)?;
        let mode = fields.u32()?;
        fields.skip(4)?;
        let (uid, gid) = (fields.u32()?, fields.u32()?);
        let given = |bit: u32| valid & bit != 0;
        let time = |bit, now, seconds, rest| match (given(bit), given(now)) {
            (true, true) => Some(SetTime::Now),
            (true, false) => Some(SetTime::At(nanoseconds(seconds, rest))),
            (false, _) => None,
        };
        Ok(Self {
            mode: given(FATTR_MODE).then_some(mode),
            uid: given(FATTR_UID).then_some(uid),
            gid: given(FATTR_GID).then_some(gid),
            size: given(FATTR_SIZE).then_some(size),
            atime: time(FATTR_ATIME, FATTR_ATIME_NOW, atime, atime_rest),
            mtime: time(FATTR_MTIME, FATTR_MTIME_NOW, mtime, mtime_rest),
            kills: given(FATTR_KILL_SUIDGID),
        })
    }
}

/// The nodes of a BATCH_FORGET, each with the references that the kernel dropped.
pub(in crate::fuse::kernel) fn forgotten(nodes: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    let mut fields = Fields(nodes);
    std::iter::from_fn(move || Some((fields.u64().ok()?, fields.u64().ok()?)))
}

/// What a request that is not known here is answered with, so that the kernel does not send it
/// again where it can do without.
pub(in crate::fuse::kernel) const fn refusal(operation: &Operation<'_>) -> Errno {
    match operation {
        Operation::Ioctl => Errno::NOTTY,
        _ => Errno::NOSYS,
    }
}

/// Seconds before the epoch come as what they are in two's complement.
fn nanoseconds(seconds: u64, rest: u32) -> i64 {
    let whole = seconds.cast_signed().saturating_mul(1_000_000_000);
    whole.saturating_add(i64::from(rest))
}

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const SETATTR: u32 = 4;
const READLINK: u32 = 5;
const SYMLINK: u32 = 6;
const MKNOD: u32 = 8;
const MKDIR: u32 = 9;
const UNLINK: u32 = 10;
const RMDIR: u32 = 11;
const RENAME: u32 = 12;
const LINK: u32 = 13;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const FSYNC: u32 = 20;
const SETXATTR: u32 = 21;
const GETXATTR: u32 = 22;
const LISTXATTR: u32 = 23;
const REMOVEXATTR: u32 = 24;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const READDIR: u32 = 28;
const RELEASEDIR: u32 = 29;
const FSYNCDIR: u32 = 30;
const CREATE: u32 = 35;
const INTERRUPT: u32 = 36;
const DESTROY: u32 = 38;
const IOCTL: u32 = 39;
const BATCH_FORGET: u32 = 42;
const FALLOCATE: u32 = 43;
const READDIRPLUS: u32 = 44;
const RENAME2: u32 = 45;
const LSEEK: u32 = 46;
const COPY_FILE_RANGE: u32 = 47;
const SYNCFS: u32 = 50;
const TMPFILE: u32 = 51;
const COPY_FILE_RANGE_64: u32 = 53;

const FATTR_MODE: u32 = 1 << 0;
const FATTR_UID: u32 = 1 << 1;
const FATTR_GID: u32 = 1 << 2;
const FATTR_SIZE: u32 = 1 << 3;
const FATTR_ATIME: u32 = 1 << 4;
const FATTR_MTIME: u32 = 1 << 5;
const FATTR_ATIME_NOW: u32 = 1 << 7;
const FATTR_MTIME_NOW: u32 = 1 << 8;
const FATTR_KILL_SUIDGID: u32 = 1 << 11;
const WRITE_KILL_SUIDGID: u32 = 1 << 2;
const SETXATTR_ACL_KILL_SGID: u32 = 1 << 0;
