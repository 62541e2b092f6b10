//! The folder that a view is mounted on.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, StatxFlags, openat, statx};
use rustix::io::Errno;

use crate::error::CommandError;
use crate::session::home::{real_path, shown};
use crate::session::{AegisHome, Project, list_in, mounts};

/// How long a mount may outlive its connection.
const SHORTLY: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(10);

/// Finds the mountpoint to be an empty folder apart from the project and the sessions.
pub(in crate::session) fn check(
    path: &Path,
    home: &AegisHome,
    project: &Project,
) -> Result<PathBuf, CommandError> {
    let refuse = |why: String, next: &str| {
        let what = format!("`{}` can not be mounted on", shown(path));
        CommandError::told(&what, why, next)
    };
    let failed = |errno: Errno| refuse(errno.to_string(), next(errno));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = || openat(CWD, path, flags, Mode::empty());
    let opened = match open() {
        // The server of a view that was there was killed; looking at the sessions takes it away.
        Err(Errno::NOTCONN) => {
            list_in(home)?;
            open()
        }
        opened => opened,
    };
    let opened = opened.map_err(failed)?;
    let real = real_path(opened.as_fd()).map_err(|error| refuse(error.to_string(), APART))?;
    for other in [project.path(), home.path()] {
        let other_shown = shown(other);
        if real.starts_with(other) {
            return Err(refuse(format!("it lies in `{other_shown}`"), APART));
        }
        if other.starts_with(&real) {
            return Err(refuse(format!("it holds `{other_shown}`"), APART));
        }
    }
    if is_empty(&opened).map_err(failed)? {
        Ok(real)
    } else {
        let next = "name an empty folder; what is in this one could not be reached";
        Err(refuse("it is not empty".to_owned(), next))
    }
}

const APART: &str = "make an empty folder apart from the project and the sessions, and name that";

const fn next(errno: Errno) -> &'static str {
    match errno {
        Errno::NOENT => "make the folder first (`mkdir -p`)",
        Errno::NOTDIR => "name an empty folder",
        Errno::ACCESS | Errno::PERM => "name an empty folder of your own",
        Errno::NOTCONN => "unmount what a killed server left there (`aegis-os unmount MOUNTPOINT`)",
        _ => APART,
    }
}

/// Whether nothing is in a folder.
pub(in crate::session) fn is_empty(folder: &OwnedFd) -> Result<bool, Errno> {
    for entry in Dir::read_from(folder)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The id of our mount at `place`, found without asking who serves it; `None` when it is gone already.
pub(super) fn mount_id(place: &Path) -> Option<u64> {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    let found = statx(CWD, place, flags, StatxFlags::MNT_ID).ok()?;
    let mounts = mounts::all().ok()?;
    let is_it = |mount: &mounts::Mount| mount.id == found.stx_mnt_id && mount.at == place;
    mounts.iter().any(is_it).then_some(found.stx_mnt_id)
}

/// Whether there is a mount of this id; where that can not be found out it counts as there.
pub(super) fn is_mounted(id: u64) -> bool {
    mounts::all().map_or(true, |mounts| mounts.iter().any(|mount| mount.id == id))
}

/// Whether the mount of this id stays, although nobody answers for it any more: `umount -f` cuts the
/// connection first and unmounts then.
pub(super) fn stays(id: u64) -> bool {
    let started = Instant::now();
    while is_mounted(id) {
        if started.elapsed() > SHORTLY {
            return true;
        }
        sleep(PAUSE);
    }
    false
}
