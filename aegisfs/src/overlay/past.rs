//! What the tree of a session was at a position of its journal, to be looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::os::fd::BorrowedFd;

use aegis_policies::RelPath;
use aegis_policies::journal::{NodeKind, Seq};
use rustix::io::Errno;

use super::changes::{After, Change, Content, of_shadow};
use super::content::file_name;
use super::error::OverlayError;
use super::lower::LowerRoot;
use super::reader::ContentFile;
use super::relocations::Relocations;
use super::replay::{self, Upto};
use super::shadow::{Child, Node, Shadow, Snapshot};
use crate::layout::SessionDir;

/// The snapshots of a session.
#[derive(Debug)]
pub struct Snapshots {
    /// Those that are kept, oldest first.
    pub kept: Vec<Snapshot>,
    /// Whether the tree has changed since the newest one was taken.
    pub changed_since: bool,
}

/// The tree after an entry.
#[derive(Debug)]
pub struct Past<'a> {
    session: &'a SessionDir,
    project: BorrowedFd<'a>,
    relocations: Relocations,
    shadow: Shadow,
    lower: LowerRoot,
    at: i64,
}

/// A name that leads to something else in one tree than in another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The name.
    pub path: RelPath,
    /// What the first tree has there.
    pub before: Option<After>,
    /// What the second tree has there.
    pub after: Option<After>,
}

/// How much is looked at to tell two contents apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closeness {
    /// Every byte.
    Bytes,
    /// Of the session's own, where it is kept: what was written over with the same differs.
    Files,
}

/// The snapshots of a session, which may be live.
///
/// # Errors
/// [`OverlayError`] when its journal can not be replayed.
pub fn snapshots(
    session: &SessionDir,
    relocations: &Relocations,
) -> Result<Snapshots, OverlayError> {
    let shadow = replay::replay(session, relocations, Upto::End)?.shadow;
    Ok(Snapshots {
        kept: shadow.history().snapshots().to_vec(),
        changed_since: shadow.history().has_changed(),
    })
}

impl<'a> Past<'a> {
    /// The tree of the session of `project` after the entry `last`, or as it is now.
    ///
    /// # Errors
    /// [`OverlayError::Replay`] when there is no such entry, and what the file system said.
    pub fn open(
        session: &'a SessionDir,
        project: BorrowedFd<'a>,
        relocations: Relocations,
        last: Option<Seq>,
    ) -> Result<Self, OverlayError> {
        let replayed = match last {
            Some(last) => replay::replay_to(session, &relocations, last)?,
            None => replay::replay(session, &relocations, Upto::End)?,
        };
        let at = last.map(|_| i64::try_from(replayed.position.at()).unwrap_or(i64::MAX));
        let root = project.try_clone_to_owned();
        let root = root.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let lower = LowerRoot::new(root, relocations.clone())?;
        Ok(Self {
            session,
            project,
            relocations,
            shadow: replayed.shadow,
            lower,
            at: at.unwrap_or(i64::MAX),
        })
    }

    /// What a name leads to; `None` for nothing.
    ///
    /// # Errors
    /// What the host said.
    pub fn find(&self, path: &RelPath) -> Result<Option<After>, OverlayError> {
        let Some(place) = self.shadow.place(path) else {
            let is_root = path.is_root();
            return if is_root { self.host(path) } else { Ok(None) };
        };
        match self.shadow.child(&place.folder, &place.name) {
            Some(Child::Hidden) => Ok(None),
            Some(Child::Node(id)) => match self.shadow.node(id) {
                Some(node) => Ok(Some(self.node(id.0, node))),
                None => Ok(None),
            },
            None => place.lower().map_or(Ok(None), |lower| self.host(&lower)),
        }
    }

    /// Opens the content of a file. That of the host is what it has now; the second value tells
    /// whether it may have been another then.
    ///
    /// # Errors
    /// ENOENT when it is not kept, and what the file system said.
    pub fn open_content(&self, content: &Content) -> io::Result<(ContentFile, bool)> {
        let file = ContentFile::of(content, self.project, &|| self.relocations.clone())?;
        let is_host = matches!(content, Content::Host(_));
        let changed = is_host && file.changed()? > self.at;
        Ok((file, changed))
    }

