//! What shows where a content file has no block of its own.

use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aegis_policies::RelPath;
use rustix::fs::fstat;
use rustix::io::Errno;

use super::Body;
use super::map::Origin;
use crate::overlay::attr::{Stat, Version};
use crate::overlay::bytes::{next_data, next_hole, read_full};
use crate::sys::lease;

/// Where the rest of a content file is.
#[derive(Debug)]
pub(super) enum Below {
    /// The host's file.
    Host(HostFile),
    /// The node's content of an older generation, which nobody writes any more.
    Older(Body),
    /// It is not there any more.
    Lost,
}

/// A file of the host's that is held open, as far as possible under a read lease.
#[derive(Debug)]
pub(super) struct HostFile {
    file: Arc<File>,
    path: RelPath,
    /// The version that the content is of. Only attributes can move it on.
    version: Mutex<Version>,
    /// Whether a lease was taken, whatever has become of it.
    leased: bool,
}

/// Whether bytes that were just read are of the version that they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Same,
    /// The attributes changed, and nobody can have written: the content is the same.
    Renewed,
    /// Somebody may have written before they were read.
    Changed,
}

impl HostFile {
    /// A file of this version.
    pub(super) fn new(file: Arc<File>, path: RelPath, version: Version, leased: bool) -> Self {
        Self {
            file,
            path,
            version: Mutex::new(version),
            leased,
        }
    }

    /// Whether nobody on the host waits to write to it, and nobody can have written.
    pub(super) fn is_safe(&self) -> bool {
        self.leased && lease::is_intact(&*self.file)
    }

    /// Whether somebody on the host may be waiting to write to it.
    pub(super) const fn is_awaited(&self) -> bool {
        self.leased
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn origin(&self) -> Origin {
        Origin::Host {
            path: self.path.clone(),
            version: *self.version(),
        }
    }

    /// Takes up the version that another process noted; tells whether it is another one.
    pub(super) fn follow(&self, noted: &Origin) -> bool {
        let Origin::Host { version, .. } = noted else {
            return false;
        };
        std::mem::replace(&mut *self.version(), *version) != *version
    }

    /// Judges what was read before. While the lease is held and nobody waits for it, nobody wrote;
    /// after that the attributes tell, which change with the first byte that is written.
    pub(super) fn standing(&self) -> Standing {
        let mut version = self.version();
        let Ok(stat) = fstat(&*self.file) else {
            return Standing::Changed;
        };
        let now = Stat::from(stat).version();
        if now == *version {
            return Standing::Same;
        }
        if !lease::is_intact(&*self.file) {
            return Standing::Changed;
        }
        *version = now;
        Standing::Renewed
    }

    fn version(&self) -> MutexGuard<'_, Version> {
        self.version.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Below {
    /// Fills `bytes` from `offset` on; what is beyond the end is zeros.
    pub(super) fn read(&self, bytes: &mut [u8], offset: u64) -> Result<(), Errno> {
        let read = match self {
            Self::Host(host) => read_full(&host.file, bytes, offset)?,
            Self::Older(body) => body.read_at(bytes, offset)?,
            Self::Lost => return Err(Errno::IO),
        };
        if let Some(rest) = bytes.get_mut(read..) {
            rest.fill(0);
        }
        Ok(())
    }

    /// Where data begins at or after `offset`; `end` when there is none before it.
    pub(super) fn next_data(&self, offset: u64, end: u64) -> u64 {
        match self {
            Self::Host(host) => next_data(&host.file, offset, end),
            Self::Older(body) => body.next_data(offset, end),
            Self::Lost => offset,
        }
    }

    /// Where the data at `offset` ends; `end` when it does not end before.
    pub(super) fn next_hole(&self, offset: u64, end: u64) -> u64 {
        match self {
            Self::Host(host) => next_hole(&host.file, offset, end),
            Self::Older(body) => body.next_hole(offset, end),
            Self::Lost => end,
        }
    }

    /// Whether something of it is missing for good.
    pub(super) fn is_torn(&self) -> bool {
        match self {
            Self::Host(_) => false,
            Self::Older(Body::Partial(partial)) => partial.is_torn(),
            Self::Older(Body::Whole(_)) => false,
            Self::Lost => true,
        }
    }

    /// Blocks of 512 bytes that are allocated.
    pub(super) fn blocks(&self) -> u64 {
        let stat = match self {
            Self::Host(host) => fstat(&*host.file).map(Stat::from),
            Self::Older(body) => body.stat(),
            Self::Lost => return 0,
        };
        stat.map_or(0, |stat| stat.blocks)
    }

    /// How many files have to be asked at most for one byte.
    pub(super) fn depth(&self) -> usize {
        match self {
            Self::Older(body) => body.depth(),
            _ => 1,
        }
    }
}
