//! Taking content from the host: what is taken is one version of the file.

use std::fs::File;
use std::sync::Arc;

use aegis_policies::RelPath;
use aegis_policies::journal::{Baseline, LowerFile, NodeId, NodeKind};
use rustix::fs::{fstat, ftruncate, ioctl_ficlone};
use rustix::io::pread;
use sha2::{Digest, Sha256};

use super::attr::Stat;
use super::blocks::Body;
use super::bytes::{next_data, next_hole, write_all};
use super::content::{LARGEST_BASE, part_name};
use super::{Overlay, OverlayError, Result};

/// How often a file that the host keeps changing is tried again.
const ATTEMPTS: usize = 5;
/// Bytes that are copied at once.
pub(super) const CHUNK: usize = 1 << 20;
/// Content up to this many bytes is copied when it is first written to; of more, only what is
/// written to comes up, where the host's file can be held (`blocks`).
pub(super) const LARGEST_COPIED: u64 = LARGEST_BASE;

/// Content that was taken from the host, not yet published.
pub(super) struct Taken {
    pub(super) body: Body,
    pub(super) lower: LowerFile,
    pub(super) baseline: Baseline,
    pub(super) stat: Stat,
}

/// The hash of what is copied, and the content itself when it is small enough to be kept.
struct Seen {
    hash: Sha256,
    base: Option<Vec<u8>>,
}

impl Overlay {
    /// Takes a file of the host, of which the first `keep` bytes are wanted. What is taken is one
    /// version of it: the attributes before and after agree, and the name still leads to it.
    pub(super) fn take(&self, id: NodeId, source: &RelPath, keep: u64) -> Result<Taken> {
        for _ in 0..ATTEMPTS {
            let taken = self.take_once(id, source, keep);
            if let Ok(Some(taken)) = taken {
                return Ok(taken);
            }
            self.content.abandon(id);
            taken?;
        }
        Err(OverlayError::Busy)
    }

    /// One attempt; none when the host changed the file meanwhile.
    fn take_once(&self, id: NodeId, source: &RelPath, keep: u64) -> Result<Option<Taken>> {
        let lower = Arc::new(self.lower.open(source)?);
        let file = self.content.prepare(id)?;
        let (body, stat, sha256) = self.obtain(id, file, (&lower, source), keep)?;
        let after = Stat::from(fstat(&*lower)?).version();
        let named = self.lower.stat(source).map(|stat| stat.version());
        if stat.version() != after || named != Ok(after) {
            return Ok(None);
        }
        let lower = LowerFile {
            path: source.clone(),
            dev: stat.dev,
            ino: stat.ino,
            links: stat.nlink,
        };
        let mut baseline = stat.baseline(NodeKind::File);
        baseline.sha256 = sha256;
        Ok(Some(Taken {
            body,
            lower,
            baseline,
            stat,
        }))
    }

    /// Clones a large file, or shows it by blocks, or copies. A large file is read for its hash
    /// only when it has to be copied anyway.
    fn obtain(
        &self,
        id: NodeId,
        file: File,
        (lower, source): (&Arc<File>, &RelPath),
        keep: u64,
    ) -> Result<(Body, Stat, Option<[u8; 32]>)> {
        let stat = Stat::from(fstat(&**lower)?);
        let kept = stat.size.min(keep);
        if stat.size > LARGEST_COPIED && kept == stat.size && ioctl_ficlone(&file, lower).is_ok() {
            return Ok((Body::Whole(Arc::new(file)), stat, None));
        }
        let blocks = self.content.blocks();
        if kept > LARGEST_COPIED && blocks.lease(lower) {
            // Under the lease nobody changes the content any more.
            let stat = Stat::from(fstat(&**lower)?);
            let below = (Arc::clone(lower), source.clone());
            let limit = stat.size.min(keep);
            let body = blocks.over_host(&part_name(id), file, below, stat.version(), limit)?;
            return Ok((body, stat, None));
        }
        let sha256 = self.copy(lower, &file, &stat, keep)?;
        Ok((Body::Whole(Arc::new(file)), stat, sha256))
    }

    /// Copies, and hashes what is read as a whole; keeps the content as a merge base when it is
    /// small enough.
    fn copy(&self, lower: &File, file: &File, stat: &Stat, keep: u64) -> Result<Option<[u8; 32]>> {
        let kept = stat.size.min(keep);
        let hashed = stat.size <= LARGEST_BASE || kept == stat.size;
        let end = if hashed { stat.size } else { kept };
        let cloned = kept == stat.size && ioctl_ficlone(file, lower).is_ok();
        let mut seen = hashed.then(|| Seen::new(stat.size));
        let mut buffer = vec![0; CHUNK.min(usize::try_from(end).unwrap_or(CHUNK)).max(1)];
        let mut offset = 0;
        while offset < end {
            let data = next_data(lower, offset, end);
            seen.iter_mut()
                .for_each(|seen| seen.add_zeros(data - offset));
            offset = data;
            let room = usize::try_from(next_hole(lower, offset, end) - offset);
            let room = room.unwrap_or(CHUNK).min(buffer.len());
            let read = pread(lower, buffer.get_mut(..room).unwrap_or_default(), offset)?;
            let chunk = buffer.get(..read).unwrap_or_default();
            if chunk.is_empty() {
                break;
            }
            seen.iter_mut().for_each(|seen| seen.add(chunk));
            if !cloned {
                let wanted = usize::try_from(kept.saturating_sub(offset)).unwrap_or(usize::MAX);
                write_all(
                    file,
                    chunk.get(..wanted.min(read)).unwrap_or_default(),
                    offset,
                )?;
            }
            offset += read as u64;
        }
        if !cloned {
            ftruncate(file, kept)?;
        }
        seen.map(|seen| self.keep(seen)).transpose()
    }

    fn keep(&self, seen: Seen) -> Result<[u8; 32]> {
        let hash = seen.hash.finalize().into();
        if let Some(base) = seen.base {
            self.content.keep_base(&hash, &base)?;
        }
        Ok(hash)
    }
}

impl Seen {
    fn new(size: u64) -> Self {
        Self {
            hash: Sha256::new(),
            base: (size <= LARGEST_BASE).then(Vec::new),
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        if let Some(base) = &mut self.base {
            base.extend_from_slice(bytes);
        }
    }

    fn add_zeros(&mut self, count: u64) {
        const ZEROS: [u8; 4096] = [0; 4096];
        let mut left = count;
        while left > 0 {
            let zeros = usize::try_from(left)
                .unwrap_or(ZEROS.len())
                .min(ZEROS.len());
            self.add(ZEROS.get(..zeros).unwrap_or_default());
            left -= zeros as u64;
        }
    }
}
