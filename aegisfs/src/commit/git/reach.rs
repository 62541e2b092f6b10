//! What commits lead to: whether all of it is there, and how the files of one differ from another's.
//!
//! The walk is our own: it takes nothing from a configuration, knows the host's commits by its
//! references and not by what an earlier landing left among the objects, and ends.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashSet};
use std::path::Path;

use git2::{ObjectType, Odb, Oid, Repository};

use super::super::names::is_dot_git;
use super::super::reason::Reason;

/// A blob's id and the mode that a tree gives it.
pub(crate) type Leaf = (Oid, i32);

/// A path whose blob differs between two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) path: Vec<u8>,
    /// What the newer tree has; nothing where it removes the path.
    pub(crate) new: Option<Leaf>,
}

/// The host's and the agent's objects, read together.
pub(crate) struct History {
    repository: Repository,
    known: HashSet<Oid>,
    open: BinaryHeap<(i64, Oid)>,
    whole: HashSet<Oid>,
    looked_at: usize,
}

impl History {
    /// Reads the objects in `stores`. `tips` are what the host's references name: all that they lead
    /// to is the host's.
    pub(crate) fn new(stores: &[&Path], tips: &[Oid]) -> Result<Self, Reason> {
        let store = Odb::new().map_err(unreadable)?;
        for path in stores {
            store
                .add_disk_alternate(&path.to_string_lossy())
                .map_err(unreadable)?;
        }
        let mut history = Self {
            repository: Repository::from_odb(store).map_err(unreadable)?,
            known: HashSet::new(),
            open: BinaryHeap::new(),
            whole: HashSet::new(),
            looked_at: 0,
        };
        for tip in tips {
            if let Ok(commit) = history.commit_of(*tip) {
                history.note_known(commit);
            }
        }
        Ok(history)
    }

    /// The commit that `tip`, or the tag `tip`, names.
    pub(crate) fn commit_of(&self, tip: Oid) -> Result<Oid, Reason> {
        let mut at = tip;
        for _ in 0..TAGS {
            match self.kind(at)? {
                ObjectType::Commit => return Ok(at),
                ObjectType::Tag => {
                    let tag = self.repository.find_tag(at);
                    at = tag.map_err(|_| missing(at))?.target_id();
                }
                _ => break,
            }
        }
        Err(Reason::GitBroken(format!("`{tip}` is not a commit")))
    }

    /// Whether there is an object of this name.
    pub(crate) fn has(&self, id: Oid) -> bool {
        self.repository.odb().is_ok_and(|store| store.exists(id))
    }

    /// Whether the host's references lead to the commit. The newest of the host's are looked at
    /// first, and none that are older than the commit; a false date makes a commit look new, which
    /// is checked more and not less.
    pub(crate) fn is_known(&mut self, commit: Oid) -> bool {
        let Ok(time) = self.time(commit) else {
            return false;
        };
        while !self.known.contains(&commit) && self.known.len() < MOST {
            match self.open.peek() {
                Some((newest, _)) if *newest >= time => {}
                _ => break,
            }
            let Some((_, next)) = self.open.pop() else {
                break;
            };
            let parents: Vec<Oid> = self
                .repository
                .find_commit(next)
                .map(|commit| commit.parent_ids().collect())
                .unwrap_or_default();
            parents.into_iter().for_each(|id| self.note_known(id));
        }
        self.known.contains(&commit)
    }

    fn note_known(&mut self, id: Oid) {
        // A shallow clone lacks the parents of its oldest commits.
        if let Ok(time) = self.time(id)
            && self.known.insert(id)
        {
            self.open.push((time, id));
        }
    }

    fn time(&self, id: Oid) -> Result<i64, git2::Error> {
        Ok(self.repository.find_commit(id)?.time().seconds())
    }

    /// Requires that everything is there that `tip` leads to and the host's references do not.
    pub(crate) fn require_whole(&mut self, tip: Oid) -> Result<(), Reason> {
        let mut open = vec![tip];
        while let Some(id) = open.pop() {
            if self.is_known(id) || !self.whole.insert(id) {
                continue;
            }
            self.count()?;
            let (tree, parents) = self.commit(id)?;
            let before = parents
                .first()
                .and_then(|id| Some(self.commit(*id).ok()?.0));
            self.require_tree(tree, before)?;
            open.extend(parents);
        }
        Ok(())
    }

    fn commit(&self, id: Oid) -> Result<(Oid, Vec<Oid>), Reason> {
        self.require_small(id)?;
        let commit = self.repository.find_commit(id).map_err(|_| missing(id))?;
        Ok((commit.tree_id(), commit.parent_ids().collect()))
    }

