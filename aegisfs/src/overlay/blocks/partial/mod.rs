//! A content file that is not all there: blocks are taken from below when they are first written to.
//!
//! Whoever is killed between any two steps leaves a file that reads as before or after the operation:
//! a block's bytes are written first, then the map says that it is here, then the operation's own
//! bytes come. Of the host's file only one version is ever taken; when it has gone before all of it
//! was copied, the file is torn: what is missing answers EIO.

mod up;

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FallocateFlags, fallocate, fdatasync, fstat, ftruncate};
use rustix::io::Errno;

use super::below::{Below, HostFile, Standing};
use super::map::{Block, Map, Origin};
use crate::overlay::attr::Stat;
use crate::overlay::bytes::{next_data, next_hole, read_full, write_all};
use crate::sys::lease::{self, Listener};

/// A content file with something below.
#[derive(Debug)]
pub(crate) struct Partial {
    file: Arc<File>,
    map: Map,
    below: Below,
    /// Held while blocks come up, so that nothing from below lands on what was written since.
    changing: Mutex<()>,
    /// Blocks that are still below.
    left: AtomicU64,
    whole: AtomicBool,
    torn: AtomicBool,
    /// Who clears away when nothing is left below; nobody for a file that is only read.
    keeper: Option<Listener>,
}

impl Partial {
    pub(super) fn new(file: Arc<File>, map: Map, below: Below, keeper: Option<Listener>) -> Self {
        let left = map.missing();
        let torn = map.header().torn;
        Self {
            file,
            map,
            below,
            changing: Mutex::new(()),
            left: AtomicU64::new(left),
            whole: AtomicBool::new(left == 0),
            torn: AtomicBool::new(torn),
            keeper,
        }
    }

