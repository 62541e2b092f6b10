//! Making a session, whole or not at all.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use aegis_policies::Journal;
use aegisfs::layout::SessionDir;
use rustix::fs::{Mode, OFlags, RenameFlags, mkdirat, openat, renameat_with};
use rustix::io::Errno;

use super::Session;
use super::clock::Moment;
use super::error::SessionError;
use super::home::AegisHome;
use super::id::SessionId;
use super::lock::Lock;
use super::project::Project;
use super::record::{Access, Bytes, MountMode, Record, State};
use super::remove::{DRAFT, remove, remove_folder, sweep};

/// The folders of a session (see [`SessionDir`]).
const FOLDERS: [&str; 7] = [
    "journal", "content", "base", "stage", "landings", "home", "mnt",
];

/// What a new session is for.
#[derive(Clone, Debug)]
pub struct Purpose {
    /// What the session calls its agent.
    pub agent: String,
    /// The command; empty for a mount without a sandbox.
    pub command: Vec<Bytes>,
    /// How aegisfs will be mounted.
    pub mount: MountMode,
}

/// Makes the folders, the journal, the lock and the record of a new session of `project`. It gets its
/// name last, so that whoever looks sees a whole session or none.
///
/// # Errors
/// [`SessionError`] when the file system refuses; nothing is left behind.
pub fn create(
    home: &AegisHome,
    project: &Project,
    purpose: Purpose,
) -> Result<(Session, Lock), SessionError> {
    sweep(home);
    loop {
        if let Some(made) = attempt(home, project, purpose.clone())? {
            return Ok(made);
        }
    }
}

/// Makes a session under a new id; `None` when another session has it.
fn attempt(
    home: &AegisHome,
    project: &Project,
    purpose: Purpose,
) -> Result<Option<(Session, Lock)>, SessionError> {
    let id = SessionId::generate(Moment::now())
        .map_err(SessionError::io("naming a session in", home.path()))?;
    let draft = Draft::make(home, &id)?;
    let record = record(&id, project, purpose, home);
    match draft
        .furnish(&record)
        .and_then(|lock| Ok((draft.publish(&id)?, lock)))
    {
        Ok((true, lock)) => {
            let dir = SessionDir::new(home.session_path(&id));
            Ok(Some((
                Session {
                    id,
                    dir,
                    directory: draft.directory,
                    record,
                },
                lock,
            )))
        }
        Ok((false, _)) => {
            draft.remove();
            Ok(None)
        }
        Err(error) => {
            draft.remove();
            Err(error)
        }
    }
}

/// The directory of a session that is not whole yet.
struct Draft<'a> {
    home: &'a AegisHome,
    name: String,
    path: PathBuf,
    directory: OwnedFd,
}

impl<'a> Draft<'a> {
    fn make(home: &'a AegisHome, id: &SessionId) -> Result<Self, SessionError> {
        let name = format!("{DRAFT}{id}");
        let path = home.path().join("sessions").join(&name);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = mkdirat(home.sessions(), &name, Mode::RWXU);
        let opened = made.and_then(|()| openat(home.sessions(), &name, flags, Mode::empty()));
        match opened {
            Ok(directory) => Ok(Self {
                home,
                name,
                path,
                directory,
            }),
            Err(error) => Err(SessionError::io("making the session", path)(error)),
        }
    }

    fn furnish(&self, record: &Record) -> Result<Lock, SessionError> {
        let failed = || SessionError::io("making the session", &self.path);
        for folder in FOLDERS {
            mkdirat(&self.directory, folder, Mode::RWXU).map_err(failed())?;
        }
        let lock = Lock::acquire(self.directory.as_fd())
            .map_err(SessionError::io("locking the session", &self.path))?;
        let lock = lock.ok_or_else(|| SessionError::Busy {
            id: self.name.clone(),
            server: None,
        })?;
        Journal::create(&SessionDir::new(self.path.clone()).journal())?;
        let written = record.write(self.directory.as_fd());
        written.map_err(SessionError::io("recording the session in", &self.path))?;
        Ok(lock)
    }

    /// Gives the session its name; `false` when another session has it.
    fn publish(&self, id: &SessionId) -> Result<bool, SessionError> {
        let sessions = self.home.sessions();
        let named = renameat_with(
            sessions,
            &self.name,
            sessions,
            id.as_str(),
            RenameFlags::NOREPLACE,
        );
        match named {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(SessionError::io("making the session", &self.path)(error)),
        }
    }

    fn remove(&self) {
        let _swept_later = remove_folder(&self.path);
    }
}

/// Removes a session that did not come to run anything. The failure that led here is what the person
/// needs to hear of; what can not be removed now is removed when the next session is made.
pub fn abandon(home: &AegisHome, session: &Session, held: Lock) {
    let _told_already = remove(home, &session.id, held);
}

fn record(id: &SessionId, project: &Project, purpose: Purpose, home: &AegisHome) -> Record {
    let (project_dev, project_ino) = project.identity();
    Record {
        version: 1,
        id: id.to_string(),
        project: project.path().into(),
        project_dev,
        project_ino,
        agent: purpose.agent,
        command: purpose.command,
        mount: purpose.mount,
        mountpoint: SessionDir::new(home.session_path(id))
            .mountpoint()
            .as_path()
            .into(),
        access: Access::Shadow,
        features: None,
        enforced: None,
        server: std::process::id(),
        created: Moment::now(),
        ended: None,
        state: State::Running,
        status: None,
    }
}
