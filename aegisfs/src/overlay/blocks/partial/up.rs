//! How blocks come up: what is read from below is believed only while it is the version that it
//! should be.

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::Partial;
use crate::overlay::blocks::below::{HostFile, Standing};
use crate::overlay::blocks::map::Block;
use crate::overlay::bytes::{next_data, write_all};

/// Bytes that are copied at once.
const CHUNK: u64 = 1 << 20;

impl Partial {
    /// Takes everything that is still below.
    ///
    /// # Errors
    /// EIO when it is not there any more, ENOSPC.
    pub(crate) fn fill(&self) -> Result<(), Errno> {
        let mut at = 0;
        while let Some(next) = self.fill_some(at)? {
            at = next;
        }
        Ok(())
    }

    /// Reads from below; false when a block of the range came up meanwhile.
    pub(super) fn read_below(&self, bytes: &mut [u8], offset: u64) -> Result<bool, Errno> {
        if self.is_given_up() {
            return Err(Errno::IO);
        }
        self.below.read(bytes, offset)?;
        self.vouch(offset, offset + bytes.len() as u64)
    }

    /// Whether what was just taken from below is right; false when a block came up meanwhile.
    pub(in crate::overlay::blocks) fn vouch(&self, offset: u64, end: u64) -> Result<bool, Errno> {
        let standing = self.host().map_or(Standing::Same, HostFile::standing);
        // The lease goes only after all blocks are here. While one is not, the standing holds.
        if self.map.is_any_here(offset, end) {
            return Ok(false);
        }
        match standing {
            Standing::Same => Ok(true),
            Standing::Renewed => {
                self.renew();
                Ok(true)
            }
            Standing::Changed if self.keeper.is_none() && self.look_again(offset, end)? => {
                Ok(false)
            }
            Standing::Changed => {
                self.tear();
                Err(Errno::IO)
            }
        }
    }

    /// Looks whether the server that goes on writing the file knows better than this reader.
    fn look_again(&self, offset: u64, end: u64) -> Result<bool, Errno> {
        let header = self.map.refresh()?;
        let renewed = self.host().is_some_and(|host| host.follow(&header.below));
        Ok(renewed || self.map.is_any_here(offset, end))
    }

    /// Brings up the blocks of which an operation from `offset` to `end` changes a part only.
    pub(super) fn bring_edges(&self, offset: u64, end: u64) -> Result<(), Errno> {
        let block = self.map.block();
        let first = offset / block;
        let last = end.saturating_sub(1) / block;
        self.bring_edge(first, offset, end)?;
        if last != first {
            self.bring_edge(last, offset, end)?;
        }
        Ok(())
    }

    fn bring_edge(&self, number: u64, offset: u64, end: u64) -> Result<(), Errno> {
        let block = self.map.block();
        let from = number.saturating_mul(block);
        let until = from.saturating_add(block).min(self.map.limit());
        if self.map.is_here(number) || (offset <= from && end >= until) {
            return Ok(());
        }
        self.copy_up(from, until)
    }

    /// Copies whole blocks from below, and notes that they are here.
    fn copy_up(&self, from: u64, until: u64) -> Result<(), Errno> {
        let mut bytes = vec![0; super::length(until - from)];
        if !self.read_below(&mut bytes, from)? {
            return Err(Errno::IO);
        }
        write_all(&self.file, &bytes, from)?;
        let block = self.map.block();
        self.note(from / block, until.div_ceil(block), Block::Here)
    }

    /// Takes the next piece from below; tells where to go on.
    fn fill_some(&self, at: u64) -> Result<Option<u64>, Errno> {
        let _changing = self.change();
        let Some((from, until)) = self.map.next_below(at) else {
            return Ok(None);
        };
        if self.is_given_up() {
            return Err(Errno::IO);
        }
        let until = until.min(from.saturating_add(CHUNK.max(self.map.block())));
        let data = self.below.next_data(from, until);
        let hollow = if data == until {
            until
        } else {
            data / self.map.block() * self.map.block()
        };
        if hollow > from {
            self.take_hole(from, hollow)?;
            return Ok(Some(hollow));
        }
        self.copy_up(from, until)?;
        Ok(Some(until))
    }

    /// Takes a hole from below as a hole.
    fn take_hole(&self, from: u64, until: u64) -> Result<(), Errno> {
        if !self.vouch(from, until)? {
            return Err(Errno::IO);
        }
        // A write that a kill cut short may have left something there.
        if next_data(&self.file, from, until) < until {
            let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(&*self.file, mode, from, until - from)?;
        }
        let block = self.map.block();
        self.note(from / block, until.div_ceil(block), Block::Hollow)
    }

    pub(super) fn renew(&self) {
        if let Some(host) = self.host() {
            let origin = host.origin();
            // Not noted, the next start takes the file for a changed one, which is safe.
            let _ = self.map.change(|header| header.below = origin);
        }
    }
}
