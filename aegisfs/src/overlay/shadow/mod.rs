//! The state of the shadow: what the session changed, and nothing else.
//!
//! It is the replay of the journal's [`ShadowOp`] entries on an empty tree and never looks at the
//! host; of what landed, the records of the landings tell. What it does not mention is the host's.
//! A directory of the host is known by its path there ([`FolderKey::Lower`]) wherever it is shown,
//! so renaming one moves everything below it with a single entry.

mod apply;
mod differ;
mod find;
mod fit;
mod history;
#[cfg(test)]
pub(crate) mod tests;
mod thinning;

use std::collections::{BTreeMap, HashMap};

use aegis_policies::RelPath;
use aegis_policies::journal::{
    Baseline, Entry, Event, Generation, LowerFile, NodeId, NodeKind, Seq, SnapshotCause,
};
use serde::{Deserialize, Serialize};

pub(crate) use find::DEEPEST;
use fit::Misfit;
pub use history::Snapshot;
pub(crate) use history::{ContentKey, History};

use super::relocations::Relocations;

/// Numbers from here on are given to nodes that have no number of the host's.
pub(crate) const FIRST_MADE: u64 = 1 << 63;

/// A directory, by where its untouched children come from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum FolderKey {
    /// A directory of the host, by its path there.
    Lower(RelPath),
    /// A directory that the session made; nothing of the host shows through.
    Made(NodeId),
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) folder: FolderKey,
    pub(crate) name: Box<[u8]>,
}

/// What the shadow says about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Child {
    /// The host's name is gone (a whiteout).
    Hidden,
    /// The name leads to this node.
    Node(NodeId),
}

/// What the shadow says about the names in a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Folder {
    pub(crate) children: BTreeMap<Box<[u8]>, Child>,
    /// The modification time that the session caused, and when it did.
    pub(crate) touched: Option<Touched>,
    /// Directories added less directories removed.
    pub(crate) subfolders: i64,
}

/// A modification time and the moment it was set, in nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Touched {
    pub(crate) mtime: i64,
    pub(crate) at: i64,
}

/// Where a node of the host's tree comes from, and what it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    pub(crate) lower: LowerFile,
    pub(crate) baseline: Baseline,
}

/// A node that the session made or touched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Node {
    pub(crate) kind: NodeKind,
    pub(crate) origin: Option<Origin>,
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) atime: Option<i64>,
    pub(crate) mtime: Option<i64>,
    /// When anything but the content changed last.
    pub(crate) changed: i64,
    pub(crate) xattrs: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// The names that the shadow knows; a hard link of the host may have more.
    pub(crate) names: Vec<Place>,
    /// How many names there are in all.
    pub(crate) links: u64,
    /// The generation in which the session's own content was made; `None` while it is the host's.
    pub(crate) content: Option<Generation>,
}

/// The whole state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shadow {
    folders: BTreeMap<FolderKey, Folder>,
    nodes: HashMap<NodeId, Node>,
    /// The nodes of the host's directories that are in `nodes`.
    lower_folders: HashMap<RelPath, NodeId>,
    /// The nodes of the host's files with several names, by device and inode number.
    aliases: HashMap<(u64, u64), NodeId>,
    /// The host's names that are gone, and what they led to.
    removed: BTreeMap<RelPath, Baseline>,
    /// Known from elsewhere: what has landed is no part of the journal.
    #[serde(skip)]
    relocations: Relocations,
    next_made: u64,
    history: History,
}

impl Shadow {
    /// The shadow of a session that has not changed anything.
    pub(crate) fn new() -> Self {
        Self {
            folders: BTreeMap::new(),
            nodes: HashMap::new(),
            lower_folders: HashMap::new(),
            aliases: HashMap::new(),
            removed: BTreeMap::new(),
            relocations: Relocations::default(),
            next_made: FIRST_MADE + 1,
            history: History::default(),
        }
    }

    /// The shadow of a session that has not changed anything, of which landings have made
    /// `relocations` of the project.
    pub(crate) fn over(relocations: Relocations) -> Self {
        Self {
            relocations,
            ..Self::new()
        }
    }

