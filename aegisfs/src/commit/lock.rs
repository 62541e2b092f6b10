//! One landing at a time on a project, whatever session it comes from.

use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use aegis_policies::RelPath;
use aegis_policies::path::escape;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, openat};

use super::error::{CommitError, Doing as _};
use super::landing::Hook;
use super::site::{Site, open_directory};
use super::transaction::{Recovered, interrupted, recover};
use crate::layout::SessionDir;

/// The landing lock of a project, held until it is dropped.
#[derive(Debug)]
pub(crate) struct ProjectLock {
    file: std::fs::File,
    /// Another session whose interrupted landing could not be seen to.
    waiting: PathBuf,
}

impl ProjectLock {
    /// Waits for the lock, and takes care of a landing that a crash interrupted: this session's or
    /// that of the session whose name the last holder left in the lock. Another session's stands
    /// only against a change of the same `paths`.
    pub(crate) fn acquire(
        site: &Site<'_>,
        paths: &[&RelPath],
        hook: Hook<'_>,
    ) -> Result<(Self, Recovered), CommitError> {
        let mut lock = Self::wait(site)?;
        let own = site.session().root();
        if let Some(other) = lock
            .interrupted()?
            .filter(|other| other != own && other.is_dir())
        {
            let session = SessionDir::new(other.clone());
            if let Err(error) = recover(&Site::new(&session, site.tree().root()), hook) {
                if shares(&session, paths) {
                    return Err(unfinished(&other, error));
                }
                lock.waiting = other;
            }
        }
        let recovered = recover(site, hook).map_err(|error| unfinished(own, error))?;
        lock.note(own)?;
        Ok((lock, recovered))
    }

    /// Says that nothing is under way any more. A name that stays only makes the next landing look.
    pub(crate) fn release(mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        self.note(&waiting).ok();
    }

    fn wait(site: &Site<'_>) -> Result<Self, CommitError> {
        let folder = folder(site.session().root());
        let directory = open_directory(&folder).doing("make", &folder.display())?;
        let stat = fstat(site.tree().root()).doing("look at", &"the project")?;
        let name = format!("{:x}-{:x}", stat.st_dev, stat.st_ino);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&directory, &name, flags, Mode::RUSR | Mode::WUSR);
        let file = file.doing("open lock", &name)?;
        flock(&file, FlockOperation::LockExclusive).doing("lock", &name)?;
        Ok(Self {
            file: file.into(),
            waiting: PathBuf::new(),
        })
    }

    fn interrupted(&mut self) -> Result<Option<PathBuf>, CommitError> {
        let mut name = Vec::new();
        self.file
            .read_to_end(&mut name)
            .doing("read", &"the landing lock")?;
        let path = PathBuf::from(std::ffi::OsString::from_vec(name));
        Ok(path.is_absolute().then_some(path))
    }

    fn note(&mut self, session: &Path) -> Result<(), CommitError> {
        let mut write = || {
            self.file.set_len(0)?;
            self.file.rewind()?;
            self.file.write_all(session.as_os_str().as_bytes())
        };
        write().doing("write", &"the landing lock")
    }
}

/// Whether an interrupted landing of the session may concern one of the paths; also when its
/// records can not be read.
fn shares(session: &SessionDir, paths: &[&RelPath]) -> bool {
    let Ok(interrupted) = interrupted(session) else {
        return !paths.is_empty();
    };
    let meets = |one: &RelPath| {
        paths
            .iter()
            .any(|other| one.starts_with(other) || other.starts_with(one))
    };
    interrupted
        .iter()
        .flat_map(|(_, intent)| &intent.steps)
        .any(|step| meets(&step.path))
}

fn unfinished(session: &Path, error: CommitError) -> CommitError {
    let name = session.file_name().unwrap_or(session.as_os_str());
    CommitError::Interrupted {
        session: escape(name.as_bytes()),
        source: Box::new(error),
    }
}

/// Beside the folder of sessions.
fn folder(session: &Path) -> PathBuf {
    session.ancestors().nth(2).unwrap_or(session).join("locks")
}
