//! What git would make of the files in the work tree, as they will be after the landing.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd as _, OwnedFd};

use aegis_policies::RelPath;
use git2::{ObjectType, Oid};

use super::super::freeze::Freezer;
use super::super::frozen::Entry;
use super::super::git::Leaf;
use super::super::item::Group;
use super::super::site::open_private;
use super::super::state::State;

/// What the work tree will hold.
pub(super) struct WorkTree<'a> {
    freezer: &'a Freezer<'a>,
    entries: BTreeMap<&'a RelPath, &'a Entry>,
    seen: BTreeMap<RelPath, Option<Leaf>>,
}

impl<'a> WorkTree<'a> {
    pub(super) fn new(freezer: &'a Freezer<'a>) -> Self {
        let files = freezer.entries.iter();
        let files = files.filter(|entry| entry.group == Group::Files);
        Self {
            freezer,
            entries: files.map(|entry| (&entry.path, entry)).collect(),
            seen: BTreeMap::new(),
        }
    }

    /// The blob and mode that git would give to what lies at the path; none for what it does not
    /// keep, or what can not be read.
    pub(super) fn leaf(&mut self, path: &RelPath) -> Option<Leaf> {
        if let Some(seen) = self.seen.get(path) {
            return *seen;
        }
        let leaf = match self.entries.get(path) {
            Some(entry) => self.landing(entry),
            None => self.on_host(path),
        };
        self.seen.insert(path.clone(), leaf);
        leaf
    }

    fn landing(&self, entry: &Entry) -> Option<Leaf> {
        let tree = self.freezer.site.tree();
        match &entry.new {
            State::File { sha256, mode } => {
                let from = entry.moved_from.as_ref().unwrap_or(&entry.path);
                let file = open_private(&self.freezer.stage.path(*sha256))
                    .or_else(|_| tree.file(&entry.path))
                    .or_else(|_| tree.file(from));
                blob(&file.ok()?, *mode)
            }
            state => link(state),
        }
    }

    fn on_host(&self, path: &RelPath) -> Option<Leaf> {
        let tree = self.freezer.site.tree();
        match tree.file(path) {
            Ok(file) => {
                let mode = rustix::fs::fstat(&file).ok()?.st_mode;
                blob(&file, mode)
            }
            Err(_) => link(&tree.observe(path).ok()?.state),
        }
    }
}

fn blob(file: &OwnedFd, mode: u32) -> Option<Leaf> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let id = Oid::hash_file(ObjectType::Blob, path).ok()?;
    let mode = if mode & 0o100 == 0 {
        0o100_644
    } else {
        0o100_755
    };
    Some((id, mode))
}

fn link(state: &State) -> Option<Leaf> {
    match state {
        State::Symlink { target } => {
            let id = Oid::hash_object(ObjectType::Blob, target).ok()?;
            Some((id, 0o120_000))
        }
        _ => None,
    }
}

/// What git makes of a mode in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Executable,
    Link,
    Submodule,
}

pub(super) const fn kind(mode: i32) -> Kind {
    match mode & 0o170_000 {
        0o120_000 => Kind::Link,
        0o160_000 => Kind::Submodule,
        _ if mode & 0o100 != 0 => Kind::Executable,
        _ => Kind::File,
    }
}
