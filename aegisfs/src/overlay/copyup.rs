//! Content of its own for a file of the host: taken at the first write, not at open, and together
//! with the baseline that a merge will start from.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use aegis_policies::journal::{Baseline, Generation, LowerFile, NodeId, NodeKind, ShadowOp};
use aegis_policies::{Permit, RelPath};
use rustix::fs::{SeekFrom, fstat, ftruncate, futimens, ioctl_ficlone, seek};
use rustix::io::{Errno, pread, pwrite};
use sha2::{Digest, Sha256};

use super::attr::Stat;
use super::content::LARGEST_BASE;
use super::found::Found;
use super::inode::{Backing, Inode};
use super::meta::timestamps;
use super::shadow::Node;
use super::{Overlay, OverlayError, Result};

/// How often a file that the host keeps changing is tried again.
const ATTEMPTS: usize = 5;
pub(super) const CHUNK: usize = 1 << 20;

/// Content that was taken from the host, not yet published.
struct Taken {
    file: File,
    lower: LowerFile,
    baseline: Baseline,
    stat: Stat,
}

/// Where content that is about to be written comes from.
enum Source {
    /// It is the session's own, and no snapshot has it.
    Own(Generation),
    /// It is the session's own, and was made in an earlier generation.
    Earlier(Generation),
    /// It is the host's, under this name.
    Host(RelPath),
}

impl Source {
    fn of(node: &Node, now: Generation) -> Result<Self> {
        match (node.content, &node.origin) {
            (Some(generation), _) if generation == now => Ok(Self::Own(generation)),
            (Some(generation), _) => Ok(Self::Earlier(generation)),
            (None, Some(origin)) => Ok(Self::Host(origin.lower.path.clone())),
            (None, None) => Err(OverlayError::Stale),
        }
    }
}

impl Overlay {
    /// The content of a node, made the session's own first. Of the host's content the first `keep`
    /// bytes are wanted.
    ///
    /// # Errors
    /// [`OverlayError::Busy`] when the host keeps changing the file, ESTALE when it replaced it,
    /// ENOSPC from content or journal.
    pub(super) fn own_content(
        &self,
        permit: &Permit,
        inode: &Inode,
        backing: &mut Backing,
        keep: u64,
    ) -> Result<Arc<File>> {
        if let Backing::Upper(file, generation) = backing
            && *generation == self.generation()
        {
            return Ok(Arc::clone(file));
        }
        let (file, generation) = match self.source(inode.id)? {
            Source::Own(generation) => (self.content.file(inode.id, generation)?, generation),
            Source::Earlier(generation) => self.fork(permit, inode.id, generation, keep)?,
            Source::Host(path) => {
                let taken = self.take(inode.id, &path, keep)?;
                self.adopt(permit, inode.id, taken)?
            }
        };
        let file = Arc::new(file);
        if !matches!(backing, Backing::Closed) {
            *backing = Backing::Upper(Arc::clone(&file), generation);
            inode.seen.store(generation.0, Ordering::Release);
        }
        Ok(file)
    }

    /// Where a node's content comes from.
    fn source(&self, id: NodeId) -> Result<Source> {
        let shadow = self.read();
        let found = self.locate(&shadow, id)?;
        self.check_file(&shadow, &found)?;
        match &found {
            Found::Lower(lower) => Ok(Source::Host(lower.path.clone())),
            Found::Node(id) => match shadow.node(*id) {
                Some(node) => Ok(Source::of(node, shadow.generation())?),
                None => Err(OverlayError::Stale),
            },
            Found::Missing => Err(OverlayError::Stale),
        }
    }

    /// Copies a file of the host. What is copied is one version of it: the attributes before and
    /// after agree, and the name still leads to it.
    fn take(&self, id: NodeId, source: &RelPath, keep: u64) -> Result<Taken> {
        for _ in 0..ATTEMPTS {
            let lower = self.lower.open(source)?;
            let stat = Stat::from(fstat(&lower)?);
            let file = self.content.prepare(id)?;
            let copied = self.copy(&lower, &file, &stat, keep);
            let hash = copied.inspect_err(|_| self.content.abandon(id))?;
            let after = Stat::from(fstat(&lower)?);
            let named = self.lower.stat(source).map(|stat| stat.version());
            if stat.version() == after.version() && named == Ok(after.version()) {
                let (dev, ino, links) = (stat.dev, stat.ino, stat.nlink);
                let lower = LowerFile {
                    path: source.clone(),
                    dev,
                    ino,
                    links,
                };
                let mut baseline = stat.baseline(NodeKind::File);
                baseline.sha256 = Some(hash);
                return Ok(Taken {
                    file,
                    lower,
                    baseline,
                    stat,
                });
            }
        }
        self.content.abandon(id);
        Err(OverlayError::Busy)
    }

