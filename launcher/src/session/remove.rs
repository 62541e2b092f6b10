//! Removing a session: beneath directory descriptors, following no link, entering no mount.

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RawMode, RenameFlags, ResolveFlags, fstat, openat,
    openat2, renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;

use super::error::SessionError;
use super::home::AegisHome;
use super::id::SessionId;
use super::lock::{Lock, is_held};

/// How the directory of a session is called that is being made.
pub(super) const DRAFT: &str = ".draft-";
/// How the directory of a session is called that is being removed.
const DOOMED: &str = ".doomed-";
/// A draft that is younger may still be in the making.
const YOUTH: Duration = Duration::from_secs(60);

/// Removes the session `id` with everything in it.
///
/// It loses its name first, so that a removal that is cut short leaves no session that looks whole.
///
/// # Errors
/// When the file system refuses.
pub fn remove(home: &AegisHome, id: &SessionId, held: Lock) -> Result<(), SessionError> {
    remove_named(home, id, held).map_err(SessionError::io("removing", home.session_path(id)))
}

fn remove_named(home: &AegisHome, id: &SessionId, held: Lock) -> io::Result<()> {
    let doomed = CString::new(format!("{DOOMED}{id}"))?;
    renameat(home.sessions(), id.as_str(), home.sessions(), &doomed)?;
    drop(held);
    remove_tree(home.sessions(), &doomed)
}

/// Removes the folder at `path`, which no one else can write beside.
///
/// # Errors
/// When the file system refuses.
pub fn remove_folder(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::INVAL.into());
    };
    let parent = openat(
        CWD,
        parent,
        OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    remove_tree(parent.as_fd(), &CString::new(name.as_bytes())?)
}

/// Finishes removals that were cut short, and removes what did not become a session. What can not be
/// removed now is left for the next time.
pub(super) fn sweep(home: &AegisHome) {
    let Ok(names) = Dir::read_from(home.sessions()) else {
        return;
    };
    for entry in names.flatten() {
        let name = entry.file_name();
        let is_doomed = name.to_bytes().starts_with(DOOMED.as_bytes());
        if is_doomed || is_abandoned(home, name) {
            let _left_for_next_time = remove_tree(home.sessions(), name);
        }
    }
}

/// Whether `name` is a draft whose maker is gone. A young one may not have its lock yet.
fn is_abandoned(home: &AegisHome, name: &CStr) -> bool {
    if !name.to_bytes().starts_with(DRAFT.as_bytes()) {
        return false;
    }
    let Ok(draft) = open_directory(home.sessions(), name) else {
        return false;
    };
    let age = fstat(&draft).ok().and_then(|status| {
        let made = UNIX_EPOCH + Duration::from_secs(u64::try_from(status.st_mtime).ok()?);
        SystemTime::now().duration_since(made).ok()
    });
    age.is_some_and(|age| age > YOUTH) && !is_held(draft.as_fd())
}

/// Removes `name` in `parent`. Folders are first moved to the top of the tree and emptied there, so
/// that no depth of nesting costs descriptors or stack.
fn remove_tree(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    let mut tree = Tree {
        top: open_directory(parent, name)?,
        moved: 0,
        waiting: VecDeque::new(),
    };
    let top = tree.top.try_clone()?;
    tree.empty(top.as_fd())?;
    while let Some(name) = tree.waiting.pop_front() {
        let folder = open_directory(top.as_fd(), &name)?;
        tree.empty(folder.as_fd())?;
        unlinkat(&top, &name, AtFlags::REMOVEDIR)?;
    }
    Ok(unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}

/// A tree that is being removed.
struct Tree {
    top: OwnedFd,
    /// How many folders were moved to the top.
    moved: u64,
    /// Those that are not empty yet.
    waiting: VecDeque<CString>,
}

impl Tree {
    fn empty(&mut self, folder: BorrowedFd<'_>) -> io::Result<()> {
        // Read whole before anything is moved, which could show a name twice.
        let names: Vec<CString> = Dir::read_from(folder)?
            .map(|entry| entry.map(|entry| entry.file_name().to_owned()))
            .collect::<Result<_, _>>()?;
        for name in names
            .iter()
            .filter(|name| !matches!(name.to_bytes(), b"." | b".."))
        {
            match unlinkat(folder, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR | Errno::PERM) => self.lift(folder, name)?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Moves a folder to the top under a name of our own.
    fn lift(&mut self, folder: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
        // A folder can only be moved to another parent while it is writable itself.
        drop(open_directory(folder, name)?);
        loop {
            let lifted = CString::new(format!(".moved-{:x}", self.moved))?;
            self.moved += 1;
            match renameat_with(folder, name, &self.top, &lifted, RenameFlags::NOREPLACE) {
                Ok(()) => {
                    self.waiting.push_back(lifted);
                    return Ok(());
                }
                // Left by a removal that was cut short.
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Opens a folder, giving its owner every right to it: an agent may have left it unreadable.
fn open_directory(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = openat2(parent, name, flags | OFlags::PATH, Mode::empty(), beneath)?;
    let mode = fstat(&handle)?.st_mode as RawMode;
    if FileType::from_raw_mode(mode) != FileType::Directory {
        return Err(Errno::NOTDIR.into());
    }
    if !Mode::from_raw_mode(mode).contains(Mode::RWXU) {
        // fchmod(2) refuses an O_PATH descriptor; its link in /proc leads to the same inode.
        rustix::fs::chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), Mode::RWXU)?;
    }
    Ok(openat2(
        &handle,
        c".",
        flags | OFlags::RDONLY,
        Mode::empty(),
        beneath,
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn removes_deep_unreadable_and_linked_things_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let kept = place.path().join("kept");
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "kept").unwrap();
        let doomed = place.path().join("doomed");
        let deep = (0..600).fold(doomed.clone(), |path, _| path.join("d"));
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), "gone").unwrap();
        fs::create_dir(doomed.join(".moved-0")).unwrap();
        std::os::unix::fs::symlink(&kept, doomed.join("link")).unwrap();
        let locked = fs::Permissions::from_mode(0o000);
        fs::File::open(doomed.join("d/d"))
            .unwrap()
            .set_permissions(locked)
            .unwrap();
        let parent = OwnedFd::from(fs::File::open(place.path()).unwrap());
        remove_tree(parent.as_fd(), c"doomed").unwrap();
        assert!(!doomed.exists());
        assert_eq!(fs::read_to_string(kept.join("file")).unwrap(), "kept");
    }
}
