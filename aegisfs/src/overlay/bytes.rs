//! Whole reads and writes of a descriptor, and the holes in a file.

use std::fs::File;

use rustix::fs::{SeekFrom, seek};
use rustix::io::{Errno, pread, pwrite};

/// Writes everything, or says how it ended.
pub(crate) fn write_all(file: &File, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match pwrite(file, bytes, offset) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => {
                bytes = bytes.get(written..).unwrap_or_default();
                offset += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Fills `bytes`; returns how many there were, fewer only at the end of the file.
pub(crate) fn read_full(file: &File, bytes: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match pread(file, rest, offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(filled)
}

/// Where data starts at or after `offset`, `end` when there is none before it. A file system that
/// can not tell has no holes.
pub(crate) fn next_data(file: &File, offset: u64, end: u64) -> u64 {
    match seek(file, SeekFrom::Data(offset)) {
        Ok(data) => data.clamp(offset, end),
        // Only a hole is left.
        Err(Errno::NXIO) => end,
        Err(_) => offset,
    }
}

/// Where the data at `offset` ends, `end` when it does not end before.
pub(crate) fn next_hole(file: &File, offset: u64, end: u64) -> u64 {
    match seek(file, SeekFrom::Hole(offset)) {
        Ok(hole) => hole.clamp(offset, end),
        // The offset is beyond the end of the file.
        Err(Errno::NXIO) => offset,
        Err(_) => end,
    }
}
