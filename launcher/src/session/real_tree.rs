//! The real project as the sandbox sees it beside its own view: the host's files as they are now,
//! under the same rules about reading. A plain bind mount would show what the view refuses, such as
//! the project's `.env`.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aegis_policies::Gate;
use aegis_policies::journal::Journal;
use aegisfs::fuse::{self, Options, Served};
use aegisfs::guard::Guard;
use aegisfs::layout::SessionDir;
use aegisfs::overlay::{Overlay, Relocations};
use nix::mount::{MntFlags, umount2};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;

use super::Session;
use super::project::Project;
use super::record::MountMode;
use super::serve::ServeError;

/// The folder of the session that this view keeps its things in.
const FOLDER: &str = "real";

/// A served view that never has changes of its own: the sandbox binds it read-only.
#[derive(Debug)]
pub(super) struct RealTree {
    served: Served,
    mountpoint: PathBuf,
    mode: MountMode,
}

impl RealTree {
    /// Mounts the view and starts to answer; what is refused is in the journal of `gate`.
    pub(super) fn start(
        session: &Session,
        project: &Project,
        mode: MountMode,
        gate: &Arc<Gate>,
    ) -> Result<Self, ServeError> {
        let dir = SessionDir::new(session.dir().root().join(FOLDER));
        let mountpoint = dir.mountpoint();
        let failed = |source| ServeError::Mount {
            mountpoint: mountpoint.clone(),
            source,
        };
        furnish(session, &dir)?;
        let project = project.directory().try_clone_to_owned().map_err(failed)?;
        let overlay = Overlay::open(project, &dir, Relocations::default(), Arc::clone(gate))?;
        let agent = session.record().agent.as_str().into();
        let guard = Arc::new(Guard::new(overlay, Arc::clone(gate), agent));
        let served = serve(&mountpoint, guard, mode).map_err(failed)?;
        Ok(Self {
            served,
            mountpoint,
            mode,
        })
    }

    /// The root of the view, as a handle.
    pub(super) fn root(&self) -> Result<OwnedFd, ServeError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(CWD, &self.mountpoint, flags, Mode::empty()).map_err(|errno| ServeError::Mount {
            mountpoint: self.mountpoint.clone(),
            source: errno.into(),
        })
    }

    /// Unmounts the view. Its requests are nobody's any more, so they are not waited for.
    pub(super) fn stop(self) -> Result<(), ServeError> {
        let Self {
            served,
            mountpoint,
            mode,
        } = self;
        let stopped = if mode == MountMode::Namespace {
            let flags = MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW;
            umount2(&mountpoint, flags).map_err(io::Error::from)
        } else {
            served.unmount()
        };
        stopped.map_err(|source| ServeError::Mount { mountpoint, source })
    }
}

fn serve(mountpoint: &Path, guard: Arc<Guard>, mode: MountMode) -> io::Result<Served> {
    let options = Options {
        threads: 1,
        ..Options::default()
    };
    if mode == MountMode::Namespace {
        return fuse::serve(
            fuse::mount_in_namespace(mountpoint, options)?,
            guard,
            options,
        );
    }
    fuse::mount(mountpoint, guard, options)
}

/// Makes the folders, and the journal, which stays empty, unless an earlier run made them.
fn furnish(session: &Session, dir: &SessionDir) -> Result<(), ServeError> {
    let make = |name: &str| match mkdirat(session.directory(), name, Mode::RWXU) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(errno) => Err(ServeError::Mount {
            mountpoint: session.dir().root().join(name),
            source: errno.into(),
        }),
    };
    make(FOLDER)?;
    make("real/mnt")?;
    if make("real/journal")? {
        Journal::create(&dir.journal())?;
    }
    Ok(())
}
