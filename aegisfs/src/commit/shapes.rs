//! Rules that look at several names at once: look-alikes, repositories in disguise, and what hangs
//! on a refused directory.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use aegis_policies::RelPath;

use super::beneath::Tree;
use super::git;
use super::item::{Group, Item};
use super::names::fold;
use super::reason::Reason;
use super::state::State;

/// Refuses names that other systems take for another name of the plan or of the host.
pub(crate) fn refuse_look_alikes(tree: Tree<'_>, items: &mut [Item]) {
    let mut made: HashMap<RelPath, HashMap<Vec<u8>, Vec<Vec<u8>>>> = HashMap::new();
    for (parent, name) in items
        .iter()
        .filter(|item| is_new_file(item))
        .filter_map(split)
    {
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
                && !goes(items, parent, &name)
            {
                names.push(name);
            }
        }
    }
    for item in items.iter_mut().filter(|item| is_new_file(item)) {
        let other = split(item).and_then(|(parent, name)| {
            made.get(&parent)?
                .get(&fold(&name))?
                .iter()
                .find(|other| **other != name)
        });
        if let Some(other) = other {
            item.refuse(Reason::Collides(aegis_policies::path::escape(other)));
        }
    }
}

/// Refuses what would make git take a directory for a bare repository: HEAD beside objects and
/// refs, or beside a `commondir` that points to them (git's `is_git_directory`).
pub(crate) fn refuse_bare_repositories(tree: Tree<'_>, items: &mut [Item]) {
    let mut suspects: BTreeMap<RelPath, BTreeSet<Vec<u8>>> = BTreeMap::new();
    for item in items.iter().filter(|item| is_new_file(item)) {
        if let Some((parent, name)) = split(item)
            && PARTS.contains(&fold(&name).as_slice())
        {
            suspects.entry(parent).or_default().insert(fold(&name));
        }
    }
    for (directory, parts) in &mut suspects {
        let names = tree.names(directory).unwrap_or_default();
        parts.extend(names.iter().map(|name| fold(name)));
    }
    suspects.retain(|_, parts| is_repository(parts));
    for item in items.iter_mut().filter(|item| is_new_file(item)) {
        if let Some((parent, name)) = split(item)
            && suspects.contains_key(&parent)
            && PARTS.contains(&fold(&name).as_slice())
        {
            item.refuse(Reason::BareRepository);
        }
    }
}

/// Refuses changes of what git executes or is led elsewhere by, in a directory of the host that git
/// takes for a repository already, whatever it is called: a fixture, a backup, a mirror.
pub(crate) fn refuse_changes_of_repositories(tree: Tree<'_>, items: &mut [Item]) {
    let mut known: HashMap<RelPath, bool> = HashMap::new();
    let files = items.iter_mut().filter(|item| item.group == Group::Files);
    for item in files.filter(|item| item.agent != State::Absent) {
        let path = item.path.as_bytes();
        let starts = path
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'/')
            .map(|(at, _)| at + 1);
        let found = std::iter::once(0).chain(starts).any(|start| {
            let (above, rest) = path.split_at_checked(start).unwrap_or_default();
            let above = above.strip_suffix(b"/").unwrap_or(above);
            is_locked(&fold(rest), item)
                && RelPath::parse(above).is_ok_and(|above| {
                    *known.entry(above).or_insert_with_key(|above| {
                        let names = tree.names(above).unwrap_or_default();
                        is_repository(&names.iter().map(|name| fold(name)).collect())
                    })
                })
        });
        if found {
            item.refuse(Reason::BareRepository);
        }
    }
}

/// Whether the name `rest` of a repository is one that git executes or is led elsewhere by.
fn is_locked(rest: &[u8], item: &Item) -> bool {
    git::rule(rest, &item.base, &item.agent) == git::Rule::Refuse(Reason::GitLocked)
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

fn is_new_file(item: &Item) -> bool {
    item.group == Group::Files && item.makes_name()
}

fn split(item: &Item) -> Option<(RelPath, Vec<u8>)> {
    item.path
        .split_last()
        .map(|(parent, name)| (parent, name.to_vec()))
}

/// Whether the plan removes this name, as a rename that only changes letter case does.
fn goes(items: &[Item], parent: &RelPath, name: &[u8]) -> bool {
    parent.join(name).is_ok_and(|path| {
        items
            .iter()
            .any(|item| item.path == path && item.agent == State::Absent)
    })
}
