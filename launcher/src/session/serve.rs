//! A session while it lives: its journal, its gate and its tree, served to the kernel.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use aegis_policies::Gate;
use aegis_policies::gate::GateError;
use aegis_policies::journal::{Event, JournalError, Position, SnapshotCause, VerdictId};
use aegisfs::commit::{self, CommitError};
use aegisfs::fuse::{self, Feature, Features, Served, Unmounter};
use aegisfs::guard::Guard;
use aegisfs::overlay::checkpoint::{self, Dismissed};
use aegisfs::overlay::{Overlay, OverlayError};
use nix::mount::{MntFlags, umount2};
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::Session;
use super::control::Control;
use super::gate;
use super::home::shown;
use super::project::Project;
use super::real_tree::RealTree;
use super::record::MountMode;
use super::repository::Whereabouts;
use crate::cli::talk;

/// How long the last requests of an unmounted tree may take. Nothing can reach it any more, so
/// what is not answered by then is answered to nobody.
const LAST_REQUESTS: Duration = Duration::from_secs(5);

/// Why the tree of a session can not be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The journal can not be made or continued.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The policy can not be used.
    #[error("the policy can not be used: {0}")]
    Gate(#[from] GateError),
    /// It can not be told which names the project's repository has.
    #[error("the repository of the project can not be found by its `.git`: {0}")]
    Repository(io::Error),
    /// The tree can not be opened.
    #[error("the project's view can not be opened: {0}")]
    Overlay(#[from] OverlayError),
    /// What landings of the session have moved can not be read.
    #[error("the landings of the session can not be read: {0}")]
    Landings(#[from] CommitError),
    /// The device of FUSE can not be opened.
    #[error("`/dev/fuse` can not be opened: {0}")]
    Device(io::Error),
    /// The tree can not be mounted.
    #[error(
        "the project's view can not be mounted on `{}`: {source}",
        shown(mountpoint)
    )]
    Mount {
        /// Where.
        mountpoint: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What serving a session depends on.
#[derive(Debug)]
pub struct Setting<'a> {
    /// The session.
    pub session: &'a Session,
    /// Its project.
    pub project: &'a Project,
    /// Where its repository is.
    pub repository: &'a Whereabouts,
    /// The user's own policies.
    pub policy: Option<&'a str>,
    /// Where the tree is mounted.
    pub mountpoint: &'a Path,
    /// How it is mounted.
    pub mode: MountMode,
    /// How it is served.
    pub options: fuse::Options,
    /// How the mount looks to others, unless only the session's own namespace sees it.
    pub looks: fuse::Terms,
}

/// A session whose tree is mounted and answered for.
#[derive(Debug)]
pub struct Serving {
    /// Where the journal ended before this run.
    began: Position,
    control: Option<Control>,
    guard: Arc<Guard>,
    gate: Arc<Gate>,
    served: Served,
    real: Option<RealTree>,
    mountpoint: PathBuf,
    mode: MountMode,
}

/// Tells how a tree is served.
#[derive(Debug)]
pub struct Gauge {
    features: Features,
    guard: Arc<Guard>,
}

impl Gauge {
    /// How it is served by now.
    #[must_use]
    pub fn read(&self) -> Features {
        let mut features = self.features.clone();
        let watched = self.guard.overlay().watched();
        features.features.push(match watched.most {
            0 => Feature::off("watches", "the host's changes show within a second"),
            most => {
                let folders = watched.folders;
                let note = format!("{folders} of the host's directories, at most {most}");
                Feature::on("watches", note)
            }
        });
        features
    }
}

impl Serving {
    /// Opens the journal and the tree, mounts it and starts to answer.
    ///
    /// # Errors
    /// [`ServeError`]; nothing is mounted then.
    pub fn start(setting: &Setting<'_>) -> Result<Self, ServeError> {
        check_device()?;
        let journal = Arc::new(checkpoint::resume_journal(setting.session.dir())?);
        let began = journal.position();
        let gate = gate::open(setting.policy, setting.repository, journal)?;
        let failed = |source| ServeError::Mount {
            mountpoint: setting.mountpoint.into(),
            source,
        };
        let project = setting.project.directory();
        let project = project.try_clone_to_owned().map_err(failed)?;
        let dir = setting.session.dir();
        let relocations = commit::relocations(dir)?;
        let overlay = Overlay::open(project, dir, relocations, Arc::clone(&gate))?;
        tell_dismissed(&overlay);
        // What can not be removed now is removed by the next landing.
        let _left = commit::clear_stage(dir);
        let agent = setting.session.record().agent.as_str().into();
        let guard = Guard::new(overlay, Arc::clone(&gate), agent);
        let guard = Arc::new(if setting.options.read_only {
            guard.read_only()
        } else {
            guard
        });
        put_aside(&guard, SnapshotCause::Started);
        let served = mount(setting, Arc::clone(&guard)).map_err(failed)?;
        Ok(Self {
            began,
            control: listen(setting.session, &guard),
            guard,
            gate,
            served,
            real: None,
            mountpoint: setting.mountpoint.into(),
            mode: setting.mode,
        })
    }

    /// Where the journal ended before this run: what follows happened in it.
    #[must_use]
    pub const fn began(&self) -> &Position {
        &self.began
    }

    /// The gate of the session.
    #[must_use]
    pub const fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// How the tree is served by now.
    #[must_use]
    pub fn features(&self) -> Features {
        self.gauge().read()
    }

    /// What tells how the tree is served while somebody waits for its end.
    #[must_use]
    pub fn gauge(&self) -> Gauge {
        Gauge {
            features: self.served.features().clone(),
            guard: Arc::clone(&self.guard),
        }
    }

    /// What unmounts the tree while somebody waits for its end; `None` in a namespace of the session's
    /// own.
    #[must_use]
    pub fn unmounter(&self) -> Option<Unmounter> {
        self.served.unmounter()
    }

    /// The root of the tree, as a handle.
    ///
    /// # Errors
    /// When the tree is not mounted any more.
    pub fn view(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(CWD, &self.mountpoint, flags, Mode::empty())?)
    }

    /// Serves the real tree of `project` beside the view, and gives its root as a handle.
    ///
    /// # Errors
    /// [`ServeError`], also when its root can not be opened.
    pub fn show_real_tree(
        &mut self,
        session: &Session,
        project: &Project,
    ) -> Result<OwnedFd, ServeError> {
        let real = self
            .real
            .insert(RealTree::start(session, project, self.mode, &self.gate)?);
        real.root()
    }

    /// Writes an event of the launcher's own to the journal.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn note(&self, event: Event) -> Result<(), JournalError> {
        self.gate
            .journal()
            .append(0, VerdictId::default(), event)
            .map(drop)
    }

    /// Unmounts the tree, and forces the journal to the disk.
    ///
    /// # Errors
    /// When the tree can not be unmounted, or the journal not be synced.
    pub fn stop(self) -> Result<(), ServeError> {
        let Self {
            began: _,
            control,
            guard,
            gate,
            served,
            real,
            mountpoint,
            mode,
        } = self;
        drop(control);
        let real = real.map_or(Ok(()), RealTree::stop);
        if mode == MountMode::Namespace {
            let detached = umount2(
                &mountpoint,
                MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW,
            );
            detached.map_err(|errno| ServeError::Mount {
                mountpoint: mountpoint.clone(),
                source: errno.into(),
            })?;
        }
        let (done, waiting) = mpsc::channel();
        thread::spawn(move || done.send(served.unmount()));
        match waiting.recv_timeout(LAST_REQUESTS) {
            Ok(Err(source)) => return Err(ServeError::Mount { mountpoint, source }),
            Ok(Ok(())) => put_aside(&guard, SnapshotCause::Ended),
            // A request that is not answered may hold the tree.
            Err(_) => {}
        }
        gate.journal().sync()?;
        real
    }

    /// Waits until something else unmounts the tree, then forces the journal to the disk; `unreachable`
    /// is called in between, when nobody waits for answers any more.
    ///
    /// # Errors
    /// When the connection to the kernel broke, or the journal can not be synced.
    pub fn wait(self, unreachable: impl FnOnce()) -> Result<(), ServeError> {
        let Self {
            control,
            guard,
            gate,
            served,
            mountpoint,
            ..
        } = self;
        let ended = served.wait();
        unreachable();
        ended.map_err(|source| ServeError::Mount { mountpoint, source })?;
        drop(control);
        put_aside(&guard, SnapshotCause::Ended);
        Ok(gate.journal().sync()?)
    }
}

