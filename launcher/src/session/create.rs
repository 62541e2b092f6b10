//! Making a session, whole or not at all.

use std::os::fd::{AsFd, OwnedFd};

use aegisfs::layout::SessionDir;
use rustix::fs::{Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;

use super::Session;
use super::clock::Moment;
use super::error::SessionError;
use super::home::AegisHome;
use super::id::SessionId;
use super::lock::Lock;
use super::project::Project;
use super::record::{Bytes, MountMode, Record, State};
use super::remove::{remove, sweep};

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

/// Makes the folders, the lock and the record of a new session of `project`.
///
/// # Errors
/// [`SessionError`] when the file system refuses; nothing is left behind.
pub fn create(
    home: &AegisHome,
    project: &Project,
    purpose: Purpose,
) -> Result<(Session, Lock), SessionError> {
    sweep(home);
    let (id, directory) = reserve(home)?;
    let session = Session {
        record: record(&id, project, purpose, home),
        dir: SessionDir::new(home.session_path(&id)),
        directory,
        id,
    };
    match furnish(&session) {
        Ok(lock) => Ok((session, lock)),
        Err(error) => {
            abandon(home, &session, None);
            Err(error)
        }
    }
}

/// Removes a session that did not come to run anything. The failure that led here is what the person
/// needs to hear of; what can not be removed now is removed when the next session is made.
pub fn abandon(home: &AegisHome, session: &Session, held: Option<Lock>) {
    let _told_already = remove(home, &session.id, held);
}

/// Makes the directory of a session under an id that no other has.
fn reserve(home: &AegisHome) -> Result<(SessionId, OwnedFd), SessionError> {
    loop {
        let id = SessionId::generate(Moment::now())
            .map_err(SessionError::io("naming a session in", home.path()))?;
        let failed = || SessionError::io("making the session", home.session_path(&id));
        match mkdirat(home.sessions(), id.as_str(), Mode::RWXU) {
            Err(Errno::EXIST) => {}
            Err(error) => return Err(failed()(error)),
            Ok(()) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let directory = openat(home.sessions(), id.as_str(), flags, Mode::empty());
                return directory
                    .map(|directory| (id.clone(), directory))
                    .map_err(failed());
            }
        }
    }
}

fn furnish(session: &Session) -> Result<Lock, SessionError> {
    let failed = || SessionError::io("making the session", session.dir.root());
    for folder in FOLDERS {
        mkdirat(session.directory.as_fd(), folder, Mode::RWXU).map_err(failed())?;
    }
    let lock = session.claim()?;
    session
        .record
        .write(session.directory())
        .map_err(SessionError::io(
            "recording the session in",
            session.dir.root(),
        ))?;
    Ok(lock)
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
        enforced: None,
        server: std::process::id(),
        created: Moment::now(),
        ended: None,
        state: State::Running,
        status: None,
    }
}
