//! Serves a [`Guard`] to the kernel. `requests` answers, whatever carries the question; the
//! transports beside it translate the FUSE protocol and hold no decision.

mod cache;
mod convert;
mod fuser;
mod helper;
mod kernel;
mod mounting;
mod options;
mod requests;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use ::fuser::{BackgroundSession, Session, SessionACL};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::guard::Guard;
use cache::FuserCache;
use fuser::Adapter;
use kernel::Service;
use mounting::Mounted;
use requests::Requests;

pub use helper::fusermount;
pub use mounting::{Audience, Terms};
pub use options::{Feature, Features, Options, Transport};

const NAME: &str = "aegisfs";

/// A tree that is being served; it stays so until it is unmounted. A mount that was made here goes
/// with this value.
#[derive(Debug)]
pub struct Served {
    carrier: Carrier,
    features: Features,
    mounted: Option<Arc<Mounted>>,
}

/// Unmounts a tree while somebody waits for its end.
#[derive(Clone, Debug)]
pub struct Unmounter(Arc<Mounted>);

impl Unmounter {
    /// As [`Served::unmount`], without the wait for its threads. Whoever unmounted it before does no
    /// harm.
    ///
    /// # Errors
    /// The error of umount2(2) or of the helper.
    pub fn unmount(&self) -> io::Result<()> {
        self.0.unmount()
    }
}

/// What carries the requests.
#[derive(Debug)]
enum Carrier {
    Own(Service),
    Fuser(BackgroundSession),
}

impl Served {
    /// What is in force.
    #[must_use]
    pub const fn features(&self) -> &Features {
        &self.features
    }

    /// What unmounts it; `None` for a mount that was not made here.
    #[must_use]
    pub fn unmounter(&self) -> Option<Unmounter> {
        self.mounted.clone().map(Unmounter)
    }

    /// Waits until the tree is unmounted by someone else.
    ///
    /// # Errors
    /// The last error of the connection to the kernel.
    pub fn wait(self) -> io::Result<()> {
        match self.carrier {
            Carrier::Own(service) => service.join(),
            Carrier::Fuser(session) => session.join(),
        }
    }

    /// Unmounts the tree and waits for its threads. Who uses the tree has a second to end; then its
    /// requests fail. After [`serve`], the caller unmounts (or ends the mount namespace) and this
    /// only waits.
    ///
    /// # Errors
    /// The error of umount2(2) or of the helper, or the last error of the connection.
    pub fn unmount(self) -> io::Result<()> {
        if let Some(mounted) = &self.mounted {
            mounted.unmount()?;
        }
        self.wait()
    }
}

/// Mounts an empty connection on `mountpoint` with mount(2); needs `CAP_SYS_ADMIN` in the user
/// namespace that owns the calling thread's mount namespace. The descriptor goes to [`serve`].
///
/// # Errors
/// What open(2) of `/dev/fuse` or mount(2) said.
pub fn mount_in_namespace(mountpoint: &Path, options: Options) -> io::Result<OwnedFd> {
    let looks = Terms {
        audience: Audience::Everybody,
        ..Terms::default()
    };
    mounting::in_namespace(mountpoint, options, &looks)
}

/// Serves `guard` on a connection that is already mounted; returns once the kernel has agreed.
///
/// # Errors
/// When the handshake with the kernel fails.
pub fn serve(connection: OwnedFd, guard: Arc<Guard>, options: Options) -> io::Result<Served> {
    start(connection, &guard, options)
}

/// Mounts `guard` on `mountpoint`, through fusermount3 where the caller may not mount itself.
///
/// # Errors
/// As for [`mount_on`].
pub fn mount(mountpoint: &Path, guard: Arc<Guard>, options: Options) -> io::Result<Served> {
    mount_on(mountpoint, &Terms::default(), guard, options)
}

/// As [`mount`], on terms of the caller's own.
///
/// # Errors
/// `InvalidInput` when the mount point lies inside the project, where the tree would hold itself;
/// else when the mount is refused or the handshake fails.
pub fn mount_on(
    mountpoint: &Path,
    looks: &Terms,
    guard: Arc<Guard>,
    options: Options,
) -> io::Result<Served> {
    if guard
        .overlay()
        .holds(mountpoint)
        .map_err(|error| io::Error::from(error.errno()))?
    {
        let reason = "the mount point lies inside the project";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    match mount_with(mountpoint, looks, &guard, options) {
        // A kernel whose handshake we do not take may be good enough for fuser.
        Err(error)
            if error.kind() == io::ErrorKind::Unsupported
                && options.transport == Transport::Auto =>
        {
            let transport = Transport::Fuser;
            let options = Options {
                transport,
                ..options
            };
            mount_with(mountpoint, looks, &guard, options)
        }
        served => served,
    }
}

fn mount_with(
    mountpoint: &Path,
    looks: &Terms,
    guard: &Arc<Guard>,
    options: Options,
) -> io::Result<Served> {
    let connection = mounting::anyhow(mountpoint, options, looks)?;
    let mounted = Mounted::new(mountpoint)?;
    let served = start(connection, guard, options)?;
    Ok(Served {
        mounted: Some(Arc::new(mounted)),
        ..served
    })
}

fn start(connection: OwnedFd, guard: &Arc<Guard>, options: Options) -> io::Result<Served> {
    raise_descriptors();
    if options.transport == Transport::Fuser {
        return start_fuser(connection, guard, options);
    }
    let service = Service::start(connection, guard, options)?;
    Ok(Served {
        features: service.features().clone(),
        carrier: Carrier::Own(service),
        mounted: None,
    })
}

fn start_fuser(connection: OwnedFd, guard: &Arc<Guard>, options: Options) -> io::Result<Served> {
    let adapter = Adapter::new(Requests::new(Arc::clone(guard)));
    let config = fuser::config(options);
    let session = Session::from_fd(adapter, connection, SessionACL::All, config)?;
    let overlay = guard.overlay();
    let connection = session.as_fd().try_clone_to_owned()?;
    let cache = FuserCache::new(session.notifier(), connection, overlay.root());
    overlay.attach_kernel(Arc::new(cache));
    Ok(Served {
        carrier: Carrier::Fuser(session.spawn()?),
        features: fuser::features(options),
        mounted: None,
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