    /// Copies and hashes; keeps the content as a merge base when it is small enough.
    fn copy(&self, lower: &File, file: &File, stat: &Stat, keep: u64) -> Result<[u8; 32]> {
        let cloned = keep >= stat.size && ioctl_ficlone(file, lower).is_ok();
        let mut hash = Sha256::new();
        let mut base = (stat.size <= LARGEST_BASE).then(Vec::new);
        let mut buffer = vec![
            0;
            CHUNK
                .min(usize::try_from(stat.size).unwrap_or(CHUNK))
                .max(1)
        ];
        let mut offset = 0;
        while offset < stat.size {
            let data = next_data(lower, offset, stat.size);
            hash_zeros(&mut hash, &mut base, data - offset);
            offset = data;
            let room = usize::try_from(next_hole(lower, offset, stat.size) - offset);
            let room = room.unwrap_or(CHUNK).min(buffer.len());
            let read = pread(lower, buffer.get_mut(..room).unwrap_or_default(), offset)?;
            let chunk = buffer.get(..read).unwrap_or_default();
            if chunk.is_empty() {
                break;
            }
            hash.update(chunk);
            if let Some(base) = &mut base {
                base.extend_from_slice(chunk);
            }
            if !cloned {
                let wanted = usize::try_from(keep.saturating_sub(offset)).unwrap_or(usize::MAX);
                let wanted = chunk.get(..wanted.min(read)).unwrap_or_default();
                write_all(file, wanted, offset)?;
            }
            offset += read as u64;
        }
        if !cloned {
            ftruncate(file, stat.size.min(keep))?;
        }
        let hash: [u8; 32] = hash.finalize().into();
        if let Some(base) = base {
            self.content.keep_base(&hash, &base)?;
        }
        Ok(hash)
    }

    /// Publishes taken content, records it, and makes it the node's.
    fn adopt(&self, permit: &Permit, id: NodeId, taken: Taken) -> Result<(File, Generation)> {
        let Taken {
            file,
            lower,
            baseline,
            stat,
        } = taken;
        let mut shadow = self.write();
        let generation = shadow.generation();
        let node = shadow.node(id);
        let atime = node.and_then(|node| node.atime).unwrap_or(stat.atime);
        let mtime = node.and_then(|node| node.mtime).unwrap_or(stat.mtime);
        let known = node.is_some();
        futimens(&file, &timestamps(Some(atime), Some(mtime)))?;
        self.content.publish(id, generation)?;
        let names = self.names_in(&shadow, id).shown;
        let judged = names
            .iter()
            .find(|path| super::covers(permit, path).is_ok());
        let path = if known {
            // A handle keeps the permit of the name it was opened by; that may have moved since.
            judged.or(names.first()).cloned()
        } else {
            shadow.shown(&lower.path)
        };
        let recorded = match path {
            Some(path) => {
                let operation = ShadowOp::CopyUp {
                    path,
                    node: id,
                    lower,
                    baseline,
                };
                self.record(&mut shadow, permit, operation)
            }
            None if known => {
                shadow.orphan_forked(id);
                Ok(())
            }
            None => Err(OverlayError::Stale),
        };
        match recorded {
            Ok(()) => Ok((file, generation)),
            Err(error) => {
                self.content.remove(id, generation);
                Err(error)
            }
        }
    }
}

/// Writes everything, or says how it ended.
pub(super) fn write_all(file: &File, mut bytes: &[u8], mut offset: u64) -> Result<()> {
    while !bytes.is_empty() {
        match pwrite(file, bytes, offset) {
            Ok(0) => return Err(Errno::IO.into()),
            Ok(written) => {
                bytes = bytes.get(written..).unwrap_or_default();
                offset += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Where data starts at or after `offset`; a file system that can not tell has no holes.
pub(super) fn next_data(file: &File, offset: u64, size: u64) -> u64 {
    match seek(file, SeekFrom::Data(offset)) {
        Ok(data) => data.clamp(offset, size),
        // Only a hole is left.
        Err(Errno::NXIO) => size,
        Err(_) => offset,
    }
}

/// Where the data at `offset` ends.
pub(super) fn next_hole(file: &File, offset: u64, size: u64) -> u64 {
    seek(file, SeekFrom::Hole(offset)).map_or(size, |hole| hole.clamp(offset, size))
}

fn hash_zeros(hash: &mut Sha256, base: &mut Option<Vec<u8>>, count: u64) {
    const ZEROS: [u8; 4096] = [0; 4096];
    let mut left = count;
    while left > 0 {
        let zeros = ZEROS
            .get(..usize::try_from(left).unwrap_or(4096).min(4096))
            .unwrap_or(&ZEROS);
        hash.update(zeros);
        if let Some(base) = base {
            base.extend_from_slice(zeros);
        }
        left -= zeros.len() as u64;
    }
}
