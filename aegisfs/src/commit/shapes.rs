//! Rules that look at several names at once and at what the host has beside them: look-alikes,
//! repositories in disguise, links that lead on through others, and what hangs on a refused
//! directory.
//!
//! The host's tree can change between a review and the landing, and a second session's landing can
//! be that change. These rules are therefore asked again of what is frozen, and once more when
//! nobody else lands any more.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use aegis_policies::RelPath;

use super::beneath::Tree;
use super::frozen::Entry;
use super::git;
use super::item::{Group, Item};
use super::links;
use super::names::fold;
use super::reason::Reason;
use super::state::State;

/// A change of one name, as far as these rules look at it.
pub(crate) trait Change {
    fn path(&self) -> &RelPath;
    fn group(&self) -> Group;
    /// What both sides started from.
    fn before(&self) -> &State;
    /// What the project gets.
    fn after(&self) -> &State;

    /// Whether it makes a name of the project's that was not there.
    fn is_new_file(&self) -> bool {
        self.group() == Group::Files
            && *self.before() == State::Absent
            && *self.after() != State::Absent
    }
}

/// What may not land, by number.
pub(crate) fn judge(tree: Tree<'_>, changes: &[impl Change]) -> BTreeMap<usize, Reason> {
    let mut refused = BTreeMap::new();
    let found = look_alikes(tree, changes)
        .into_iter()
        .chain(bare_repositories(tree, changes))
        .chain(changes_of_repositories(tree, changes))
        .chain(wandering_links(tree, changes));
    for (number, reason) in found {
        refused.entry(number).or_insert(reason);
    }
    refused
}

/// Names that other systems take for another name of the plan or of the host.
fn look_alikes(tree: Tree<'_>, changes: &[impl Change]) -> Vec<(usize, Reason)> {
    let mut made: HashMap<RelPath, HashMap<Vec<u8>, Vec<Vec<u8>>>> = HashMap::new();
    for (_, parent, name) in new_files(changes) {
        made.entry(parent)
            .or_default()
            .entry(fold(&name))
            .or_default()
            .push(name);
    }
    for (parent, folds) in &mut made {
        // What can not be listed can not be landed in either, or only without replacing anything.
        for name in tree.names(parent).unwrap_or_default() {
            if let Some(names) = folds.get_mut(&fold(&name))
                && !names.contains(&name)
                && !goes(changes, parent, &name)
            {
                names.push(name);
            }
        }
    }
    let other = |(number, parent, name): (usize, RelPath, Vec<u8>)| {
        let names = made.get(&parent)?.get(&fold(&name))?;
        let other = names.iter().find(|other| **other != name)?;
        let reason = Reason::Collides(aegis_policies::path::escape(other));
        Some((number, reason))
    };
    new_files(changes).filter_map(other).collect()
}

/// What would make git take a directory for a bare repository: HEAD beside objects and refs, or
/// beside a `commondir` that points to them (git's `is_git_directory`).
fn bare_repositories(tree: Tree<'_>, changes: &[impl Change]) -> Vec<(usize, Reason)> {
    let is_part = |name: &[u8]| PARTS.contains(&fold(name).as_slice());
    let parts = || new_files(changes).filter(|(_, _, name)| is_part(name));
    let mut suspects: BTreeMap<RelPath, BTreeSet<Vec<u8>>> = BTreeMap::new();
    for (_, parent, name) in parts() {
        suspects.entry(parent).or_default().insert(fold(&name));
    }
    for (directory, parts) in &mut suspects {
        let names = tree.names(directory).unwrap_or_default();
        parts.extend(names.iter().map(|name| fold(name)));
    }
    suspects.retain(|_, parts| is_repository(parts));
    parts()
        .filter(|(_, parent, _)| suspects.contains_key(parent))
        .map(|(number, ..)| (number, Reason::BareRepository))
        .collect()
}