/// Takes a snapshot if there is anything new. A session goes on without one, as on a full disk, where
/// something has to be removed first.
fn put_aside(guard: &Guard, cause: SnapshotCause) {
    if let Err(error) = guard.overlay().snapshot_changes(cause) {
        talk::say(&format!("aegis-os: no snapshot was taken: {error}"));
    }
}

/// Answers commands about the session. It runs as well where that can not be.
fn listen(session: &Session, guard: &Arc<Guard>) -> Option<Control> {
    let started = Control::start(
        session.directory(),
        session.dir().clone(),
        Arc::clone(guard),
    );
    match started {
        Ok(control) => Some(control),
        Err(error) => {
            talk::say(&format!(
                "aegis-os: snapshots can not be asked for, nor be taken by themselves, while this \
                 session runs: {error}"
            ));
            None
        }
    }
}

fn check_device() -> Result<(), ServeError> {
    let opened = openat(
        CWD,
        "/dev/fuse",
        OFlags::RDWR | OFlags::CLOEXEC,
        Mode::empty(),
    );
    opened
        .map(drop)
        .map_err(|errno| ServeError::Device(errno.into()))
}

/// Says which checkpoints can not be used; the journal has it all, so nothing is lost by that.
fn tell_dismissed(overlay: &Overlay) {
    for Dismissed { file, reason } in overlay.dismissed_checkpoints() {
        talk::say(&format!(
            "aegis-os: the checkpoint `{}` is not used: {reason}; the whole journal was replayed",
            shown(file)
        ));
    }
}

fn mount(setting: &Setting<'_>, guard: Arc<Guard>) -> io::Result<Served> {
    let (place, options) = (setting.mountpoint, setting.options);
    if setting.mode == MountMode::Namespace {
        return fuse::serve(fuse::mount_in_namespace(place, options)?, guard, options);
    }
    fuse::mount_on(place, &setting.looks, guard, options)
}
