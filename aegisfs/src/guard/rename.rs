//! Moving names. A lock by name must not be reached by moving a directory that holds it: away,
//! where its names are free, or to a place where they become locked.

use std::collections::HashSet;

use aegis_policies::journal::NodeId;
use aegis_policies::{Kind, Label, Labels, RelPath};
use rustix::fs::FileType;
use rustix::io::Errno;

use super::{Guard, Result};
use crate::overlay::RenameMode;

/// Names below a moved directory that are judged; one with more among guarded names stays.
const MOST: usize = 50_000;
/// Labels that depend on where a name is.
const GUARDED: [Label; 5] = [
    Label::Vcs,
    Label::VcsLocked,
    Label::Anchor,
    Label::AgentConfig,
    Label::Secret,
];

impl Guard {
    /// Moves a name: `fs.rename` for the old and the new name, and for everything below whose
    /// labels the move changes.
    ///
    /// # Errors
    /// [`crate::overlay::OverlayError::Refused`], EBUSY when too much lies below to judge, and as
    /// for [`crate::overlay::Overlay::rename`].
    pub fn rename(
        &self,
        pid: u32,
        from: (NodeId, &[u8]),
        to: (NodeId, &[u8]),
        mode: RenameMode,
    ) -> Result<()> {
        self.again(|| {
            let _moving = self.moving();
            let old = self.overlay.child_path(from.0, from.1)?;
            let new = self.overlay.child_path(to.0, to.1)?;
            self.judge_below(pid, from, &old, &new)?;
            if mode == RenameMode::Exchange {
                self.judge_below(pid, to, &new, &old)?;
            }
            let links = self.is_symlink(from)? || self.is_symlink(to)?;
            let old_permit = self.judge(pid, Kind::FsRename, &old, self.labels_for(&old, links))?;
            let new_permit = self.judge(pid, Kind::FsRename, &new, self.labels_for(&new, links))?;
            self.overlay
                .rename((&old_permit, &new_permit), from, to, mode)
        })
    }

    fn is_symlink(&self, (parent, name): (NodeId, &[u8])) -> Result<bool> {
        let attr = self.overlay.peek(parent, name)?;
        Ok(attr.is_some_and(|attr| attr.kind == FileType::Symlink))
    }

    /// Judges what lies below a directory that moves from `old` to `new`.
    fn judge_below(
        &self,
        pid: u32,
        (parent, name): (NodeId, &[u8]),
        old: &RelPath,
        new: &RelPath,
    ) -> Result<()> {
        if !self.is_guarded(old) && !self.is_guarded(new) {
            return Ok(());
        }
        let below = self
            .overlay
            .names_below(parent, name, MOST)?
            .ok_or(Errno::BUSY)?;
        let mut judged: HashSet<Labels> = HashSet::new();
        for tail in below {
            let (old, new) = (join(old, &tail)?, join(new, &tail)?);
            let (left, entered) = (self.gate.labels(&old), self.gate.labels(&new));
            if left == entered {
                continue;
            }
            for (path, labels) in [(&old, left), (&new, entered)] {
                if judged.insert(labels) {
                    self.judge(pid, Kind::FsRename, path, labels)?;
                }
            }
        }
        Ok(())
    }

    /// Whether labels below a path may depend on where it is.
    fn is_guarded(&self, path: &RelPath) -> bool {
        let parent = path
            .split_last()
            .map(|(parent, _)| self.gate.labels(&parent));
        let labels = self.gate.labels(path).union(parent.unwrap_or(Labels::NONE));
        GUARDED.into_iter().any(|label| labels.has(label))
    }
}

fn join(path: &RelPath, tail: &RelPath) -> Result<RelPath> {
    let joined = tail
        .components()
        .try_fold(path.clone(), |path, name| path.join(name));
    joined.map_err(|_| Errno::INVAL.into())
}
