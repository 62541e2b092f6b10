//! The folder of all sessions: `$AEGIS_HOME`, or `.aegis` in the home directory.

use std::env;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use aegis_policies::path::escape;
use rustix::fs::{Dir, Mode, OFlags, RawMode, fstat, mkdirat, openat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::error::SessionError;
use super::id::SessionId;

const PRIVATE: Mode = Mode::RWXU;
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);

/// The folder of all sessions, found to belong to this user alone.
#[derive(Debug)]
pub struct AegisHome {
    path: PathBuf,
    root: OwnedFd,
    sessions: OwnedFd,
}

impl AegisHome {
    /// Opens the folder; `None` when there is none yet.
    ///
    /// # Errors
    /// When it is not safe from other users, or can not be read.
    pub fn open() -> Result<Option<Self>, SessionError> {
        let path = wanted()?;
        match Self::open_at(&path) {
            Err(SessionError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// Where the folder is or will be, as far as it exists free of links.
    ///
    /// # Errors
    /// When no place for it is known.
    pub fn place() -> Result<PathBuf, SessionError> {
        Self::place_at(None)
    }

    /// As [`AegisHome::place`], at `named` when it is given.
    ///
    /// # Errors
    /// As there.
    pub fn place_at(named: Option<&Path>) -> Result<PathBuf, SessionError> {
        let path = named.map_or_else(wanted, absolute)?;
        let real = path.ancestors().find_map(|above| {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let found = openat(rustix::fs::CWD, above, flags, Mode::empty()).ok()?;
            let missing = path.strip_prefix(above).ok()?;
            Some(real_path(found.as_fd()).ok()?.join(missing))
        });
        Ok(real.unwrap_or(path))
    }

    /// Opens the folder, making it when there is none.
    ///
    /// # Errors
    /// When it can not be made, or is not safe from other users.
    pub fn create() -> Result<Self, SessionError> {
        Self::create_at(None)
    }

    /// As [`AegisHome::create`], at `named` when it is given.
    ///
    /// # Errors
    /// As there.
    pub fn create_at(named: Option<&Path>) -> Result<Self, SessionError> {
        let path = named.map_or_else(wanted, absolute)?;
        make(rustix::fs::CWD, path.as_os_str(), &path)?;
        let root = open_safe(&path)?;
        make(root.as_fd(), OsStr::new("sessions"), &path.join("sessions"))?;
        Self::open_at(&path)
    }

    /// The folder itself, free of symbolic links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder that holds one folder per session.
    #[must_use]
    pub fn sessions(&self) -> BorrowedFd<'_> {
        self.sessions.as_fd()
    }

    /// The path of a session.
    #[must_use]
    pub fn session_path(&self, id: &SessionId) -> PathBuf {
        self.path.join("sessions").join(id.as_str())
    }

    /// Reads a file of the user's own in the folder; `None` when there is none.
    ///
    /// # Errors
    /// When it can not be read, is not UTF-8, or can be changed by other users.
    pub fn read(&self, name: &str) -> Result<Option<String>, SessionError> {
        let path = self.path.join(name);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match openat(&self.root, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened.map_err(SessionError::io("opening", &path))?,
        };
        check(file.as_fd(), &path)?;
        let mut text = String::new();
        std::fs::File::from(file)
            .read_to_string(&mut text)
            .map_err(SessionError::io("reading", &path))?;
        Ok(Some(text))
    }

    /// The ids of all sessions, oldest first.
    ///
    /// # Errors
    /// When the folder can not be read.
    pub fn ids(&self) -> Result<Vec<SessionId>, SessionError> {
        let failed = || SessionError::io("reading", self.path.join("sessions"));
        let mut ids = Vec::new();
        for entry in Dir::read_from(&self.sessions).map_err(failed())? {
            let entry = entry.map_err(failed())?;
            ids.extend(entry.file_name().to_str().ok().and_then(SessionId::parse));
        }
        ids.sort_unstable();
        Ok(ids)
    }

    fn open_at(path: &Path) -> Result<Self, SessionError> {
        let root = open_safe(path)?;
        let sessions = openat(&root, "sessions", DIRECTORY, Mode::empty())
            .map_err(SessionError::io("opening", path.join("sessions")))?;
        check(sessions.as_fd(), &path.join("sessions"))?;
        let path = real_path(root.as_fd()).map_err(SessionError::io("locating", path))?;
        Ok(Self {
            path,
            root,
            sessions,
        })
    }
}

/// The home directory of the user: `HOME`, or what the user database says.
#[must_use]
pub fn user_home() -> Option<PathBuf> {
    user_homes().into_iter().next()
}

/// The home directory that `HOME` names, and the one of the user database.
#[must_use]
pub fn user_homes() -> Vec<PathBuf> {
    let named = env::var_os("HOME")
        .filter(|home| !home.is_empty())
        .map(PathBuf::from);
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::effective());
    named
        .into_iter()
        .chain(user.ok().flatten().map(|user| user.dir))
        .collect()
}

/// A path, fit for a terminal: a directory may be called anything.
#[must_use]
pub fn shown(path: &Path) -> String {
    escape(path.as_os_str().as_bytes())
}

/// The path of what a descriptor is open on, as the kernel knows it.
///
/// # Errors
/// When /proc is not mounted.
pub fn real_path(descriptor: BorrowedFd<'_>) -> io::Result<PathBuf> {
    use std::os::fd::AsRawFd;
    let link = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    let target = rustix::fs::readlink(link, Vec::new())?;
    Ok(PathBuf::from(OsStr::from_bytes(target.as_bytes())))
}

fn wanted() -> Result<PathBuf, SessionError> {
    let named = env::var_os("AEGIS_HOME")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from);
    let path = named
        .or_else(|| user_home().map(|home| home.join(".aegis")))
        .ok_or(SessionError::NoHome)?;
    absolute(&path)
}

fn absolute(path: &Path) -> Result<PathBuf, SessionError> {
    std::path::absolute(path).map_err(SessionError::io("locating", path))
}

fn make(parent: BorrowedFd<'_>, name: &OsStr, path: &Path) -> Result<(), SessionError> {
    match mkdirat(parent, name, PRIVATE) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(SessionError::io("making the session folder", path)(error)),
    }
}

/// Opens the folder, following links in the path: it is the descriptor that is judged.
fn open_safe(path: &Path) -> Result<OwnedFd, SessionError> {
    let flags = DIRECTORY.difference(OFlags::NOFOLLOW);
    let root = openat(rustix::fs::CWD, path, flags, Mode::empty())
        .map_err(SessionError::io("opening", path))?;
    check(root.as_fd(), path)?;
    Ok(root)
}

/// Whoever can write here could swap what a person has reviewed.
fn check(directory: BorrowedFd<'_>, path: &Path) -> Result<(), SessionError> {
    let status = fstat(directory).map_err(SessionError::io("examining", path))?;
    let refuse = |why| {
        Err(SessionError::UnsafeHome {
            path: path.to_owned(),
            why,
        })
    };
    if status.st_uid != geteuid().as_raw() {
        return refuse("it belongs to another user");
    }
    let others = Mode::WGRP | Mode::WOTH;
    if Mode::from_raw_mode(status.st_mode as RawMode).intersects(others) {
        return refuse("its group or everybody may write to it");
    }
    Ok(())
}