    /// The same with what landings have made of the project; it is no part of a checkpoint's shadow.
    pub(crate) fn with(self, relocations: Relocations) -> Self {
        Self {
            relocations,
            ..self
        }
    }

    /// Makes the change that an entry records; entries that record none change nothing. `past` gives
    /// the state after an earlier entry, which a rewind goes back to.
    ///
    /// # Errors
    /// [`Misfit`] when the entry does not follow from those before it.
    pub(crate) fn replay(
        &mut self,
        seq: Seq,
        entry: Entry,
        past: impl FnOnce(Seq) -> Option<Self>,
    ) -> Result<(), Misfit> {
        match entry.event {
            Event::Shadow(operation) => {
                let prepared = self.prepare(operation)?;
                let at = i64::try_from(entry.at).unwrap_or(i64::MAX);
                if let Some(orphan) = self.commit(prepared, at) {
                    self.drop_orphan(orphan);
                }
            }
            Event::Snapshot { name, cause } => {
                self.snapshot(seq, entry.at, name, cause);
            }
            Event::Rewound { to } => {
                let past = past(to).ok_or(Misfit("it goes back to what comes later"))?;
                drop(self.rewind(past));
            }
            _ => return Ok(()),
        }
        // Files are collected when the tree is opened.
        drop(self.take_freed());
        Ok(())
    }

    /// The first number that no node ever had.
    pub(crate) const fn first_free(&self) -> NodeId {
        NodeId(self.next_made)
    }

