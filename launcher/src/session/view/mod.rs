//! The view of a project for the user's own programs, without a sandbox.

mod attend;
mod place;
mod wanted;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aegis_policies::Gate;
use aegis_policies::journal::{Event, Position};
use aegisfs::fuse::Features;
use nix::sys::signal::{SigSet, Signal};
use rustix::process::geteuid;

use super::config::Config;
use super::create::{Purpose, abandon, create};
use super::home::{AegisHome, shown};
use super::lock::Lock;
use super::project::Project;
pub use super::record::Access;
use super::record::{Bytes, MountMode, Record, State};
use super::repository::Whereabouts;
use super::serve::{ServeError, Serving, Setting};
use super::{Activity, Session, find_id, list_in, stale};
use crate::cli::audit::copy::{AuditFile, Copying};
use crate::error::CommandError;
use crate::keeper::{At, Lifeline, Vigil};
use crate::sys;
use attend::Attendance;
pub use attend::End;
pub(super) use place::{check as check_place, is_empty};
pub use wanted::{Continue, Wanted};

/// A view that is mounted, and its session.
#[derive(Debug)]
pub struct View {
    session: Session,
    lock: Lock,
    serving: Serving,
    vigil: Vigil,
    mountpoint: PathBuf,
    mount: u64,
    start: Position,
}

/// A session that is this process's, and what becomes of it when it can not be mounted.
struct Taken {
    session: Session,
    lock: Lock,
    /// What its record said; `None` for a new one.
    before: Option<Record>,
}

impl View {
    /// Mounts a view of `project` on `mountpoint`.
    ///
    /// # Errors
    /// When the folder can not be mounted on; no new session is then left behind.
    pub fn open(
        home: AegisHome,
        project: Project,
        mountpoint: &Path,
        wanted: Wanted,
        config: &Config,
        lifeline: &Lifeline,
    ) -> Result<Self, CommandError> {
        let mountpoint = place::check(mountpoint, &home, &project)?;
        let repository = Whereabouts::of(&project).map_err(ServeError::Repository)?;
        let policy = wanted::policies(config, wanted.policy.as_deref(), project.path())?;
        sys::files::raise();
        // Blocked before there are threads, so that only `attend` sees them.
        let blocked = ending().thread_block();
        blocked.map_err(|errno| CommandError::io("holding signals back", errno.into()))?;
        let held = lifeline.hold();
        held.map_err(|source| CommandError::io("staying with the process that watches", source))?;
        let mut options = wanted.options;
        options.read_only = wanted.access == Access::ReadOnly;
        let mut taken = Taken::of(&home, &project, &wanted.session)?;
        let served = taken.begin(&mountpoint, wanted.access).and_then(|()| {
            lifeline.session(&taken.session);
            let setting = Setting {
                session: &taken.session,
                project: &project,
                repository: &repository,
                policy: policy.as_deref(),
                mountpoint: &mountpoint,
                mode: mode(),
                options,
                looks: wanted.looks,
            };
            serve(&setting, config, lifeline)
        });
        let served = served.and_then(|begun| {
            let features = begun.0.features();
            let update = taken
                .session
                .update(&taken.lock, |record| record.features = Some(features));
            update.map(|()| begun).map_err(CommandError::from)
        });
        match served {
            Ok((serving, start, vigil, mount)) => Ok(Self {
                session: taken.session,
                lock: taken.lock,
                serving,
                vigil,
                mountpoint,
                mount,
                start,
            }),
            Err(error) => {
                taken.give_back(&home);
                Err(error)
            }
        }
    }

    /// The session.
    #[must_use]
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// Where the view is, free of links.
    #[must_use]
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// Whether it can be changed.
    #[must_use]
    pub const fn access(&self) -> Access {
        self.session.record().access
    }

    /// Copies everything that goes on record in this run to `file`.
    ///
    /// # Errors
    /// When the journal can not be watched.
    pub fn copy_audit(&self, file: AuditFile) -> Result<Copying, CommandError> {
        file.follow(&self.session.dir().journal(), self.start.clone())
    }

    /// Serves the view until it is unmounted, by a signal to this process or by anything else.
    ///
    /// # Errors
    /// When the connection to the kernel broke.
    pub fn attend(self) -> Result<(Session, End), CommandError> {
        let Self {
            mut session,
            lock,
            serving,
            vigil,
            mountpoint,
            mount,
            start: _,
        } = self;
        let gauge = serving.gauge();
        let gate = Arc::clone(serving.gate());
        let ended = Attendance::begin(ending(), serving, &mountpoint, mount).wait();
        let features = gauge.read();
        drop(gauge);
        // Who unmounts takes the mount away; who cuts the connection leaves it.
        let is_left = place::stays(mount);
        drop(vigil);
        if is_left {
            stale::detach(&mountpoint);
        }
        close(&mut session, &lock, &gate, features)?;
        match ended? {
            End::Outside if is_left => Err(cut_off(&session, &mountpoint)),
            end => Ok((session, end)),
        }
    }
}

