//! Segment files: their names, their 64-byte header, and how they are opened.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::frame::{Chain, Tip};
use super::{JournalError, Seq};

/// Bytes of a segment before its first frame.
pub(super) const SEGMENT_HEADER: usize = 64;

const MAGIC: &[u8; 8] = b"AEGISJNL";

/// The format that this build writes and the only one it reads.
const VERSION: u32 = 1;

/// What a segment says about itself: `magic [u8; 8] | version u32 | index u32 | first u64 |
/// chain [u8; 32] | reserved u32 | check u32`. The check is the CRC-32 of the 60 bytes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    /// The segment's number.
    pub(super) index: u32,
    /// The number of its first entry.
    pub(super) first: Seq,
    /// The chain value that its first frame hangs on.
    pub(super) chain: Chain,
}

impl SegmentHeader {
    pub(super) const fn new(index: u32, tip: Tip) -> Self {
        Self {
            index,
            first: tip.seq,
            chain: tip.chain,
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SEGMENT_HEADER);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.index.to_le_bytes());
        bytes.extend_from_slice(&self.first.to_le_bytes());
        bytes.extend_from_slice(&self.chain);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// Parses a header; says why when it is not one that this build reads.
    pub(super) fn decode(bytes: &[u8; SEGMENT_HEADER]) -> Result<Self, &'static str> {
        let damaged = "the check of the segment's header does not match";
        let (magic, rest) = bytes.split_first_chunk::<8>().ok_or(damaged)?;
        if magic != MAGIC {
            return Err("the segment does not start with the journal's magic");
        }
        let (version, rest) = rest.split_first_chunk::<4>().ok_or(damaged)?;
        if *version != VERSION.to_le_bytes() {
            return Err("the segment has a format version that this build does not read");
        }
        let (index, rest) = rest.split_first_chunk::<4>().ok_or(damaged)?;
        let (first, rest) = rest.split_first_chunk::<8>().ok_or(damaged)?;
        let header = Self {
            index: u32::from_le_bytes(*index),
            first: u64::from_le_bytes(*first),
            chain: *rest.first_chunk::<32>().ok_or(damaged)?,
        };
        if header.encode() == bytes {
            Ok(header)
        } else {
            Err(damaged)
        }
    }

    /// Why `bytes` are not this header, if they are not.
    pub(super) fn mismatch(&self, bytes: &[u8; SEGMENT_HEADER]) -> Option<&'static str> {
        match Self::decode(bytes) {
            Err(reason) => Some(reason),
            Ok(found) if found != *self => Some("the segment does not continue the one before"),
            Ok(_) => None,
        }
    }
}

/// The path of segment `index`.
pub(super) fn path(directory: &Path, index: u32) -> PathBuf {
    directory.join(format!("{index:08}.aej"))
}

/// The numbers of the segments in `directory`, ascending.
pub(super) fn list(directory: &Path) -> Result<Vec<u32>, JournalError> {
    let failed = |source| JournalError::io(directory, source);
    let mut found = Vec::new();
    for item in fs::read_dir(directory).map_err(failed)? {
        let name = item.map_err(failed)?.file_name();
        let index = name.to_str().and_then(|name| name.strip_suffix(".aej"));
        let index = index.and_then(|index| index.parse::<u32>().ok());
        // Only what `path` gives: a file manager's copy of a segment is none.
        found.extend(index.filter(|index| path(directory, *index).file_name() == Some(&name)));
    }
    found.sort_unstable();
    Ok(found)
}

/// Makes a segment that continues `tip`; nothing stays behind when it can not be written whole.
pub(super) fn create(directory: &Path, index: u32, tip: Tip) -> Result<File, JournalError> {
    let path = path(directory, index);
    let failed = |source| JournalError::io(&path, source);
    let mut options = OpenOptions::new();
    let file = options
        .append(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .map_err(failed)?;
    let written = write_whole(&file, &SegmentHeader::new(index, tip).encode());
    if let Err(source) = written.and_then(|()| sync_directory(directory)) {
        drop(fs::remove_file(&path));
        return Err(failed(source));
    }
    Ok(file)
}

/// Opens an existing segment for appending.
pub(super) fn open(path: &Path) -> Result<File, JournalError> {
    OpenOptions::new()
        .append(true)
        .open(path)
        .map_err(|source| JournalError::io(path, source))
}

/// Writes `bytes` with one write(2), so that a concurrent reader and a crash see a prefix of one
/// frame at most. When that falls short, a second one tells why (write(2)): a full disk, a quota or
/// a limit.
pub(super) fn write_whole(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)
}

/// A new name is durable only when its directory is (fsync(2)).
fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
