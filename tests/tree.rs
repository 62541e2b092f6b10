//! Trees that can be compared.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// What a name in a tree is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A directory and its permission bits.
    Directory(u32),
    /// A symbolic link and its target.
    Link(PathBuf),
    /// A regular file: permission bits, size in bytes, SHA-256 in hexadecimal.
    File(u32, u64, String),
    /// Anything else: the type bits of its mode.
    Other(u32),
}

/// Inode, modification time and status change time in seconds and nanoseconds.
pub type Stamp = (u64, i64, i64, i64, i64);

/// Every name below a directory with what it is.
pub type Tree = BTreeMap<PathBuf, Node>;

/// Reads the tree below `root`, leaving out the relative paths in `except` and all below them.
///
/// # Panics
/// When something can not be read.
#[must_use]
pub fn read(root: &Path, except: &[&str]) -> Tree {
    let mut tree = Tree::new();
    walk(root, Path::new(""), except, &mut |relative, path, facts| {
        tree.insert(relative.to_owned(), node(path, facts));
    });
    tree
}

/// Inode, modification time and status change time (seconds and nanoseconds) of every name: equal
/// only if nothing was written, replaced, or even touched.
#[must_use]
pub fn stamps(root: &Path) -> BTreeMap<PathBuf, Stamp> {
    let mut stamps = BTreeMap::new();
    walk(root, Path::new(""), &[], &mut |relative, _, facts| {
        let stamp = (
            facts.ino(),
            facts.mtime(),
            facts.mtime_nsec(),
            facts.ctime(),
            facts.ctime_nsec(),
        );
        stamps.insert(relative.to_owned(), stamp);
    });
    stamps
}

/// The names that differ, one line each; empty when the trees are equal.
#[must_use]
pub fn differences(left: &Tree, right: &Tree) -> Vec<String> {
    let mut names: Vec<&PathBuf> = left.keys().chain(right.keys()).collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .filter(|name| left.get(*name) != right.get(*name))
        .map(|name| {
            format!(
                "{}: {:?} | {:?}",
                name.display(),
                left.get(name),
                right.get(name)
            )
        })
        .collect()
}

/// Fails the test when something below `root` was touched since `before` was taken.
///
/// # Panics
/// When it was.
#[track_caller]
pub fn assert_untouched(root: &Path, before: &BTreeMap<PathBuf, Stamp>) {
    let now = stamps(root);
    let touched: Vec<_> = before
        .keys()
        .filter(|name| before.get(*name) != now.get(*name))
        .collect();
    assert!(touched.is_empty(), "these were touched: {touched:?}");
    assert_eq!(before.len(), now.len(), "names were added");
}

/// Fails the test when the trees differ.
///
/// # Panics
/// When they do.
#[track_caller]
pub fn assert_same(left: &Tree, right: &Tree) {
    let found = differences(left, right);
    assert!(
        found.is_empty(),
        "{} names differ:\n{}",
        found.len(),
        found.join("\n")
    );
    assert!(
        !left.is_empty(),
        "both trees are empty: the comparison shows nothing"
    );
}

fn walk(
    root: &Path,
    relative: &Path,
    except: &[&str],
    visit: &mut impl FnMut(&Path, &Path, &fs::Metadata),
) {
    let directory = root.join(relative);
    let entries = fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("`{}`: {error}", directory.display()));
    for entry in entries {
        let name = relative.join(entry.unwrap().file_name());
        if except.iter().any(|left_out| name == Path::new(left_out)) {
            continue;
        }
        let path = root.join(&name);
        let facts = fs::symlink_metadata(&path).unwrap();
        visit(&name, &path, &facts);
        if facts.is_dir() {
            walk(root, &name, except, visit);
        }
    }
}

fn node(path: &Path, facts: &fs::Metadata) -> Node {
    let mode = facts.permissions().mode() & 0o7777;
    if facts.is_dir() {
        Node::Directory(mode)
    } else if facts.is_symlink() {
        Node::Link(fs::read_link(path).unwrap())
    } else if facts.is_file() {
        Node::File(mode, facts.len(), sha256(&fs::read(path).unwrap()))
    } else {
        Node::Other(facts.mode() & 0o170_000)
    }
}

fn sha256(content: &[u8]) -> String {
    Sha256::digest(content)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
