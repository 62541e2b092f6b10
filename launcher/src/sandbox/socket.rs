//! The host's sockets that have a name in the file system.
//!
//! A read-only mount does not keep a program from connecting to a socket in it (connect(2) asks for
//! write permission on the inode, not on the mount), and until Linux 7.1 Landlock does not either.
//! So each socket that somebody listens on is hidden like a credential file.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::facts::{self, Place};
use super::mount::Kind;

/// The table of AF_UNIX sockets of this network namespace; it shows all users' (proc_pid_net(5)).
const TABLE: &str = "/proc/net/unix";
/// The fields before the path: number, reference count, protocol, flags, type, state, inode.
const FIELDS_BEFORE_PATH: usize = 7;

/// The sockets, or the directories that hold nothing else, links resolved.
pub(super) fn find() -> Vec<Place> {
    let table = fs::read(TABLE).unwrap_or_default();
    let paths: BTreeSet<PathBuf> = table
        .split(|byte| *byte == b'\n')
        .filter_map(path)
        .filter(|path| is_socket(path))
        .filter_map(|path| facts::resolve(&path))
        .collect();
    let places: BTreeSet<(PathBuf, bool)> = paths.iter().map(|path| hide(path)).collect();
    let kind = |is_directory| {
        if is_directory {
            Kind::Directory
        } else {
            Kind::File
        }
    };
    places
        .into_iter()
        .map(|(path, is_directory)| Place {
            path,
            kind: kind(is_directory),
        })
        .collect()
}

/// The path of a line; names in the abstract namespace start with `@`, relative ones mean nothing.
fn path(line: &[u8]) -> Option<PathBuf> {
    let mut rest = line;
    for _ in 0..FIELDS_BEFORE_PATH {
        let start = rest.iter().position(|byte| *byte != b' ')?;
        rest = rest.get(start..)?;
        let end = rest.iter().position(|byte| *byte == b' ')?;
        rest = rest.get(end..)?;
    }
    let path = Path::new(OsStr::from_bytes(rest.get(1..)?));
    path.is_absolute().then(|| path.to_owned())
}

fn is_socket(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|metadata| metadata.file_type().is_socket())
}

/// A directory of sockets is hidden as a whole, so that a server which starts anew and makes its
/// socket again does not take the mount away.
fn hide(socket: &Path) -> (PathBuf, bool) {
    match socket.parent() {
        Some(folder) if folder.parent().is_some() && holds_sockets_alone(folder) => {
            (folder.to_owned(), true)
        }
        _ => (socket.to_owned(), false),
    }
}

fn holds_sockets_alone(folder: &Path) -> bool {
    let Ok(listing) = fs::read_dir(folder) else {
        return false;
    };
    listing.flatten().all(|entry| {
        let is_mark = Path::new(&entry.file_name())
            .extension()
            .is_some_and(|extension| extension == "lock" || extension == "pid");
        is_mark || entry.file_type().is_ok_and(|kind| kind.is_socket())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_line_is_read_up_to_its_end() {
        let line = b"0000000000000000: 00000002 00000000 00010000 0001 01 12345 /a b/c";
        assert_eq!(path(line), Some("/a b/c".into()));
        let line = b"0000000000000000: 00000002 00000000 00010000 0001 01 12345 @name";
        assert_eq!(path(line), None);
        let line = b"0000000000000000: 00000003 00000000 00000000 0001 03 12345";
        assert_eq!(path(line), None);
        assert_eq!(
            path(b"Num       RefCount Protocol Flags    Type St Inode Path"),
            None
        );
    }

    #[test]
    fn sockets_are_found_with_their_directory() {
        let folder = tempfile::tempdir().unwrap();
        let root = facts::resolve(folder.path()).unwrap();
        fs::create_dir(root.join("alone")).unwrap();
        fs::write(root.join("file"), "").unwrap();
        let _mixed = UnixListener::bind(root.join("socket")).unwrap();
        let _alone = UnixListener::bind(root.join("alone/socket")).unwrap();
        let found: Vec<_> = find()
            .into_iter()
            .filter(|place| place.path.starts_with(&root))
            .map(|place| (place.path, place.kind))
            .collect();
        let expected = [
            (root.join("alone"), Kind::Directory),
            (root.join("socket"), Kind::File),
        ];
        assert_eq!(found, expected);
    }
}