    /// The node, when the session made or touched it.
    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(&id)
    }

    /// How often the shadow has been put aside.
    pub(crate) const fn generation(&self) -> Generation {
        self.history.generation()
    }

    /// Its snapshots, and what they hold.
    pub(crate) const fn history(&self) -> &History {
        &self.history
    }

    /// The content files that nothing needs any more; asked for once.
    pub(crate) fn take_freed(&mut self) -> Vec<ContentKey> {
        let mut freed = self.history.take_freed();
        freed.retain(|key| !self.has_content(key));
        freed
    }

    /// Whether the tree, or a file that is open without a name, has this content.
    pub(crate) fn has_content(&self, key: &ContentKey) -> bool {
        has_content(&self.nodes, key)
    }

    /// Whether a snapshot needs content of a node as it is.
    pub(crate) fn is_needed(&self, id: NodeId, generation: Generation) -> bool {
        let key = (id, generation);
        match self.nodes.get(&id) {
            Some(node) if !node.is_orphan() => self.history.covers(&key),
            _ => self.history.holds(&key),
        }
    }

    /// Notes that the present state can be gone back to: it was that of entry `seq`, written `at`
    /// (nanoseconds since the Unix epoch).
    pub(crate) fn snapshot(
        &mut self,
        seq: Seq,
        at: u64,
        name: Option<String>,
        cause: SnapshotCause,
    ) -> Snapshot {
        let nodes = &self.nodes;
        let live = |key: &ContentKey| has_content(nodes, key);
        self.history.put_aside(seq, at, name, cause, live)
    }

    /// Becomes what it was in the `past`; returns what it was until now. Numbers that were given
    /// since are not given again.
    pub(crate) fn rewind(&mut self, past: Self) -> Self {
        let before: Vec<ContentKey> = self.content().collect();
        let mut history = std::mem::take(&mut self.history);
        history.turn(before.iter().copied());
        let next_made = self.next_made.max(past.next_made);
        let now = Self {
            relocations: self.relocations.clone(),
            next_made,
            history,
            ..past
        };
        let left = std::mem::replace(self, now);
        for key in before {
            if !self.has_content(&key) {
                self.history.release(key);
            }
        }
        left
    }

    /// Keeps a node of another state, without a name.
    pub(crate) fn adopt_orphan(&mut self, id: NodeId, mut node: Node) {
        node.names.clear();
        node.links = 0;
        self.nodes.insert(id, node);
    }

    /// The content files of the tree: of the nodes that have a name.
    pub(crate) fn content(&self) -> impl Iterator<Item = ContentKey> {
        let named = self.nodes.iter().filter(|(_, node)| !node.is_orphan());
        named.filter_map(|(id, node)| Some((*id, node.content?)))
    }

    /// Every node that the session made or touched.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().map(|(id, node)| (*id, node))
    }

    /// What the session changed in a directory.
    pub(crate) fn folder(&self, key: &FolderKey) -> Option<&Folder> {
        self.folders.get(key)
    }

    /// What the session says about a name.
    pub(crate) fn child(&self, key: &FolderKey, name: &[u8]) -> Option<Child> {
        self.folders.get(key)?.children.get(name).copied()
    }

    /// The node of the host's inode with several names.
    pub(crate) fn alias(&self, dev: u64, ino: u64) -> Option<NodeId> {
        self.aliases.get(&(dev, ino)).copied()
    }

    /// The nodes of the host's inodes with several names whose content or mode changed.
    pub(crate) fn changed_aliases(&self) -> impl Iterator<Item = ((u64, u64), NodeId)> {
        let changed = |id: &NodeId| {
            self.nodes
                .get(id)
                .is_some_and(|node| node.content.is_some() || node.mode.is_some())
        };
        self.aliases
            .iter()
            .filter(move |(_, id)| changed(id))
            .map(|(inode, id)| (*inode, *id))
    }

    /// The host's directories that have nodes of their own.
    pub(crate) fn lower_folders(&self) -> Vec<RelPath> {
        self.lower_folders.keys().cloned().collect()
    }

    /// The host's names that are gone, and what they led to, in the order of their paths.
    pub(crate) fn removed(&self) -> impl Iterator<Item = (&RelPath, &Baseline)> {
        self.removed.iter()
    }

    /// What the host has under a name that the agent removed.
    pub(crate) fn removed_at(&self, path: &RelPath) -> Option<&Baseline> {
        self.removed.get(path)
    }

    /// Gives a node without a name content of this generation; there is no name to record it under.
    pub(crate) fn orphan_forked(&mut self, id: NodeId) {
        let generation = self.generation();
        if let Some(before) = self.renew_content(id, generation) {
            self.history.release((id, before));
        }
    }

    /// Drops a node that has no name and that nobody holds any more; tells whether it had one.
    pub(crate) fn drop_orphan(&mut self, id: NodeId) -> bool {
        if !self.nodes.get(&id).is_some_and(Node::is_orphan) {
            return false;
        }
        let Some(node) = self.nodes.remove(&id) else {
            return false;
        };
        if let Some(generation) = node.content {
            self.history.release((id, generation));
        }
        if let Some(origin) = node.origin
            && self.alias(origin.lower.dev, origin.lower.ino) == Some(id)
        {
            self.aliases.remove(&(origin.lower.dev, origin.lower.ino));
        }
        true
    }
}

fn has_content(nodes: &HashMap<NodeId, Node>, (id, generation): &ContentKey) -> bool {
    let node = nodes.get(id);
    node.is_some_and(|node| node.content == Some(*generation))
}

impl Node {
    /// Whether no name leads to it any more.
    pub(crate) fn is_orphan(&self) -> bool {
        self.links == 0
    }

    /// Whether it is a directory.
    pub(crate) fn is_folder(&self) -> bool {
        self.kind == NodeKind::Directory
    }

    /// The directory that it is; `None` for anything else.
    pub(crate) fn folder_key(&self, id: NodeId) -> Option<FolderKey> {
        if !self.is_folder() {
            return None;
        }
        Some(match &self.origin {
            Some(origin) => FolderKey::Lower(origin.lower.path.clone()),
            None => FolderKey::Made(id),
        })
    }
}

impl Place {
    /// The host's path of this name, when its directory is one of the host's.
    pub(crate) fn lower(&self) -> Option<RelPath> {
        match &self.folder {
            FolderKey::Lower(folder) => folder.join(&self.name).ok(),
            FolderKey::Made(_) => None,
        }
    }
}
