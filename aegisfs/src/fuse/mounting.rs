//! How a connection gets its place in the tree, and how it leaves it.

use std::ffi::{CString, OsString};
use std::fmt::Write;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, open, readlinkat, statx};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::{getegid, geteuid};

use super::{NAME, Options, helper};

/// How long those who use a mount are waited for before their requests are ended.
const PATIENCE: Duration = Duration::from_secs(1);
/// `STATX_MNT_ID_UNIQUE`: the number of a mount that no later one gets (Linux 6.8).
const MOUNT_ID_UNIQUE: u32 = 0x4000;
/// Between two looks at whether they are done.
const PAUSE: Duration = Duration::from_millis(10);

/// How a mount looks to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What the table of mounts names as its source.
    pub source: OsString,
    /// Who may use it.
    pub audience: Audience,
    /// Whether nothing on it may be executed.
    pub no_exec: bool,
}

/// Who may use a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Everybody whom the permissions let.
    Everybody,
    /// The user who mounted it, and root in no other user's place (`allow_other` of fuse(8)).
    Owner,
}

impl Default for Terms {
    /// What the caller may have: an ordinary user may not open a mount to others, unless
    /// `user_allow_other` of fuse.conf(5) says so.
    fn default() -> Self {
        let audience = if geteuid().is_root() {
            Audience::Everybody
        } else {
            Audience::Owner
        };
        Self {
            source: NAME.into(),
            audience,
            no_exec: false,
        }
    }
}

/// A place where a connection is mounted. It is taken away with this value.
#[derive(Debug)]
pub(super) struct Mounted {
    place: PathBuf,
    identity: Identity,
}

/// What tells one mount from another: its number, and the device that it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    mount: u64,
    device: (u32, u32),
}

/// Mounts an empty connection with mount(2).
///
/// # Errors
/// What open(2) of `/dev/fuse` or mount(2) said.
pub(super) fn in_namespace(place: &Path, options: Options, looks: &Terms) -> io::Result<OwnedFd> {
    let connection = open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    // The kernel checks permissions: only it can refuse a walk through cached names, and only it
    // knows all groups of a caller.
    let mut terms = String::from("rootmode=40000,default_permissions");
    if looks.audience == Audience::Everybody {
        terms.push_str(",allow_other");
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let descriptor = connection.as_raw_fd();
    write!(terms, ",fd={descriptor},user_id={user},group_id={group}").map_err(io::Error::other)?;
    let terms = CString::new(terms)?;
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    flags.set(MountFlags::RDONLY, options.read_only);
    flags.set(MountFlags::NOEXEC, looks.no_exec);
    rustix::mount::mount(
        &looks.source,
        place,
        c"fuse.aegisfs",
        flags,
        Some(terms.as_c_str()),
    )?;
    Ok(connection)
}

/// Mounts an empty connection in whatever way the caller may.
///
/// # Errors
/// What mount(2) said, or the helper.
pub(super) fn anyhow(place: &Path, options: Options, looks: &Terms) -> io::Result<OwnedFd> {
    match in_namespace(place, options, looks) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            helper::mount(place, options, looks)
        }
        mounted => mounted,
    }
}

impl Mounted {
    /// Takes charge of the mount that was just made at `place`.
    ///
    /// # Errors
    /// When the place can not be looked at.
    pub(super) fn new(place: &Path) -> io::Result<Self> {
        // By its own name, whatever links led to it.
        let there = open(place, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let link = format!("/proc/self/fd/{}", there.as_raw_fd());
        let place = readlinkat(CWD, link, Vec::new())?.into_bytes();
        let place = PathBuf::from(OsString::from_vec(place));
        let identity = Identity::at(&place)?;
        Ok(Self { place, identity })
    }

    /// Unmounts. Those who use the mount have a second to end; then their requests fail, and the
    /// mount goes all the same.
    ///
    /// # Errors
    /// What umount2(2) said, or the helper.
    pub(super) fn unmount(&self) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        while self.is_there() {
            match self.leave(UnmountFlags::NOFOLLOW) {
                Err(error) if is_busy(&error) && Instant::now() < until => {
                    std::thread::sleep(PAUSE);
                }
                Err(error) if is_busy(&error) => return self.tear_down(),
                ended => return ended,
            }
        }
        Ok(())
    }

    /// Ends every request, and takes the mount out of the tree.
    fn tear_down(&self) -> io::Result<()> {
        // Either is enough; which of them is allowed depends on who asks.
        let forced =
            rustix::mount::unmount(&*self.place, UnmountFlags::FORCE | UnmountFlags::NOFOLLOW);
        let aborted = self.abort();
        if forced == Ok(()) {
            return Ok(());
        }
        let left = self.leave(UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        match aborted {
            // Its threads end once nobody uses it any more.
            Err(_) if self.is_there() => left.and(Err(Errno::BUSY.into())),
            _ => left,
        }
    }

    /// Unmounts as root, or through the helper that mounted.
    fn leave(&self, flags: UnmountFlags) -> io::Result<()> {
        match rustix::mount::unmount(&*self.place, flags) {
            Err(Errno::PERM) => helper::unmount(&self.place, flags.contains(UnmountFlags::DETACH)),
            // Somebody else was faster.
            Err(Errno::INVAL | Errno::NOENT) if !self.is_there() => Ok(()),
            left => Ok(left?),
        }
    }

    /// Ends the connection through fusectl (Documentation/filesystems/fuse/fuse.rst), which belongs
    /// to who mounted.
    fn abort(&self) -> io::Result<()> {
        let (_, connection) = self.identity.device;
        let switch = format!("/sys/fs/fuse/connections/{connection}/abort");
        let switch = open(switch, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::io::write(switch, b"1")?;
        Ok(())
    }

    /// Whether it is this mount that is there, also when its connection has ended: another that was
    /// made in its place is not ours to take away.
    fn is_there(&self) -> bool {
        Identity::at(&self.place).is_ok_and(|identity| identity == self.identity)
    }
}

impl Identity {
    fn at(place: &Path) -> io::Result<Self> {
        // What the kernel remembers is enough: the answer must not depend on the server.
        let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT | AtFlags::SYMLINK_NOFOLLOW;
        let asked = StatxFlags::MNT_ID | StatxFlags::from_bits_retain(MOUNT_ID_UNIQUE);
        let seen = statx(CWD, place, flags, asked)?;
        Ok(Self {
            mount: seen.stx_mnt_id,
            device: (seen.stx_dev_major, seen.stx_dev_minor),
        })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.is_there() {
            // What is left of it ends with those who use it.
            let _ = self.leave(UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        }
    }
}

fn is_busy(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ResourceBusy
}
