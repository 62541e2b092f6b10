//! The agreement at the start of a connection (INIT).

use std::ops::{BitAnd, BitOr};

use rustix::param::page_size;

use super::bytes::{Fields, Malformed};

/// The major version.
const MAJOR: u32 = 7;
/// The oldest and the newest minor version that is spoken here.
const MINORS: (u32, u32) = (31, 45);
/// The most pages in a request to a kernel that does not let this side choose.
const PAGES: u16 = 32;

/// What one side can do, or both agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::fuse::kernel) struct Flags(u64);

/// What the kernel says of itself (`struct fuse_init_in`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fuse::kernel) struct InitRequest {
    /// Major and minor version.
    pub(in crate::fuse::kernel) version: (u32, u32),
    /// Bytes that it reads ahead.
    pub(in crate::fuse::kernel) max_readahead: u32,
    /// What it can do.
    pub(in crate::fuse::kernel) flags: Flags,
}

/// What this side would like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fuse::kernel) struct Wish {
    /// What is used where the kernel can.
    pub(in crate::fuse::kernel) flags: Flags,
    /// The most bytes in one write.
    pub(in crate::fuse::kernel) largest_write: u32,
    /// Requests under way that nobody waits for.
    pub(in crate::fuse::kernel) max_background: u16,
}

/// What both sides go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fuse::kernel) struct Agreed {
    /// The minor version.
    pub(in crate::fuse::kernel) minor: u32,
    /// What is used.
    pub(in crate::fuse::kernel) flags: Flags,
    /// The most bytes in one write.
    pub(in crate::fuse::kernel) largest_write: u32,
    /// Bytes that the kernel reads ahead.
    pub(in crate::fuse::kernel) max_readahead: u32,
    /// Requests under way that nobody waits for.
    pub(in crate::fuse::kernel) max_background: u16,
}

/// The first answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fuse::kernel) enum Agreement {
    /// Both speak it.
    Reached(Agreed),
    /// The kernel is newer by a major version; it asks again with this one.
    AskAgain,
    /// It is too old.
    TooOld,
}

impl Flags {
    /// Several reads of one file at once.
    pub(in crate::fuse::kernel) const ASYNC_READ: Self = Self(1 << 0);
    pub(in crate::fuse::kernel) const BIG_WRITES: Self = Self(1 << 5);
    /// The umask comes along and is this side's to apply.
    pub(in crate::fuse::kernel) const DONT_MASK: Self = Self(1 << 6);
    /// Pages go when size or time of modification turn out to have changed.
    pub(in crate::fuse::kernel) const AUTO_INVAL_DATA: Self = Self(1 << 12);
    pub(in crate::fuse::kernel) const DO_READDIRPLUS: Self = Self(1 << 13);
    pub(in crate::fuse::kernel) const READDIRPLUS_AUTO: Self = Self(1 << 14);
    pub(in crate::fuse::kernel) const ASYNC_DIO: Self = Self(1 << 15);
    pub(in crate::fuse::kernel) const WRITEBACK_CACHE: Self = Self(1 << 16);
    pub(in crate::fuse::kernel) const PARALLEL_DIROPS: Self = Self(1 << 18);
    /// The kernel asks for access control lists and checks them.
    pub(in crate::fuse::kernel) const POSIX_ACL: Self = Self(1 << 20);
    /// `max_pages` of the answer counts.
    pub(in crate::fuse::kernel) const MAX_PAGES: Self = Self(1 << 22);
    pub(in crate::fuse::kernel) const CACHE_SYMLINKS: Self = Self(1 << 23);
    /// ENOSYS to OPENDIR stands for all directories.
    pub(in crate::fuse::kernel) const NO_OPENDIR_SUPPORT: Self = Self(1 << 24);
    /// This side takes set-id bits away; else the kernel asks for `security.capability` before
    /// every write.
    pub(in crate::fuse::kernel) const HANDLE_KILLPRIV_V2: Self = Self(1 << 28);
    pub(in crate::fuse::kernel) const SETXATTR_EXT: Self = Self(1 << 29);
    /// `flags2` counts.
    pub(in crate::fuse::kernel) const INIT_EXT: Self = Self(1 << 30);
    /// A file opened past the page cache can be mapped all the same.
    pub(in crate::fuse::kernel) const DIRECT_IO_ALLOW_MMAP: Self = Self(1 << 36);
    pub(in crate::fuse::kernel) const PASSTHROUGH: Self = Self(1 << 37);
    pub(in crate::fuse::kernel) const OVER_IO_URING: Self = Self(1 << 41);

