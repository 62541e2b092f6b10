//! Mounts that a killed server left behind: found, and taken away.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use aegisfs::fuse::fusermount;
use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::find::Listing;
use super::mounts::{self, Mount};

/// Unmounts what sessions without a server have left mounted. What can not be unmounted now is tried
/// again by the next command.
pub(super) fn unmount_leftovers(listing: &Listing) {
    let Ok(mounts) = mounts::all() else { return };
    for mount in mounts.iter().filter(|mount| is_ours(mount)) {
        let mut claims = listing.sessions.iter().filter(|one| {
            one.record().mountpoint() == mount.at || mount.at.starts_with(one.dir().root())
        });
        let left = claims.clone().next().is_some() && !claims.any(super::Session::is_live);
        if left {
            detach(&mount.at);
        }
    }
}

/// Takes away what is mounted at `at` when it is a tree of ours.
pub(crate) fn detach_ours(at: &Path) {
    let Ok(mounts) = mounts::all() else { return };
    if mounts.iter().any(|mount| mount.at == at && is_ours(mount)) {
        detach(at);
    }
}

/// What was found when a tree was to be unmounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// A tree, which is gone.
    Tree,
    /// No tree of ours.
    Nothing,
}

/// Unmounts the tree of ours at `at`; `lazily` also while it is in use.
///
/// # Errors
/// `ResourceBusy` when it is in use, or what the system or the helper said.
pub fn leave(at: &Path, lazily: bool) -> io::Result<Left> {
    let is_there = |mount: &Mount| mount.at == at && is_ours(mount);
    if !mounts::all()?.iter().any(is_there) {
        return Ok(Left::Nothing);
    }
    let flags = if lazily {
        MntFlags::MNT_DETACH
    } else {
        MntFlags::empty()
    };
    let error = match umount2(at, flags | MntFlags::UMOUNT_NOFOLLOW) {
        Ok(()) => return Ok(Left::Tree),
        Err(Errno::EPERM) => help(at, lazily),
        Err(errno) => Err(errno.into()),
    };
    match error {
        // Somebody else was faster.
        Err(_) if !mounts::all()?.iter().any(is_there) => Ok(Left::Nothing),
        left => left.map(|()| Left::Tree),
    }
}

/// Has the set-uid helper unmount, whose words are looked at.
fn help(at: &Path, lazily: bool) -> io::Result<()> {
    let output = helper(at, lazily)
        .ok_or(io::ErrorKind::PermissionDenied)?
        .stderr(Stdio::piped())
        .output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false if words.contains("busy") => Err(io::ErrorKind::ResourceBusy.into()),
        false => Err(io::Error::other(words.trim().to_owned())),
    }
}

/// Cuts the connection of the tree whose device has this minor number, so that every request that
/// waits for an answer fails; needs the control file system of FUSE to be mounted.
pub(crate) fn abort(device: u32) {
    let path = format!("/sys/fs/fuse/connections/{device}/abort");
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    if let Ok(file) = openat(CWD, path, flags, Mode::empty()) {
        // The caller has a second way.
        let _refused = rustix::io::write(file, b"1");
    }
}

fn is_ours(mount: &Mount) -> bool {
    mount.kind == "fuse.aegisfs" || (mount.kind == "fuse" && mount.source == "aegisfs")
}

pub(super) fn detach(at: &Path) {
    if umount2(at, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW).is_ok() {
        return;
    }
    // What does not work is tried again by the next command.
    let _later = helper(at, true).map(|mut helper| helper.status());
}

/// The set-uid helper, told to unmount; `None` where it is not installed.
fn helper(at: &Path, lazily: bool) -> Option<Command> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the set-uid helper is how a user unmounts"
    )]
    let mut command = Command::new(fusermount()?);
    command
        .arg(if lazily { "-uz" } else { "-u" })
        .arg("--")
        .arg(at);
    command
        .env_clear()
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Some(command)
}