/// Changes of what git executes or is led elsewhere by, in a directory of the host that git takes
/// for a repository already, whatever it is called: a fixture, a backup, a mirror.
fn changes_of_repositories(tree: Tree<'_>, changes: &[impl Change]) -> Vec<(usize, Reason)> {
    let mut known: HashMap<RelPath, bool> = HashMap::new();
    let mut refused = Vec::new();
    let files = changes.iter().enumerate();
    let files = files.filter(|(_, change)| change.group() == Group::Files);
    for (number, change) in files.filter(|(_, change)| *change.after() != State::Absent) {
        let path = change.path().as_bytes();
        let starts = path
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'/')
            .map(|(at, _)| at + 1);
        let found = std::iter::once(0).chain(starts).any(|start| {
            let (above, rest) = path.split_at_checked(start).unwrap_or_default();
            let above = above.strip_suffix(b"/").unwrap_or(above);
            is_locked(&fold(rest), change)
                && RelPath::parse(above).is_ok_and(|above| {
                    *known.entry(above).or_insert_with_key(|above| {
                        let names = tree.names(above).unwrap_or_default();
                        is_repository(&names.iter().map(|name| fold(name)).collect())
                    })
                })
        });
        if found {
            refused.push((number, Reason::BareRepository));
        }
    }
    refused
}

/// Links that lead out of the project, or into a repository, through links of the host or of the
/// plan.
fn wandering_links(tree: Tree<'_>, changes: &[impl Change]) -> Vec<(usize, Reason)> {
    let plan: links::Plan<'_> = changes
        .iter()
        .map(|change| (change.path(), change.after()))
        .collect();
    let mut refused = Vec::new();
    for (number, change) in changes.iter().enumerate() {
        let State::Symlink { target } = change.after() else {
            continue;
        };
        // A part of the plan may be left alone, so the host's links count by themselves too.
        let found = links::resolve(tree, &plan, change.path(), target)
            .and_then(|_| links::resolve(tree, &links::Plan::new(), change.path(), target));
        refused.extend(found.err().map(|reason| (number, reason)));
    }
    refused
}

/// Whether the name `rest` of a repository is one that git executes or is led elsewhere by.
fn is_locked(rest: &[u8], change: &impl Change) -> bool {
    git::rule(rest, change.before(), change.after()) == git::Rule::Refuse(Reason::GitLocked)
}

/// Whether git takes a directory with these names for a repository (git's `is_git_directory`).
fn is_repository(names: &BTreeSet<Vec<u8>>) -> bool {
    let has = |name: &[u8]| names.contains(name);
    has(b"head") && (has(b"commondir") || (has(b"objects") && has(b"refs")))
}

/// Refuses what lies in a directory that does not land. `items` are sorted by path.
pub(crate) fn refuse_orphans(items: &mut [Item]) {
    let mut refused: BTreeSet<RelPath> = BTreeSet::new();
    for item in items.iter_mut() {
        let parent = item.path.split_last().map(|(parent, _)| parent);
        if let Some(parent) = parent.filter(|parent| refused.contains(parent))
            && item.agent != State::Absent
        {
            item.refuse(Reason::Parent(parent.to_string()));
        }
        if item.refusal.is_some() && item.agent.is_directory() && !item.base.is_directory() {
            refused.insert(item.path.clone());
        }
    }
}

const PARTS: [&[u8]; 4] = [b"head", b"objects", b"refs", b"commondir"];

/// The new names, with their numbers, as a directory and a name in it.
fn new_files(changes: &[impl Change]) -> impl Iterator<Item = (usize, RelPath, Vec<u8>)> {
    let new = changes.iter().enumerate();
    let new = new.filter(|(_, change)| change.is_new_file());
    new.filter_map(|(number, change)| {
        let (parent, name) = change.path().split_last()?;
        Some((number, parent, name.to_vec()))
    })
}

/// Whether the plan removes this name, as a rename that only changes letter case does.
fn goes(changes: &[impl Change], parent: &RelPath, name: &[u8]) -> bool {
    parent.join(name).is_ok_and(|path| {
        changes
            .iter()
            .any(|change| *change.path() == path && *change.after() == State::Absent)
    })
}

impl Change for Item {
    fn path(&self) -> &RelPath {
        &self.path
    }

    fn group(&self) -> Group {
        self.group
    }

    fn before(&self) -> &State {
        &self.base
    }

    fn after(&self) -> &State {
        &self.agent
    }
}

impl Change for Entry {
    fn path(&self) -> &RelPath {
        &self.path
    }

    fn group(&self) -> Group {
        self.group
    }

    fn before(&self) -> &State {
        &self.base
    }

    fn after(&self) -> &State {
        &self.new
    }
}