    /// What the parent's tree has at the same place is checked with the parent.
    fn require_tree(&mut self, tree: Oid, before: Option<Oid>) -> Result<(), Reason> {
        let mut open = vec![(tree, before, 0)];
        while let Some((tree, before, depth)) = open.pop() {
            if Some(tree) == before || !self.whole.insert(tree) {
                continue;
            }
            if depth > DEPTH {
                return Err(too_much());
            }
            // A partial clone lacks trees of the host's own history.
            let before = before.and_then(|id| self.entries(id).ok());
            let before = before.unwrap_or_default();
            for (name, (id, mode)) in self.entries(tree)? {
                let old = before.get(&name).copied();
                if old == Some((id, mode)) {
                    continue;
                }
                self.count()?;
                match mode {
                    DIRECTORY => {
                        let old = old.filter(|(_, mode)| *mode == DIRECTORY);
                        open.push((id, old.map(|(id, _)| id), depth + 1));
                    }
                    // A submodule's commit is in the submodule.
                    SUBMODULE => {}
                    _ if self.has(id) => {}
                    _ => return Err(missing(id)),
                }
            }
        }
        Ok(())
    }

    /// The paths at which the commit `new` has another blob than `old`, or none where `old` has one.
    pub(crate) fn differences(
        &mut self,
        old: Option<Oid>,
        new: Oid,
    ) -> Result<Vec<Difference>, Reason> {
        let old = old.and_then(|old| Some(self.commit(old).ok()?.0));
        let mut found = Vec::new();
        let mut open = vec![(Vec::new(), old, Some(self.commit(new)?.0), 0)];
        while let Some((prefix, old, new, depth)) = open.pop() {
            if depth > DEPTH {
                return Err(too_much());
            }
            let entries = |tree: Option<Oid>| tree.map(|id| self.entries(id)).transpose();
            // What the host's own history lacks is no reason to hide what is new.
            let old = entries(old).ok().flatten().unwrap_or_default();
            let new = entries(new)?.unwrap_or_default();
            let names: BTreeSet<&Vec<u8>> = old.keys().chain(new.keys()).collect();
            for name in names {
                let (was, is) = (old.get(name).copied(), new.get(name).copied());
                if was == is {
                    continue;
                }
                self.count()?;
                let path = [prefix.as_slice(), name].concat();
                if leaf(was).is_some() || leaf(is).is_some() {
                    let (path, new) = (path.clone(), leaf(is));
                    found.push(Difference { path, new });
                }
                if tree(was).is_some() || tree(is).is_some() {
                    let below = [path.as_slice(), b"/"].concat();
                    open.push((below, tree(was), tree(is), depth + 1));
                }
            }
        }
        Ok(found)
    }

    fn entries(&self, id: Oid) -> Result<BTreeMap<Vec<u8>, Leaf>, Reason> {
        self.require_small(id)?;
        let tree = self.repository.find_tree(id).map_err(|_| missing(id))?;
        let mut entries = BTreeMap::new();
        for entry in &tree {
            let name = entry.name_bytes();
            if !is_sound(name) {
                let name = aegis_policies::path::escape(name);
                return Err(Reason::GitBroken(format!(
                    "a commit names `{name}`, which no checkout may write"
                )));
            }
            entries.insert(name.to_vec(), (entry.id(), entry.filemode()));
        }
        Ok(entries)
    }

    fn kind(&self, id: Oid) -> Result<ObjectType, Reason> {
        let store = self.repository.odb().map_err(unreadable)?;
        let header = store.read_header(id).map_err(|_| missing(id))?;
        Ok(header.1)
    }

    /// Requires a size that can be held in memory.
    fn require_small(&self, id: Oid) -> Result<(), Reason> {
        let store = self.repository.odb().map_err(unreadable)?;
        let (size, _) = store.read_header(id).map_err(|_| missing(id))?;
        if size > LARGE {
            Err(too_much())
        } else {
            Ok(())
        }
    }

    fn count(&mut self) -> Result<(), Reason> {
        self.looked_at += 1;
        if self.looked_at > MOST {
            return Err(too_much());
        }
        Ok(())
    }
}

fn is_sound(name: &[u8]) -> bool {
    let plain = !name.is_empty() && name != b"." && name != b"..";
    plain && !name.contains(&b'/') && !is_dot_git(name)
}

fn leaf(entry: Option<Leaf>) -> Option<Leaf> {
    entry.filter(|(_, mode)| *mode != DIRECTORY)
}

fn tree(entry: Option<Leaf>) -> Option<Oid> {
    entry
        .filter(|(_, mode)| *mode == DIRECTORY)
        .map(|(id, _)| id)
}

fn missing(id: Oid) -> Reason {
    Reason::GitBroken(format!("the object `{id}` is missing or broken"))
}

fn unreadable(error: git2::Error) -> Reason {
    Reason::GitBroken(format!("the objects can not be read: {}", error.message()))
}

fn too_much() -> Reason {
    Reason::GitBroken("the agent's commits hold more than can be checked or shown".to_owned())
}

/// How many objects are looked at in one landing, and how many commits of the host.
const MOST: usize = 200_000;
/// How deep directories may lie in each other.
const DEPTH: usize = 1_000;
/// How many tags may lead to each other.
const TAGS: usize = 8;
/// The largest commit or tree that is read, in bytes.
const LARGE: usize = 64 << 20;
/// The modes in a tree (git's tree format).
const DIRECTORY: i32 = 0o040_000;
const SUBMODULE: i32 = 0o160_000;
