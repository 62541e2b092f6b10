//! Sessions: where they live, which one is meant, who works on it.

pub mod clock;
pub mod config;
pub mod control;
mod create;
pub mod disk;
mod entrance;
mod error;
pub mod exits;
mod find;
pub(crate) mod gate;
pub mod home;
mod id;
pub mod launch;
mod lock;
pub mod mounts;
mod patience;
pub mod pending;
pub mod positions;
pub mod project;
mod real_tree;
pub mod record;
mod remove;
pub mod repository;
pub mod rescue;
pub mod serve;
pub mod stale;
pub mod summary;
pub mod torn;
pub mod view;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use aegisfs::fuse::Features;
use aegisfs::layout::SessionDir;
use aegisfs::overlay::changes::Change;
use rustix::fs::{Mode, OFlags, openat};

use crate::error::CommandError;
use serve::ServeError;

pub use clock::Moment;
pub use create::{Purpose, abandon, create};
pub use error::SessionError;
pub(crate) use error::next_for_system;
pub use find::{Listing, find, find_id, list, list_in, look_up};
pub use home::AegisHome;
pub use id::SessionId;
pub use lock::{Lock, claim};
pub use project::{Project, ProjectError};
pub use record::{Access, Bytes, Enforcement, MountMode, Record, State};
pub use remove::{remove, remove_folder};
pub use repository::Whereabouts;

/// One session on disk.
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    dir: SessionDir,
    directory: OwnedFd,
    record: Record,
}

/// What a session is doing, found out by looking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// A process serves it.
    Live,
    /// Its last run ended in order.
    Ended,
    /// Its server died; what was acknowledged is in the journal.
    Interrupted,
}

impl Session {
    /// Opens the session `id`.
    ///
    /// # Errors
    /// When it does not exist or its record can not be understood.
    pub fn open(home: &AegisHome, id: &SessionId) -> Result<Self, SessionError> {
        let path = home.session_path(id);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(home.sessions(), id.as_str(), flags, Mode::empty())
            .map_err(SessionError::io("opening", &path))?;
        let record = Record::read(directory.as_fd()).map_err(|why| SessionError::Damaged {
            id: id.to_string(),
            why: why.to_string(),
        })?;
        Ok(Self {
            id: id.clone(),
            dir: SessionDir::new(path),
            directory,
            record,
        })
    }

    /// The id.
    #[must_use]
    pub const fn id(&self) -> &SessionId {
        &self.id
    }

    /// Where the session keeps its things.
    #[must_use]
    pub const fn dir(&self) -> &SessionDir {
        &self.dir
    }

    /// The session's directory, open.
    #[must_use]
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// The real project.
    #[must_use]
    pub fn project(&self) -> &Path {
        self.record.project()
    }

    /// What `session.json` says.
    #[must_use]
    pub const fn record(&self) -> &Record {
        &self.record
    }

    /// Whether a process works on the session right now. For an answer that stays true, use
    /// [`Session::claim`].
    #[must_use]
    pub fn is_live(&self) -> bool {
        lock::is_held(self.directory())
    }

    /// What the session is doing.
    #[must_use]
    pub fn activity(&self) -> Activity {
        if self.is_live() {
            return Activity::Live;
        }
        match self.record.state {
            State::Running => Activity::Interrupted,
            State::Ended => Activity::Ended,
        }
    }

    /// Takes the session for a landing, a removal or a further run.
    ///
    /// # Errors
    /// [`SessionError::Busy`] when another process has it.
    pub fn claim(&self) -> Result<Lock, SessionError> {
        Lock::acquire(self.directory())
            .map_err(SessionError::io("locking", self.dir.lock()))?
            .ok_or_else(|| self.busy())
    }

    /// Changes the record on disk.
    ///
    /// # Errors
    /// When the file system refuses; the old record is then still in force.
    pub fn update(
        &mut self,
        _held: &Lock,
        change: impl FnOnce(&mut Record),
    ) -> Result<(), SessionError> {
        let mut record = self.record.clone();
        change(&mut record);
        record.write(self.directory()).map_err(SessionError::io(
            "recording the session in",
            self.dir.root(),
        ))?;
        self.record = record;
        Ok(())
    }

    /// Records that the run has ended, with `status` as shells report it, and how its tree was served.
    ///
    /// # Errors
    /// As [`Session::update`].
    pub fn end(
        &mut self,
        held: &Lock,
        status: i32,
        features: Features,
    ) -> Result<(), SessionError> {
        self.update(held, |record| {
            record.features = Some(features);
            record.state = State::Ended;
            record.ended = Some(Moment::now());
            record.status = Some(status);
        })
    }

    fn busy(&self) -> SessionError {
        SessionError::Busy {
            id: self.id.to_string(),
            server: Some(self.record.server),
        }
    }
}

/// What `session` changed, parents before what is in them.
///
/// # Errors
/// When its journal can not be replayed, or its project is not there any more.
pub fn changes(session: &Session) -> Result<Vec<Change>, CommandError> {
    let project = Project::of(session)?;
    let relocations = positions::relocations(session)?;
    let changes =
        aegisfs::overlay::changes::changes(session.dir(), project.directory(), relocations);
    changes.map_err(|error| ServeError::from(error).into())
}