    /// Whether all of these are among them.
    pub(in crate::fuse::kernel) const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Both of them.
    pub(in crate::fuse::kernel) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn halves(self) -> (u32, u32) {
        ((self.0 & 0xffff_ffff) as u32, (self.0 >> 32) as u32)
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

impl BitAnd for Flags {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl InitRequest {
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        let version = (fields.u32()?, fields.u32()?);
        let (max_readahead, flags) = (fields.u32()?, fields.u32()?);
        let mut flags = Flags(u64::from(flags));
        // Kernels before 7.36 send less.
        if flags.has(Flags::INIT_EXT) {
            flags = flags | Flags(u64::from(fields.u32()?) << 32);
        }
        Ok(Self {
            version,
            max_readahead,
            flags,
        })
    }

    /// What both sides can do of what this one would like.
    pub(in crate::fuse::kernel) fn agree(&self, wish: &Wish) -> Agreement {
        let (major, minor) = self.version;
        if major > MAJOR {
            return Agreement::AskAgain;
        }
        if major < MAJOR || minor < MINORS.0 {
            return Agreement::TooOld;
        }
        Agreement::Reached(Agreed {
            minor: minor.min(MINORS.1),
            flags: self.flags & wish.flags,
            largest_write: wish.largest_write,
            max_readahead: self.max_readahead,
            max_background: wish.max_background,
        })
    }
}

impl Agreed {
    /// The most bytes that follow the header of a request or an answer.
    pub(in crate::fuse::kernel) fn largest_message(&self) -> usize {
        usize::from(self.pages()) * page_size()
    }

    /// The most pages in one request.
    fn pages(&self) -> u16 {
        if !self.flags.has(Flags::MAX_PAGES) {
            return PAGES;
        }
        let pages = (self.largest_write as usize).div_ceil(page_size());
        u16::try_from(pages).unwrap_or(u16::MAX)
    }

    /// The body of the answer (`struct fuse_init_out`).
    pub(in crate::fuse::kernel) fn encode(&self) -> [u8; 64] {
        let (low, high) = self.flags.halves();
        // Three quarters, as the kernel itself would.
        let congestion = self.max_background - self.max_background / 4;
        // A file system of its own below, and one on which that lies, for passthrough.
        let depth = u32::from(self.flags.has(Flags::PASSTHROUGH));
        let mut body = [0; 64];
        let fields: [&[u8]; 11] = [
            &MAJOR.to_ne_bytes(),
            &self.minor.to_ne_bytes(),
            &self.max_readahead.to_ne_bytes(),
            &low.to_ne_bytes(),
            &self.max_background.to_ne_bytes(),
            &congestion.to_ne_bytes(),
            &self.largest_write.to_ne_bytes(),
            // Times are exact to the nanosecond.
            &1_u32.to_ne_bytes(),
            &[self.pages().to_ne_bytes(), 0_u16.to_ne_bytes()].concat(),
            &high.to_ne_bytes(),
            &depth.to_ne_bytes(),
        ];
        for (byte, value) in body.iter_mut().zip(fields.into_iter().flatten()) {
            *byte = *value;
        }
        body
    }
}

/// The body of the answer to a kernel that is newer by a major version.
pub(in crate::fuse::kernel) fn ask_again() -> [u8; 8] {
    let mut body = [0; 8];
    let version = [MAJOR.to_ne_bytes(), MINORS.1.to_ne_bytes()];
    for (byte, value) in body.iter_mut().zip(version.iter().flatten()) {
        *byte = *value;
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Linux 6.18 sent.
    fn newest() -> InitRequest {
        let mut bytes = Vec::new();
        for field in [7, 45, 131_072, 0x73ff_fffb_u32, 0x7ff] {
            bytes.extend_from_slice(&field.to_ne_bytes());
        }
        bytes.resize(64, 0);
        InitRequest::read(&mut Fields(&bytes)).unwrap()
    }

    const WISH: Wish = Wish {
        flags: Flags::ASYNC_READ
            .union(Flags::PASSTHROUGH)
            .union(Flags::WRITEBACK_CACHE)
            .union(Flags::MAX_PAGES),
        largest_write: 1 << 20,
        max_background: 64,
    };

    #[test]
    fn both_sides_use_what_both_can() {
        let Agreement::Reached(agreed) = newest().agree(&WISH) else {
            panic!("no agreement");
        };
        assert_eq!(agreed.flags, WISH.flags);
        let body = agreed.encode();
        let mut fields = Fields(&body);
        assert_eq!((fields.u32(), fields.u32()), (Ok(7), Ok(45)));
        assert_eq!(fields.u32(), Ok(131_072));
        assert_eq!(fields.u32(), Ok(1 | 1 << 16 | 1 << 22));
        assert_eq!(fields.take(4), Ok(&[64, 0, 48, 0][..]));
        assert_eq!((fields.u32(), fields.u32()), (Ok(1 << 20), Ok(1)));
        assert_eq!(fields.take(4), Ok(&[0, 1, 0, 0][..]));
        assert_eq!((fields.u32(), fields.u32()), (Ok(1 << 5), Ok(1)));
        assert_eq!(fields.0, [0; 24]);
    }

    #[test]
    fn an_older_kernel_gets_less_and_a_stranger_nothing() {
        let old = InitRequest {
            version: (7, 31),
            flags: Flags::ASYNC_READ,
            ..newest()
        };
        let Agreement::Reached(agreed) = old.agree(&WISH) else {
            panic!("no agreement");
        };
        assert_eq!((agreed.minor, agreed.flags), (31, Flags::ASYNC_READ));
        for (version, said) in [
            ((7, 30), Agreement::TooOld),
            ((6, 40), Agreement::TooOld),
            ((8, 0), Agreement::AskAgain),
        ] {
            let request = InitRequest {
                version,
                ..newest()
            };
            assert_eq!(request.agree(&WISH), said);
        }
        assert_eq!(ask_again().len(), 8);
    }
}
