//! Answers that several requests have in common.

use fuser::{Errno, Generation, ReplyEmpty, ReplyEntry, ReplyXattr};

use super::convert::{attributes, trust};
use crate::overlay::Entry;

/// The tree is not exported by NFS, which alone asks for others.
pub(super) const GENERATION: Generation = Generation(0);

pub(super) fn reply_entry(entry: Result<Entry, Errno>, reply: ReplyEntry) {
    match entry {
        Ok(entry) => reply.entry_with_ttls(
            &trust(entry.attr.follows_host),
            &trust(entry.follows_host),
            &attributes(&entry.attr),
            GENERATION,
        ),
        Err(errno) => reply.error(errno),
    }
}

pub(super) fn reply_empty(done: Result<(), Errno>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

/// The answer to a request for bytes whose size the caller may only want to know.
pub(super) fn reply_bytes(bytes: Result<Vec<u8>, Errno>, size: u32, reply: ReplyXattr) {
    match bytes {
        Ok(bytes) if size == 0 => reply.size(u32::try_from(bytes.len()).unwrap_or(u32::MAX)),
        Ok(bytes) if bytes.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(bytes) => reply.data(&bytes),
        Err(errno) => reply.error(errno),
    }
}
