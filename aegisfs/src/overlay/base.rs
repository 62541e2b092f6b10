//! The base of a later merge, for files that are replaced rather than written to. Most editors, git
//! and agents write a new file and give it the old one's name, or remove the old one first.
//!
//! What can not be read or kept is not: without a base the landing can only compare, not merge.

use std::io::Read;

use aegis_policies::RelPath;
use aegis_policies::journal::{Baseline, NodeKind};
use rustix::fs::{fstat, readlink};
use sha2::{Digest, Sha256};

use super::Overlay;
use super::attr::Stat;
use super::content::{LARGEST_BASE, base_note};
use super::shadow::Shadow;
use crate::layout::SessionDir;

/// The hash of the content that a file of the host's had, where it was kept when the file's name was
/// made again.
pub(crate) fn noted_base(session: &SessionDir, baseline: &Baseline) -> Option<[u8; 32]> {
    let note = readlink(session.base().join(base_note(baseline)), Vec::new()).ok()?;
    let digits = note.to_str().ok().filter(|digits| digits.len() == 64)?;
    let mut hash = [0; 32];
    for (index, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(index * 2..index * 2 + 2)?, 16).ok()?;
    }
    Some(hash)
}

impl Overlay {
    /// Keeps the content of the file at the host's `path`, which another is about to replace.
    pub(super) fn keep_replaced(&self, path: &RelPath, baseline: &mut Baseline) {
        if baseline.sha256.is_none() {
            baseline.sha256 = self.read_base(path, baseline);
        }
    }

    /// Keeps the content of the file whose removed name is made again. The removal is in the journal
    /// already, so the hash is noted beside the content.
    pub(super) fn keep_removed(&self, shadow: &Shadow, path: &RelPath) {
        let Some(baseline) = shadow
            .removed_at(path)
            .filter(|baseline| baseline.sha256.is_none())
        else {
            return;
        };
        if let Some(hash) = self.read_base(path, baseline) {
            // Not noted is not kept; there is nobody to tell.
            self.content.note_base(baseline, &hash).ok();
        }
    }

    /// Reads one whole version of the file, if it is still the one that `baseline` tells of.
    fn read_base(&self, path: &RelPath, baseline: &Baseline) -> Option<[u8; 32]> {
        if baseline.kind != NodeKind::File || baseline.size > LARGEST_BASE {
            return None;
        }
        let mut file = self.lower.open(path).ok()?;
        let version = |file: &std::fs::File| Some(Stat::from(fstat(file).ok()?).version());
        let told = (
            baseline.dev,
            baseline.ino,
            baseline.mtime,
            baseline.ctime,
            baseline.size,
        );
        let mut bytes = Vec::new();
        if version(&file)? != told {
            return None;
        }
        file.by_ref()
            .take(LARGEST_BASE)
            .read_to_end(&mut bytes)
            .ok()?;
        if version(&file)? != told {
            return None;
        }
        let hash = Sha256::digest(&bytes).into();
        self.content.keep_base(&hash, &bytes).ok()?;
        Some(hash)
    }
}
