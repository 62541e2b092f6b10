//! The folder that a view is mounted on.

use std::os::fd::AsFd;
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
    let refuse = |why: String| {
        let what = format!("`{}` can not be mounted on", shown(path));
        CommandError::told(
            &what,
            why,
            "make an empty folder outside the project and name that",
        )
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = || openat(CWD, path, flags, Mode::empty());
    let opened = match open() {
        // The server of a view that was there was killed; looking at the sessions takes it away.
        Err(Errno::NOTCONN) => list_in(home).map_err(CommandError::from).and_then(|_| {
            let opened = open();
            opened.map_err(|errno| refuse(errno.to_string()))
        })?,
        opened => opened.map_err(|errno| refuse(errno.to_string()))?,
    };
    let real = real_path(opened.as_fd()).map_err(|error| refuse(error.to_string()))?;
    for other in [project.path(), home.path()] {
        let other_shown = shown(other);
        if real.starts_with(other) {
            return Err(refuse(format!("it lies in `{other_shown}`")));
        }
        if other.starts_with(&real) {
            return Err(refuse(format!("it holds `{other_shown}`")));
        }
    }
    let names = Dir::read_from(&opened).map_err(|errno| refuse(errno.to_string()))?;
    let is_empty = names
        .flatten()
        .all(|entry| matches!(entry.file_name().to_bytes(), b"." | b".."));
    if is_empty {
        Ok(real)
    } else {
        Err(refuse("it is not empty".to_owned()))
    }
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