    /// The content file itself; only where [`Partial::is_whole`] is it all there.
    pub(crate) const fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Whether nothing is left below.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole.load(Ordering::Acquire)
    }

    /// Whether something is missing for good.
    pub(crate) fn is_torn(&self) -> bool {
        let torn = self.torn.load(Ordering::Acquire) || self.below.is_torn();
        torn && !self.is_whole()
    }

    /// Blocks of 512 bytes that what is still below holds, as far as can be told without looking
    /// for its holes.
    pub(crate) fn blocks_below(&self) -> u64 {
        let missing = self.left.load(Ordering::Acquire) * self.map.block();
        let missing = missing.min(self.map.limit()).div_ceil(512);
        missing.min(self.below.blocks())
    }

    /// The file's length.
    pub(crate) fn size(&self) -> Result<u64, Errno> {
        Ok(Stat::from(fstat(&*self.file)?).size)
    }

    /// Fills `bytes` from `offset` on; returns how many there were, fewer only at the end.
    pub(crate) fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, Errno> {
        if self.is_whole() {
            return read_full(&self.file, bytes, offset);
        }
        let end = self.size()?.min(offset.saturating_add(bytes.len() as u64));
        let mut at = offset;
        while at < end {
            let (here, until) = self.map.run(at, end);
            let part = part(bytes, at - offset, until - offset);
            let done = if here {
                read_zero_padded(&self.file, part, at)?;
                true
            } else {
                self.read_below(part, at)?
            };
            at = if done { until } else { at };
        }
        Ok(length(end.saturating_sub(offset)))
    }

    /// Writes all of `bytes`.
    pub(crate) fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), Errno> {
        let end = offset.saturating_add(bytes.len() as u64);
        if self.is_whole() || !self.map.is_any_below(offset, end) {
            return write_all(&self.file, bytes, offset);
        }
        let _changing = self.change();
        self.bring_edges(offset, end)?;
        write_all(&self.file, bytes, offset)?;
        let block = self.map.block();
        self.note(offset / block, end.div_ceil(block), Block::Here)
    }

    /// Sets the length. Of what is below, only what is before the shortest length ever shows.
    pub(crate) fn truncate(&self, size: u64) -> Result<(), Errno> {
        let _changing = self.change();
        // A map that still shows more than there is left is cut when it is read back.
        ftruncate(&*self.file, size)?;
        if !self.is_whole() {
            self.map.cut(size)?;
            self.left.store(self.map.missing(), Ordering::Release);
            self.finish();
        }
        Ok(())
    }

    /// Allocates, punches or zeroes a range (fallocate(2)).
    pub(crate) fn allocate(
        &self,
        mode: FallocateFlags,
        offset: u64,
        length: u64,
    ) -> Result<(), Errno> {
        let emptied = FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE;
        if !(FallocateFlags::KEEP_SIZE | emptied).contains(mode) {
            self.fill()?;
        }
        if !mode.intersects(emptied) || self.is_whole() {
            return fallocate(&*self.file, mode, offset, length);
        }
        let _changing = self.change();
        let end = offset.saturating_add(length);
        self.bring_edges(offset, end)?;
        fallocate(&*self.file, mode, offset, length)?;
        let (first, end) = self.emptied(offset, end);
        self.note(first, end, Block::Hollow)
    }

    /// Where data begins at or after `offset`; `end` when there is none before it.
    pub(crate) fn next_data(&self, offset: u64, end: u64) -> u64 {
        self.next(offset, end, next_data, Below::next_data)
    }

    /// Where the data at `offset` ends; `end` when it does not end before.
    pub(crate) fn next_hole(&self, offset: u64, end: u64) -> u64 {
        self.next(offset, end, next_hole, Below::next_hole)
    }

    /// Makes the content durable, and then the map that speaks of it.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        if let Below::Older(older) = &self.below {
            older.sync()?;
        }
        fdatasync(&*self.file)?;
        self.map.sync()
    }

    /// Gives up what is still below: it is lost, and says so.
    pub(super) fn tear(&self) {
        self.torn.store(true, Ordering::Release);
        // Not noted, the next start finds the host's file changed.
        let _ = self.map.change(|header| header.torn = true);
    }

    /// The host's file that is below, when one is.
    pub(super) const fn host(&self) -> Option<&HostFile> {
        match &self.below {
            Below::Host(host) => Some(host),
            _ => None,
        }
    }

    /// Whether content of this name may still show in it.
    pub(super) fn shows(&self, name: &str) -> bool {
        let shown = matches!(self.map.header().below, Origin::Content(below) if below == name);
        shown && !self.is_whole()
    }

    pub(super) fn depth(&self) -> usize {
        self.below.depth()
    }

    /// Whether nothing can be taken from below any more.
    fn is_given_up(&self) -> bool {
        self.torn.load(Ordering::Acquire) || matches!(self.below, Below::Lost)
    }

    /// Notes what is known of the host's file while nobody can have written to it.
    pub(super) fn keep_up(&self) {
        if let Some(host) = self.host()
            && host.standing() == Standing::Renewed
        {
            self.renew();
        }
    }

    /// The blocks that may be holes once the bytes from `offset` to `end` are. A file system zeroes
    /// parts of pages, so of blocks of one page only whole ones can be.
    fn emptied(&self, offset: u64, end: u64) -> (u64, u64) {
        let block = self.map.block();
        if self.map.has_small_blocks() {
            let end = if end >= self.map.limit() {
                end.div_ceil(block)
            } else {
                end / block
            };
            (offset.div_ceil(block), end)
        } else {
            (offset / block, end.div_ceil(block))
        }
    }

    fn note(&self, first: u64, end: u64, state: Block) -> Result<(), Errno> {
        let end = end.min(self.map.limit().div_ceil(self.map.block()));
        if first >= end {
            return Ok(());
        }
        let came = self.map.missing_in(first, end);
        self.map.note(first, end, state)?;
        self.left.fetch_sub(came, Ordering::AcqRel);
        self.finish();
        Ok(())
    }

    /// Says so when nothing is left below.
    fn finish(&self) {
        if self.left.load(Ordering::Acquire) > 0 || self.whole.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(keeper) = self.keeper {
            keeper.wake();
        }
    }

    fn next(
        &self,
        offset: u64,
        end: u64,
        here_next: fn(&File, u64, u64) -> u64,
        below_next: fn(&Below, u64, u64) -> u64,
    ) -> u64 {
        let mut at = offset;
        while at < end {
            let (here, until) = self.map.run(at, end);
            let found = if here {
                here_next(&self.file, at, until)
            } else {
                below_next(&self.below, at, until)
            };
            if found < until {
                return found;
            }
            at = until;
        }
        end
    }

    fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads what a content file has; beyond its end there are zeros.
fn read_zero_padded(file: &File, bytes: &mut [u8], offset: u64) -> Result<(), Errno> {
    let read = read_full(file, bytes, offset)?;
    if let Some(rest) = bytes.get_mut(read..) {
        rest.fill(0);
    }
    Ok(())
}

fn part(bytes: &mut [u8], from: u64, until: u64) -> &mut [u8] {
    bytes
        .get_mut(length(from)..length(until))
        .unwrap_or_default()
}

fn length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Where two descriptors share the file the lease would outlive this.
        if let Some(host) = self.host() {
            lease::release(host.file());
        }
    }
}
