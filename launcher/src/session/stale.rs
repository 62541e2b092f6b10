//! Mounts that a killed server left behind: found, and taken away.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::mount::{MntFlags, umount2};
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::find::Listing;
use super::mounts::{self, Mount};

/// Where the set-uid helper of FUSE is installed; `PATH` could name anybody's program.
const HELPERS: &[&str] = &[
    "/usr/bin/fusermount3",
    "/bin/fusermount3",
    "/usr/local/bin/fusermount3",
    "/run/wrappers/bin/fusermount3",
];

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

/// The set-uid helper of FUSE, when it is installed.
#[must_use]
pub fn fusermount() -> Option<&'static Path> {
    HELPERS.iter().map(Path::new).find(|helper| {
        helper
            .metadata()
            .is_ok_and(|status| status.permissions().mode() & 0o111 != 0)
    })
}

/// Takes away what is mounted at `at` when it is a tree of ours.
pub(crate) fn detach_ours(at: &Path) {
    let Ok(mounts) = mounts::all() else { return };
    if mounts.iter().any(|mount| mount.at == at && is_ours(mount)) {
        detach(at);
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
    let Some(helper) = fusermount() else { return };
    #[expect(
        clippy::disallowed_methods,
        reason = "the set-uid helper is how a user unmounts"
    )]
    let mut command = Command::new(helper);
    command.arg("-uz").arg("--").arg(at);
    let _tried_again_later = command
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}
