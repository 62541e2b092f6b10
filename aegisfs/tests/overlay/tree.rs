//! A whole tree as a value.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Every name of a tree with type, mode, number of names and content. Files that share an inode
/// share a number. Times are left out: two trees are never changed at the same moment.
pub fn dump(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut inodes = BTreeMap::new();
    walk(root, Path::new(""), &mut found, &mut inodes);
    found
}

/// The same with modification times, for a tree that must not change at all.
pub fn fingerprint(root: &Path) -> BTreeMap<String, String> {
    let mut found = dump(root);
    for (name, shown) in &mut found {
        let meta = fs::symlink_metadata(root.join(name.trim_start_matches('/'))).unwrap();
        let (uid, gid) = (meta.uid(), meta.gid());
        write!(
            shown,
            " {}.{} {} {uid} {gid}",
            meta.mtime(),
            meta.mtime_nsec(),
            meta.ctime()
        )
        .unwrap();
    }
    found
}

fn walk(
    root: &Path,
    at: &Path,
    found: &mut BTreeMap<String, String>,
    inodes: &mut BTreeMap<u64, String>,
) {
    let mut names: Vec<_> = fs::read_dir(root.join(at))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    for name in names {
        let path = at.join(&name);
        let full = root.join(&path);
        let meta = fs::symlink_metadata(&full).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let kind = meta.file_type();
        let shown = path.to_string_lossy().into_owned();
        let mode = meta.mode() & 0o7777;
        let text = if kind.is_dir() {
            walk(root, &path, found, inodes);
            format!("dir {mode:o}")
        } else if kind.is_symlink() {
            let target = fs::read_link(&full).unwrap();
            format!(
                "link {:?}",
                target.as_os_str().as_bytes().escape_ascii().to_string()
            )
        } else if kind.is_file() {
            let first = inodes.entry(meta.ino()).or_insert_with(|| shown.clone());
            let bytes = fs::read(&full).unwrap();
            assert_eq!(bytes.len() as u64, meta.len(), "{path:?}");
            let links = meta.nlink();
            format!("file {mode:o} {links} {first} {}", bytes.escape_ascii())
        } else {
            let name = match (kind.is_fifo(), kind.is_socket(), kind.is_char_device()) {
                (true, ..) => "fifo",
                (_, true, _) => "socket",
                (.., true) => "character",
                _ => "block",
            };
            format!("{name} {mode:o} {:x}", meta.rdev())
        };
        found.insert(shown, text);
    }
}