    /// The names that lead to something else in the `later` tree, in their order.
    ///
    /// # Errors
    /// What the file systems said.
    pub fn differences(
        &self,
        later: &Past<'_>,
        closeness: Closeness,
    ) -> Result<Vec<Difference>, OverlayError> {
        let (first, second) = (self.changes()?, later.changes()?);
        let paths: BTreeSet<&RelPath> = first.keys().chain(second.keys()).collect();
        let mut differences = Vec::new();
        for path in paths {
            let before = self.side(&first, path)?;
            let after = later.side(&second, path)?;
            if !self.same(later, before.as_ref(), after.as_ref(), closeness) {
                let path = path.clone();
                differences.push(Difference {
                    path,
                    before,
                    after,
                });
            }
        }
        Ok(differences)
    }

    fn changes(&self) -> Result<BTreeMap<RelPath, Change>, OverlayError> {
        let changes = of_shadow(&self.shadow, self.session, self.project, &self.relocations)?;
        let named = changes.into_iter();
        Ok(named.map(|change| (change.path.clone(), change)).collect())
    }

    fn side(
        &self,
        changes: &BTreeMap<RelPath, Change>,
        path: &RelPath,
    ) -> Result<Option<After>, OverlayError> {
        match changes.get(path) {
            Some(change) => Ok(change.after.clone()),
            None => self.find(path),
        }
    }

    fn same(
        &self,
        later: &Past<'_>,
        before: Option<&After>,
        after: Option<&After>,
        closeness: Closeness,
    ) -> bool {
        let (Some(before), Some(after)) = (before, after) else {
            return before == after;
        };
        if (&before.kind, before.mode) != (&after.kind, after.mode) {
            return false;
        }
        match (&before.content, &after.content) {
            (Some(Content::Shadow(one)), Some(Content::Shadow(other)))
                if one != other && closeness == Closeness::Files =>
            {
                false
            }
            (Some(one), Some(other)) if one != other => self.same_bytes(later, one, other),
            _ => true,
        }
    }

    /// What can not be read is not the same.
    fn same_bytes(&self, later: &Past<'_>, one: &Content, other: &Content) -> bool {
        let (Ok((one, _)), Ok((other, _))) = (self.open_content(one), later.open_content(other))
        else {
            return false;
        };
        one.size().ok() == other.size().ok() && equal(one, other)
    }

    fn host(&self, path: &RelPath) -> Result<Option<After>, OverlayError> {
        let stat = match self.lower.stat(path) {
            Ok(stat) => stat,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let (_, baseline) = self.lower.describe(path, &stat)?;
        let is_file = baseline.kind == NodeKind::File;
        let content = is_file.then(|| Content::of_host(path, &self.relocations));
        Ok(Some(After {
            kind: baseline.kind,
            mode: baseline.mode,
            content,
            node: stat.ino,
        }))
    }

    fn node(&self, id: u64, node: &Node) -> After {
        let baseline = node.origin.as_ref().map(|origin| &origin.baseline);
        let content = match (&node.kind, node.content, &node.origin) {
            (NodeKind::File, Some(generation), _) => {
                let name = file_name(aegis_policies::journal::NodeId(id), generation);
                Some(Content::Shadow(self.session.content().join(name)))
            }
            (NodeKind::File, None, Some(origin)) => {
                Some(Content::of_host(&origin.lower.path, &self.relocations))
            }
            _ => None,
        };
        let mode = node.mode.or(baseline.map(|baseline| baseline.mode));
        After {
            kind: node.kind.clone(),
            mode: mode.unwrap_or(0),
            content,
            node: id,
        }
    }
}

/// Whether two files hold the same from here on.
fn equal(mut one: ContentFile, mut other: ContentFile) -> bool {
    const CHUNK: u64 = 1 << 16;
    let (mut left, mut right) = (Vec::new(), Vec::new());
    loop {
        left.clear();
        right.clear();
        let read = one.by_ref().take(CHUNK).read_to_end(&mut left);
        let compared = read.and_then(|_| other.by_ref().take(CHUNK).read_to_end(&mut right));
        if compared.is_err() || left != right {
            return false;
        }
        if left.is_empty() {
            return true;
        }
    }
}
