//! Going back to what the tree was after an earlier entry.
//!
//! A rewind is one entry of the journal. What is kept of the content is known before it is made;
//! what the running processes hold goes on: a file that exists in the past has the past's content,
//! and one that does not lives on without a name, as an unlinked one does while it is open.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use aegis_policies::RelPath;
use aegis_policies::journal::{Event, Generation, NodeId, Seq, ShadowOp, SnapshotCause};

use super::attr::Stat;
use super::content::{ContentFiles, TICK};
use super::fork::copy_whole;
use super::replay::replay_to;
use super::shadow::{ContentKey, Origin, Shadow};
use super::{Overlay, Relocations, Result, Snapshot};
use crate::layout::SessionDir;

/// What it would be to go back to an entry.
#[derive(Debug)]
pub struct Rewind {
    to: Seq,
    past: Shadow,
    losses: Vec<Loss>,
}

/// A file that would not be what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Its name.
    pub path: RelPath,
    /// What is kept of its content.
    pub kept: Kept,
    key: ContentKey,
}

/// What is kept of a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It may have been written to afterwards, before a snapshot kept it.
    Later,
    /// Only that of another moment is kept.
    Other(Generation),
    /// Nothing: the file would be gone.
    Nothing,
}

/// What the kernel has to ask for again.
#[derive(Debug, Default)]
pub(crate) struct Stale {
    names: Vec<(NodeId, Box<[u8]>)>,
    nodes: BTreeSet<NodeId>,
}

impl Rewind {
    /// Finds out what it would be to go back to what the session's tree was after entry `to`.
    /// `relocations` is what landings of the session have made of the project.
    ///
    /// # Errors
    /// [`Replay`](super::OverlayError::Replay) when there is no such entry, and as for opening a tree.
    pub fn plan(session: &SessionDir, relocations: &Relocations, to: Seq) -> Result<Self> {
        let replayed = replay_to(session, relocations, to)?;
        let at = i64::try_from(replayed.position.at()).unwrap_or(i64::MAX);
        let past = replayed.shadow;
        let losses = losses(session, &past, to, at)?;
        Ok(Self { to, past, losses })
    }

    /// The files that would not be what they were, in the order of their names.
    #[must_use]
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }
}

impl Overlay {
    /// Has the kernel hand over what it holds of files that are open for writing. It waits for requests
    /// that are being answered.
    pub fn fetch_dirty(&self) {
        if let Some(kernel) = self.kernel() {
            let written = self.handles.iter().filter(|it| it.access.writes());
            let written: BTreeSet<NodeId> = written.map(|it| it.inode.id).collect();
            written.iter().for_each(|id| kernel.forget_node(*id));
        }
    }

    /// Puts the present tree aside, before another takes its place.
    pub(crate) fn leave(&self) -> Result<Snapshot> {
        self.fetch_dirty();
        self.snapshot(None, SnapshotCause::Rewind)
    }

    /// Makes the tree what it was. The kernel still has to be told, see [`Overlay::forget_stale`].
    pub(crate) fn turn_back(&self, rewind: Rewind) -> Result<Stale> {
        let _writing = self.writing.write().unwrap_or_else(PoisonError::into_inner);
        let mut shadow = self.write();
        let to = rewind.to;
        self.note_own(Event::Rewound { to })?;
        let left = shadow.rewind(rewind.past);
        self.generation
            .store(shadow.generation().0, Ordering::Release);
        self.keep_held(&left, &mut shadow);
        for loss in &rewind.losses {
            self.make_good(&mut shadow, loss)?;
        }
        self.remove_freed(&mut shadow);
        Ok(self.stale(&left, &shadow))
    }

    /// Tells the kernel what is another than it was. It waits for requests that are being answered.
    pub(crate) fn forget_stale(&self, stale: &Stale) {
        let Some(kernel) = self.kernel() else {
            return;
        };
        for (parent, name) in &stale.names {
            kernel.forget_name(*parent, name);
        }
        for id in &stale.nodes {
            kernel.forget_node(*id);
        }
    }