impl Taken {
    /// Finds or makes the session.
    fn of(home: &AegisHome, project: &Project, wanted: &Continue) -> Result<Self, CommandError> {
        let found = match wanted {
            Continue::New => None,
            Continue::Last => last(home, project)?,
            Continue::Named(id) => Some(Session::open(home, &find_id(home, id)?)?),
        };
        let Some(session) = found else {
            let purpose = Purpose {
                agent: "mount".to_owned(),
                command: Vec::new(),
                mount: mode(),
            };
            let (session, lock) = create(home, project, purpose)?;
            return Ok(Self {
                session,
                lock,
                before: None,
            });
        };
        if Project::of(&session)?.identity() != project.identity() {
            return Err(another_project(&session));
        }
        let lock = session.claim()?;
        Ok(Self {
            before: Some(session.record().clone()),
            session,
            lock,
        })
    }

    fn begin(&mut self, mountpoint: &Path, access: Access) -> Result<(), CommandError> {
        let begun = self.session.update(&self.lock, |record| {
            record.mount = mode();
            record.mountpoint = Bytes::from(mountpoint);
            record.access = access;
            record.features = None;
            record.server = std::process::id();
            record.state = State::Running;
            record.ended = None;
            record.status = None;
        });
        Ok(begun?)
    }

    /// Leaves things as they were. The failure that led here is the one to tell.
    fn give_back(mut self, home: &AegisHome) {
        match self.before {
            None => abandon(home, &self.session, self.lock),
            Some(before) => {
                let _told_already = self.session.update(&self.lock, |record| *record = before);
            }
        }
    }
}

/// The newest session of `project` that was made for a view and is at rest.
fn last(home: &AegisHome, project: &Project) -> Result<Option<Session>, CommandError> {
    let is_meant = |session: &Session| {
        let record = session.record();
        record.command.is_empty()
            && (record.project_dev, record.project_ino) == project.identity()
            && record.project() == project.path()
            && session.activity() != Activity::Live
    };
    Ok(list_in(home)?.sessions.into_iter().find(is_meant))
}

type Begun = (Serving, Position, Vigil, u64);

fn serve(
    setting: &Setting<'_>,
    config: &Config,
    lifeline: &Lifeline,
) -> Result<Begun, CommandError> {
    let serving = Serving::start(setting)?;
    let start = serving.began().clone();
    serving.note(Event::Started {
        command: Vec::new(),
    })?;
    let failed = |source| CommandError::io("asking the project's view", source);
    let place = At::Place(setting.mountpoint);
    let vigil = lifeline.serving(place, config.patience, || {});
    let gone = std::io::ErrorKind::NotConnected;
    let mount = place::mount_id(setting.mountpoint).ok_or_else(|| failed(gone.into()))?;
    Ok((serving, start, vigil.map_err(failed)?, mount))
}

fn close(
    session: &mut Session,
    lock: &Lock,
    gate: &Gate,
    features: Features,
) -> Result<(), CommandError> {
    let event = Event::Ended { status: 0 };
    let noted = gate.journal().append(0, Default::default(), event);
    let synced = gate.journal().sync();
    session.end(lock, 0, features)?;
    noted?;
    Ok(synced?)
}

fn mode() -> MountMode {
    if geteuid().is_root() {
        MountMode::Direct
    } else {
        MountMode::Fusermount
    }
}

/// The signals that unmount.
fn ending() -> SigSet {
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]
        .into_iter()
        .collect()
}

fn another_project(session: &Session) -> CommandError {
    let id = session.id();
    CommandError::told(
        &format!("session `{id}` can not be mounted"),
        format!("it is one of `{}`", shown(session.project())),
        "name its own project, or a session of this one",
    )
}

fn cut_off(session: &Session, mountpoint: &Path) -> CommandError {
    let id = session.id();
    CommandError::told(
        &format!("the view on `{}` was cut off", shown(mountpoint)),
        "something outside cut its connection to the kernel",
        &format!(
            "nothing is lost that a program was told is written: `aegis-os mount --session {id} \
             PROJECT MOUNTPOINT` goes on with it"
        ),
    )
}
