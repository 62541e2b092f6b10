//! Which blocks of a content file are there. The rest is still below: in the host's file, or in the
//! node's content of an older generation.
//!
//! It lies in a file of its own beside the content: a line of JSON that says what is below, then one
//! byte for each block. A byte is written after the block that it speaks of, so whoever is killed
//! in between leaves a block that is taken from below as before.

use std::fs::File;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aegis_policies::RelPath;
use rustix::fs::fdatasync;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::overlay::attr::Version;
use crate::overlay::bytes::{read_full, write_all};

/// The format's number.
const FORMAT: u32 = 1;
/// Where the bytes of the blocks begin; the line before them holds one path of the host's at most.
const STATES_AT: u64 = 256 << 10;
/// The smallest block, which is a page: what is written by pages needs nothing from below.
const SMALLEST: u64 = 4 << 10;
/// The most blocks that a file has; larger files have larger blocks. One byte is held for each.
const MOST: u64 = 1 << 18;

/// What the map says of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Block {
    /// Not here: what is below shows.
    Below = 0,
    /// Here, with bytes written to all of it.
    Here = 1,
    /// Here, and it may be a hole.
    Hollow = 2,
}

/// What is below, and how far it shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    format: u32,
    /// Bytes in a block.
    block: u64,
    /// How many bytes of what is below show at most; what was cut off once never shows again.
    limit: u64,
    pub(super) below: Origin,
    /// Whether what is below was lost before all of it was copied.
    pub(super) torn: bool,
    /// When the machine was started that wrote this: after another start, what is not on the disk
    /// is not there.
    pub(super) boot: String,
}

/// Where the rest of the content is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Origin {
    /// In a file of the host's, when it is still this version.
    Host { path: RelPath, version: Version },
    /// In this file beside the content.
    Content(String),
}

/// The map of one content file.
#[derive(Debug)]
pub(super) struct Map {
    file: File,
    block: u64,
    limit: AtomicU64,
    blocks: Box<[AtomicU8]>,
    header: Mutex<Header>,
}

impl Header {
    /// The header of a map of which `limit` bytes are below.
    pub(super) fn new(below: Origin, limit: u64, boot: String) -> Self {
        Self {
            format: FORMAT,
            block: limit.div_ceil(MOST).next_power_of_two().max(SMALLEST),
            limit,
            below,
            torn: false,
            boot,
        }
    }

    fn count(&self) -> usize {
        usize::try_from(self.limit.div_ceil(self.block)).unwrap_or(usize::MAX)
    }
}

impl Map {
    /// Writes a map in which nothing is here, and makes it durable: a content file whose map was
    /// lost would pass for a whole one.
    pub(super) fn create(file: File, header: Header) -> Result<Self, Errno> {
        let blocks = (0..header.count()).map(|_| AtomicU8::new(0)).collect();
        let map = Self::new(file, header, blocks);
        map.write_header(&map.header())?;
        fdatasync(&map.file)?;
        Ok(map)
    }

    /// Reads a map back.
    ///
    /// # Errors
    /// EUCLEAN when it is not one.
    pub(super) fn load(file: File) -> Result<Self, Errno> {
        let header = read_header(&file)?;
        let mut bytes = vec![0; header.count()];
        read_full(&file, &mut bytes, STATES_AT)?;
        let blocks = bytes.into_iter().map(AtomicU8::new).collect();
        Ok(Self::new(file, header, blocks))
    }

    fn new(file: File, header: Header, blocks: Box<[AtomicU8]>) -> Self {
        Self {
            file,
            block: header.block,
            limit: AtomicU64::new(header.limit),
            blocks,
            header: Mutex::new(header),
        }
    }

    /// Takes up what another process wrote since.
    pub(super) fn refresh(&self) -> Result<Header, Errno> {
        let mut bytes = vec![0; self.blocks.len()];
        read_full(&self.file, &mut bytes, STATES_AT)?;
        for (block, state) in self.blocks.iter().zip(bytes) {
            block.store(state, Ordering::Release);
        }
        read_header(&self.file)
    }

