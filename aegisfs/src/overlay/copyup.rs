//! Content of its own for a file of the host: taken at the first write, not at open, and together
//! with the baseline that a merge will start from.

use std::sync::atomic::Ordering;

use aegis_policies::journal::{Generation, LowerFile, NodeId, ShadowOp};
use aegis_policies::{Permit, RelPath};
use rustix::fs::futimens;

use super::blocks::Body;
use super::found::Found;
use super::inode::{Backing, Inode};
use super::meta::timestamps;
use super::shadow::Node;
use super::take::Taken;
use super::{Overlay, OverlayError, Result};

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
    ) -> Result<Body> {
        if let Backing::Upper(body, generation) = backing
            && *generation == self.generation()
        {
            return Ok(body.clone());
        }
        let (body, generation) = match self.source(inode.id)? {
            Source::Own(generation) => (self.content.body(inode.id, generation)?, generation),
            Source::Earlier(generation) => self.fork(permit, inode.id, generation, keep)?,
            Source::Host(path) => {
                let taken = self.take(inode.id, &path, keep)?;
                self.adopt(permit, inode.id, taken)?
            }
        };
        if !matches!(backing, Backing::Closed) {
            *backing = Backing::Upper(body.clone(), generation);
            inode.seen.store(generation.0, Ordering::Release);
        }
        Ok(body)
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

    /// Checks that what was taken is what the node stands for, and that the permit is for the name
    /// that it has now: the host may have moved it to a guarded one since it was opened.
    fn check_taken(
        &self,
        permit: &Permit,
        id: NodeId,
        (path, lower): (&RelPath, &LowerFile),
    ) -> Result<()> {
        let inode = self.inodes.find(id).ok_or(OverlayError::Stale)?;
        if inode.identity() != (lower.dev, lower.ino) {
            return Err(OverlayError::Stale);
        }
        super::covers(permit, path)
    }

    /// Publishes taken content, records it, and makes it the node's.
    fn adopt(&self, permit: &Permit, id: NodeId, taken: Taken) -> Result<(Body, Generation)> {
        let Taken {
            body,
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
        futimens(&**body.file(), &timestamps(Some(atime), Some(mtime)))?;
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
        let allowed = match &path {
            Some(path) if !known => self.check_taken(permit, id, (path, &lower)),
            _ => Ok(()),
        };
        let recorded = match path {
            _ if allowed.is_err() => allowed,
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
            Ok(()) => Ok((body, generation)),
            Err(error) => {
                self.content.remove(id, generation);
                Err(error)
            }
        }
    }
}