    /// Keeps what the kernel still holds of the tree that is left.
    fn keep_held(&self, left: &Shadow, shadow: &mut Shadow) {
        let hosts = self.host_folders(left);
        for id in self.inodes.known() {
            let Some(inode) = self.inodes.find(id) else {
                continue;
            };
            // What it has of the content is not that of the past.
            inode.cached.clear();
            inode.shown.clear();
            let Some(node) = left.node(id).filter(|_| shadow.node(id).is_none()) else {
                continue;
            };
            match &node.origin {
                Some(origin) => {
                    let (lower, born) = (&origin.lower, self.birth(origin));
                    let identity = (lower.dev, lower.ino);
                    let inodes = &self.inodes;
                    inodes.give_back(&inode, identity, born, node.is_folder());
                    if let Some((folder, name)) = lower.path.split_last()
                        && let Some(folder) = hosts.get(&folder)
                    {
                        inode.note_name(*folder, name);
                    }
                }
                None => shadow.adopt_orphan(id, node.clone()),
            }
        }
    }

    /// When the host's inode was made, where it is still the one that was touched: an inode that got
    /// its number later was made after the status change that the baseline tells of.
    fn birth(&self, Origin { lower, baseline }: &Origin) -> Option<i64> {
        let stat = self.lower.stat(&lower.path).ok()?;
        let same = match stat.born {
            0 => stat.ctime == baseline.ctime,
            born => born <= baseline.ctime,
        };
        (same && (stat.dev, stat.ino) == (lower.dev, lower.ino)).then_some(stat.born)
    }

    /// Makes the best of content that is not kept as it was.
    fn make_good(&self, shadow: &mut Shadow, loss: &Loss) -> Result<()> {
        let (node, _) = loss.key;
        let operation = match loss.kept {
            Kept::Later => return Ok(()),
            Kept::Other(kept) => {
                let generation = shadow.generation();
                let old = self.content.body(node, kept)?;
                let file = self.content.create(node, generation)?;
                copy_whole(&old, &file)?;
                let path = loss.path.clone();
                ShadowOp::Fork {
                    path,
                    node,
                    generation,
                }
            }
            Kept::Nothing => ShadowOp::Remove {
                path: loss.path.clone(),
                node,
                first_touch: None,
            },
        };
        // A file with several names is mended once.
        let Ok(prepared) = shadow.prepare(operation) else {
            return Ok(());
        };
        let recorded = self.note_own(Event::Shadow(prepared.operation().clone()))?;
        let at = i64::try_from(recorded.at).unwrap_or(i64::MAX);
        if let Some(orphan) = shadow.commit(prepared, at) {
            self.collect(shadow, orphan);
        }
        Ok(())
    }

    /// What differs between two states, by the numbers that the kernel knows.
    fn stale(&self, left: &Shadow, now: &Shadow) -> Stale {
        let mut stale = Stale::default();
        let hosts = self.host_folders(left);
        for key in left.differing_folders(now) {
            let Some(parent) = self.folder_id(&key, &hosts, [left, now]) else {
                continue;
            };
            stale.nodes.insert(parent);
            let names = left.differing_names(now, &key).into_iter();
            stale.names.extend(names.map(|name| (parent, name)));
        }
        stale.nodes.extend(left.differing_nodes(now));
        stale
    }
}

/// What of the content of `past`, the state after entry `to`, is not kept as it was.
fn losses(session: &SessionDir, past: &Shadow, to: Seq, at: i64) -> Result<Vec<Loss>> {
    let files = ContentFiles::list(session)?;
    let mut losses = BTreeMap::new();
    for (id, generation) in past.content() {
        let kept = match files.stat((id, generation)) {
            Some(stat) if !may_be_later(past, generation, &stat, to, at) => continue,
            Some(_) => Kept::Later,
            None => files
                .nearest((id, generation))
                .map_or(Kept::Nothing, Kept::Other),
        };
        let node = past.node(id).into_iter();
        let names = node.flat_map(|node| &node.names);
        for path in names.filter_map(|place| past.place_path(place)) {
            let key = (id, generation);
            losses.insert(path.clone(), Loss { path, kept, key });
        }
    }
    Ok(losses.into_values().collect())
}

/// Whether content may have been written after the entry `to`, which was made `at`. What had been
/// put aside by then was not, and a snapshot puts aside everything.
fn may_be_later(past: &Shadow, made: Generation, stat: &Stat, to: Seq, at: i64) -> bool {
    let newest = past.history().snapshots().last();
    made >= past.generation()
        && newest.is_none_or(|snapshot| snapshot.seq != to)
        && stat.ctime >= at - TICK
}