    /// Bytes in a block.
    pub(super) const fn block(&self) -> u64 {
        self.block
    }

    /// How many bytes of what is below show at most.
    pub(super) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Acquire)
    }

    /// What is below, and how far it shows.
    pub(super) fn header(&self) -> Header {
        self.locked().clone()
    }

    /// Changes the header, on the file first.
    pub(super) fn change(&self, change: impl FnOnce(&mut Header)) -> Result<(), Errno> {
        let mut header = self.locked();
        let mut changed = header.clone();
        change(&mut changed);
        self.write_header(&changed)?;
        *header = changed;
        Ok(())
    }

    /// Lets no more than `limit` bytes of what is below show.
    pub(super) fn cut(&self, limit: u64) -> Result<(), Errno> {
        if limit >= self.limit() {
            return Ok(());
        }
        self.change(|header| header.limit = limit)?;
        self.limit.store(limit, Ordering::Release);
        Ok(())
    }

    /// Whether the byte at `offset` is here, and where the bytes end of which that holds; not beyond
    /// `end`. What is beyond the limit is here.
    pub(super) fn run(&self, offset: u64, end: u64) -> (bool, u64) {
        let limit = self.limit();
        if offset >= limit {
            return (true, end);
        }
        let shown = end.min(limit);
        let here = self.is_here(offset / self.block);
        let mut next = offset / self.block + 1;
        while next * self.block < shown && self.is_here(next) == here {
            next += 1;
        }
        let until = (next * self.block).min(shown);
        if here && until == limit {
            return (true, end);
        }
        (here, until)
    }

    /// The first bytes at or after `offset` that are below.
    pub(super) fn next_below(&self, offset: u64) -> Option<(u64, u64)> {
        let limit = self.limit();
        let mut at = offset;
        while at < limit {
            let (here, until) = self.run(at, limit);
            if !here {
                return Some((at, until));
            }
            at = until;
        }
        None
    }

    /// Whether a block is here.
    pub(super) fn is_here(&self, block: u64) -> bool {
        self.state(block) != Block::Below as u8 || block.saturating_mul(self.block) >= self.limit()
    }

    /// Whether any byte between `offset` and `end` is here.
    pub(super) fn is_any_here(&self, offset: u64, end: u64) -> bool {
        self.run(offset, end) != (false, end)
    }

    /// Whether any byte between `offset` and `end` is below.
    pub(super) fn is_any_below(&self, offset: u64, end: u64) -> bool {
        let mut at = offset;
        while at < end {
            let (here, until) = self.run(at, end);
            if !here {
                return true;
            }
            at = until;
        }
        false
    }

    /// Whether blocks are pages.
    pub(super) const fn has_small_blocks(&self) -> bool {
        self.block == SMALLEST
    }

    /// Whether a block is here and was written to as a whole.
    pub(super) fn is_full(&self, block: u64) -> bool {
        self.state(block) == Block::Here as u8
    }

    /// How many blocks are still below.
    pub(super) fn missing(&self) -> u64 {
        self.missing_in(0, self.limit().div_ceil(self.block))
    }

    /// How many blocks from `first` to before `end` are still below.
    pub(super) fn missing_in(&self, first: u64, end: u64) -> u64 {
        (first..end).filter(|block| !self.is_here(*block)).count() as u64
    }

    /// Notes blocks from `first` to before `end`, on the file first. One that may be a hole stays
    /// that: a write need not have reached all of it.
    pub(super) fn note(&self, first: u64, end: u64, state: Block) -> Result<(), Errno> {
        let count = usize::try_from(end.saturating_sub(first)).unwrap_or(0);
        let from = usize::try_from(first).unwrap_or(usize::MAX);
        let blocks = self.blocks.get(from..).unwrap_or_default();
        let blocks = blocks.get(..count.min(blocks.len())).unwrap_or_default();
        let next = |block: &AtomicU8| match (block.load(Ordering::Acquire), state) {
            (was, Block::Here) if was == Block::Hollow as u8 => was,
            _ => state as u8,
        };
        let bytes: Vec<u8> = blocks.iter().map(next).collect();
        write_all(&self.file, &bytes, STATES_AT + first)?;
        for (block, state) in blocks.iter().zip(bytes) {
            block.store(state, Ordering::Release);
        }
        Ok(())
    }

    /// Makes what was noted durable.
    pub(super) fn sync(&self) -> Result<(), Errno> {
        fdatasync(&self.file)
    }

    fn state(&self, block: u64) -> u8 {
        let state = usize::try_from(block)
            .ok()
            .and_then(|block| self.blocks.get(block));
        state.map_or(Block::Here as u8, |state| state.load(Ordering::Acquire))
    }

    fn write_header(&self, header: &Header) -> Result<(), Errno> {
        let mut line = serde_json::to_vec(header).map_err(|_| Errno::INVAL)?;
        line.push(b'\n');
        if line.len() as u64 > STATES_AT {
            return Err(Errno::NAMETOOLONG);
        }
        write_all(&self.file, &line, 0)
    }

    fn locked(&self) -> MutexGuard<'_, Header> {
        self.header.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the line that a map begins with.
