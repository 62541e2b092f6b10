//! Serves a [`Guard`] to the kernel. `requests` answers, whatever carries the question; the
//! transports beside it translate the FUSE protocol and hold no decision.

mod cache;
mod fuser;
mod options;
mod requests;

use std::ffi::CString;
use std::fmt::Write;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use ::fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::fs::{Mode, OFlags, open};
use rustix::mount::MountFlags;
use rustix::process::{Resource, Rlimit, getegid, geteuid, getrlimit, setrlimit};

use crate::guard::Guard;
use cache::FuserCache;
use fuser::Adapter;
use requests::Requests;

pub use options::{Feature, Features, Options, Transport};

const NAME: &str = "aegisfs";

/// A tree that is being served; it stays so until it is unmounted.
#[derive(Debug)]
pub struct Served {
    session: BackgroundSession,
    features: Features,
}

impl Served {
    /// What is in force.
    #[must_use]
    pub const fn features(&self) -> &Features {
        &self.features
    }

    /// Waits until the tree is unmounted by someone else.
    ///
    /// # Errors
    /// The last error of the connection to the kernel.
    pub fn wait(self) -> io::Result<()> {
        self.session.join()
    }

    /// Unmounts the tree and waits for its threads. After [`serve`], the caller unmounts (or ends
    /// the mount namespace) and this only waits.
    ///
    /// # Errors
    /// The error of umount2(2), or the last error of the connection.
    pub fn unmount(self) -> io::Result<()> {
        self.session.umount_and_join()
    }
}

/// Mounts an empty connection on `mountpoint` with mount(2); needs `CAP_SYS_ADMIN` in the user
/// namespace that owns the calling thread's mount namespace. The descriptor goes to [`serve`].
///
/// # Errors
/// What open(2) of `/dev/fuse` or mount(2) said.
pub fn mount_in_namespace(mountpoint: &Path, options: Options) -> io::Result<OwnedFd> {
    let connection = open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let mut terms = String::from("rootmode=40000,default_permissions,allow_other");
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    write!(
        terms,
        ",fd={},user_id={user},group_id={group}",
        connection.as_raw_fd()
    )
    .map_err(io::Error::other)?;
    let terms = CString::new(terms)?;
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    flags.set(MountFlags::RDONLY, options.read_only);
    rustix::mount::mount(
        NAME,
        mountpoint,
        c"fuse.aegisfs",
        flags,
        Some(terms.as_c_str()),
    )?;
    Ok(connection)
}

/// Serves `guard` on a connection that is already mounted; returns once the kernel has agreed.
///
/// # Errors
/// When the handshake with the kernel fails.
pub fn serve(connection: OwnedFd, guard: Arc<Guard>, options: Options) -> io::Result<Served> {
    raise_descriptors();
    let config = config(options, SessionACL::All);
    let adapter = Adapter::new(Requests::new(Arc::clone(&guard)), options);
    let session = Session::from_fd(adapter, connection, SessionACL::All, config)?;
    spawn(session, &guard, options)
}

/// Mounts `guard` on `mountpoint`, through fusermount3 where the caller may not mount itself.
///
/// # Errors
/// `InvalidInput` when the mount point lies inside the project, where the tree would hold itself;
/// else when the mount is refused or the handshake fails.
pub fn mount(mountpoint: &Path, guard: Arc<Guard>, options: Options) -> io::Result<Served> {
    if guard
        .overlay()
        .holds(mountpoint)
        .map_err(|error| io::Error::from(error.errno()))?
    {
        let reason = "the mount point lies inside the project";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    // An ordinary user may not open a mount to others (user_allow_other in fuse.conf(5)).
    let audience = if geteuid().is_root() {
        SessionACL::All
    } else {
        SessionACL::Owner
    };
    raise_descriptors();
    let config = config(options, audience);
    let adapter = Adapter::new(Requests::new(Arc::clone(&guard)), options);
    let session = Session::new(adapter, mountpoint, &config)?;
    spawn(session, &guard, options)
}

/// Starts to answer, with a way back to the kernel's memory.
fn spawn(session: Session<Adapter>, guard: &Guard, options: Options) -> io::Result<Served> {
    let overlay = guard.overlay();
    let connection = session.as_fd().try_clone_to_owned()?;
    let cache = FuserCache::new(session.notifier(), connection, overlay.root());
    overlay.attach_kernel(Arc::new(cache));
    Ok(Served {
        session: session.spawn()?,
        features: fuser::features(options),
    })
}

/// Every file that the agent has open takes a descriptor here; the usual soft limit of 1024 is soon
/// reached by a build.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // What can not be raised ends in EMFILE for the one who opens too many.
    let _ = setrlimit(Resource::Nofile, raised);
}

/// The kernel checks permissions (`default_permissions`): only it can refuse a walk through cached
/// names, and only it knows all groups of a caller.
fn config(options: Options, audience: SessionACL) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(NAME.to_owned()),
        MountOption::Subtype(NAME.to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoSuid,
        MountOption::NoDev,
    ];
    if options.read_only {
        config.mount_options.push(MountOption::RO);
    }
    config.acl = audience;
    config.n_threads = Some(options.threads.max(1));
    config
}
