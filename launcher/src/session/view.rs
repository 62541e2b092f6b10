//! The copy-on-write view of a project for the user's own programs, without a sandbox.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread;

use aegis_policies::journal::Event;
use nix::sys::signal::{SigSet, Signal};
use rustix::fs::{CWD, Dir, Mode, OFlags, openat};
use rustix::process::geteuid;

use super::Session;
use super::config::Config;
use super::create::{Purpose, abandon, create};
use super::home::{AegisHome, real_path, shown};
use super::lock::Lock;
use super::project::Project;
use super::record::{Bytes, MountMode};
use super::repository::Whereabouts;
use super::serve::{ServeError, Serving, Setting};
use super::stale::detach;
use crate::error::CommandError;
use crate::sys;

/// A view that is mounted, and its session.
#[derive(Debug)]
pub struct View {
    session: Session,
    lock: Lock,
    serving: Serving,
    mountpoint: PathBuf,
}

impl View {
    /// Makes a session of `project` and mounts its view on `mountpoint`.
    ///
    /// # Errors
    /// When the folder can not be mounted on; no session is then left behind.
    pub fn open(
        home: AegisHome,
        project: Project,
        mountpoint: &Path,
        config: &Config,
    ) -> Result<Self, CommandError> {
        let mountpoint = check_mountpoint(mountpoint, &[project.path(), home.path()])?;
        let repository = Whereabouts::of(&project).map_err(ServeError::Repository)?;
        sys::files::raise();
        // Blocked before there are threads, so that only `attend` sees them.
        ending()
            .thread_block()
            .map_err(|errno| io_error("blocking signals", errno))?;
        let mount = if geteuid().is_root() {
            MountMode::Direct
        } else {
            MountMode::Fusermount
        };
        let purpose = Purpose {
            agent: "mount".to_owned(),
            command: Vec::new(),
            mount,
        };
        let (mut session, lock) = create(&home, &project, purpose)?;
        let served = session
            .update(&lock, |record| {
                record.mountpoint = Bytes::from(mountpoint.as_path());
            })
            .map_err(CommandError::from)
            .and_then(|()| {
                serve(
                    &session,
                    (&project, &repository),
                    &mountpoint,
                    config,
                    mount,
                )
            });
        match served {
            Ok(serving) => Ok(Self {
                session,
                lock,
                serving,
                mountpoint,
            }),
            Err(error) => {
                abandon(&home, &session, lock);
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

    /// Serves the view until it is unmounted, by a signal to this process or by anything else.
    ///
    /// # Errors
    /// When the connection to the kernel broke.
    pub fn attend(self) -> Result<Session, CommandError> {
        let Self {
            mut session,
            lock,
            serving,
            mountpoint,
        } = self;
        thread::spawn(move || {
            if ending().wait().is_ok() {
                detach(&mountpoint);
            }
        });
        let gate = serving.gate().clone();
        let served = serving.wait();
        let event = Event::Ended { status: 0 };
        let noted = gate.journal().append(0, Default::default(), event);
        session.end(&lock, 0)?;
        noted?;
        served?;
        Ok(session)
    }
}

fn serve(
    session: &Session,
    (project, repository): (&Project, &Whereabouts),
    mountpoint: &Path,
    config: &Config,
    mode: MountMode,
) -> Result<Serving, CommandError> {
    let policy = config.policy.as_deref();
    let serving = Serving::start(&Setting {
        session,
        project,
        repository,
        policy,
        mountpoint,
        mode,
    })?;
    serving.note(Event::Started {
        command: Vec::new(),
    })?;
    Ok(serving)
}

/// The signals that unmount.
fn ending() -> SigSet {
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]
        .into_iter()
        .collect()
}

/// Finds the mountpoint to be an empty folder apart from `others`.
fn check_mountpoint(path: &Path, others: &[&Path]) -> Result<PathBuf, CommandError> {
    let refuse = |why: String| {
        let what = format!("`{}` can not be mounted on", shown(path));
        CommandError::told(
            &what,
            why,
            "make an empty folder outside the project and name that",
        )
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory =
        openat(CWD, path, flags, Mode::empty()).map_err(|errno| refuse(errno.to_string()))?;
    let real = real_path(directory.as_fd()).map_err(|error| refuse(error.to_string()))?;
    for other in others {
        let other_shown = shown(other);
        if real.starts_with(other) {
            return Err(refuse(format!("it lies in `{other_shown}`")));
        }
        if other.starts_with(&real) {
            return Err(refuse(format!("it holds `{other_shown}`")));
        }
    }
    let names = Dir::read_from(&directory).map_err(|errno| refuse(errno.to_string()))?;
    let is_empty = names
        .flatten()
        .all(|entry| matches!(entry.file_name().to_bytes(), b"." | b".."));
    if is_empty {
        Ok(real)
    } else {
        Err(refuse("it is not empty".to_owned()))
    }
}

fn io_error(doing: &str, source: impl Into<io::Error>) -> CommandError {
    CommandError::Io {
        doing: doing.to_owned(),
        source: source.into(),
    }
}