pub(super) fn read_header(file: &File) -> Result<Header, Errno> {
    let mut bytes = vec![0; usize::try_from(STATES_AT).unwrap_or(0)];
    read_full(file, &mut bytes, 0)?;
    let line = bytes
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let header: Header = serde_json::from_slice(line).map_err(|_| Errno::UCLEAN)?;
    let fits = header.format == FORMAT
        && header.block.is_power_of_two()
        && header.block >= SMALLEST
        && header.limit.div_ceil(header.block) <= MOST;
    fits.then_some(header).ok_or(Errno::UCLEAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(limit: u64) -> (tempfile::NamedTempFile, Map) {
        let named = tempfile::NamedTempFile::new().unwrap();
        let header = Header::new(Origin::Content("a.3".into()), limit, "boot".into());
        let map = Map::create(named.reopen().unwrap(), header).unwrap();
        (named, map)
    }

    #[test]
    fn what_was_noted_is_read_back() {
        let (named, map) = map(20_000);
        assert_eq!((map.block(), map.missing()), (4096, 5));
        map.note(1, 3, Block::Here).unwrap();
        map.note(4, 5, Block::Hollow).unwrap();
        let again = Map::load(named.reopen().unwrap()).unwrap();
        assert_eq!(again.header(), map.header());
        assert_eq!(again.missing(), 2);
        assert_eq!(again.run(0, 20_000), (false, 4096));
        assert_eq!(again.run(5000, 20_000), (true, 12_288));
        assert_eq!(again.run(16_384, 50_000), (true, 50_000));
        again.note(3, 5, Block::Here).unwrap();
        assert!(again.is_full(3) && !again.is_full(4));
    }

    #[test]
    fn what_was_cut_off_is_here_for_good() {
        let (named, map) = map(20_000);
        map.cut(5000).unwrap();
        map.cut(9000).unwrap();
        assert_eq!(map.run(0, 30_000), (false, 5000));
        assert_eq!(map.run(5000, 30_000), (true, 30_000));
        assert!(map.is_any_below(4999, 5001) && !map.is_any_below(5000, 30_000));
        assert_eq!(map.missing(), 2);
        assert_eq!(Map::load(named.reopen().unwrap()).unwrap().limit(), 5000);
    }

    #[test]
    fn large_files_have_large_blocks() {
        let header = |limit| Header::new(Origin::Content(String::new()), limit, String::new());
        assert_eq!(header(1 << 30).block, 4096);
        assert_eq!(header((1 << 30) + 1).block, 8192);
        assert_eq!(header(64 << 30).block, 256 << 10);
    }

    #[test]
    fn what_is_no_map_is_refused() {
        let named = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(
            Map::load(named.reopen().unwrap()).unwrap_err(),
            Errno::UCLEAN
        );
        std::fs::write(named.path(), vec![0; 300_000]).unwrap();
        assert_eq!(
            Map::load(named.reopen().unwrap()).unwrap_err(),
            Errno::UCLEAN
        );
    }
}
