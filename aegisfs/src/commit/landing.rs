//! The directory of one landing: what it is about to do, what it did, and what it displaced.
//!
//! Every record is one file, written under another name, forced to the disk and then renamed, with
//! its SHA-256 in front: it is there as a whole or not at all.

use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use aegis_policies::RelPath;
use rustix::fs::{AtFlags, Mode, OFlags, fsync, mkdirat, open, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::beneath::{is_absence, names};
use super::error::{CommitError, Doing as _};
use super::site::{open_directory, open_private};
use super::state::{Digest, State};
use super::transaction::Step;
use crate::layout::SessionDir;
use crate::merge::Tier;

/// Called before each change to the disk, with the name of what comes; tests stop there.
pub(crate) type Hook<'a> = &'a dyn Fn(&'static str);

/// A landing's directory.
#[derive(Debug)]
pub(crate) struct Landing {
    id: String,
    path: PathBuf,
    directory: OwnedFd,
}

/// What a landing is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// It brings what the agent changed.
    Land,
    /// It takes the landing with this id back.
    Undo(String),
}

/// The first record: written before anything else of the landing exists.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Intent {
    pub(crate) purpose: Purpose,
    pub(crate) manifest: Digest,
    pub(crate) steps: Vec<Step>,
}

/// The second record: what was made ready before anything is published.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Prepared {
    /// By step, the inode that the landing made or moves.
    pub(crate) inodes: Vec<Option<u64>>,
    /// By step, whether the landing made the directory.
    pub(crate) made: Vec<bool>,
}

/// The third record: from here on the landing has happened.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Committed {
    /// By step, whether it was done.
    pub(crate) done: Vec<bool>,
    pub(crate) settled: Vec<Settled>,
}

/// One name and what became of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Settled {
    pub(crate) path: RelPath,
    /// What the agent and the host had started from.
    pub(crate) base: State,
    /// What the agent left there: the base of whatever it does next.
    pub(crate) agent: State,
    /// The host's name of what was moved here.
    pub(crate) moved_from: Option<RelPath>,
    /// The number that its steps carry; none when the host had it already.
    pub(crate) item: Option<usize>,
    /// How the content came about, when both sides had changed it.
    pub(crate) tier: Option<Tier>,
}

impl Landing {
    /// Makes the directory of a new landing, with an id that sorts after all before it.
    pub(crate) fn create(session: &SessionDir) -> Result<Self, CommitError> {
        let parent =
            open_directory(&session.landings()).doing("make", &session.landings().display())?;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_nanos();
        let newest = identifiers(session)?
            .last()
            .and_then(|id| u128::from_str_radix(id, 16).ok());
        let id = format!("{:016x}", now.max(newest.unwrap_or(0) + 1));
        mkdirat(&parent, &id, Mode::RWXU).doing("make landing", &id)?;
        fsync(&parent).doing("sync", &session.landings().display())?;
        Self::open(session, &id)
    }

    /// Opens the directory of an earlier landing.
    pub(crate) fn open(session: &SessionDir, id: &str) -> Result<Self, CommitError> {
        let path = session.landings().join(id);
        let directory = open_directory(&path).doing("open", &path.display())?;
        Ok(Self {
            id: id.to_owned(),
            path,
            directory,
        })
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// The folder of what was displaced, named by the step's number.
    pub(crate) fn displaced(&self) -> Result<OwnedFd, CommitError> {
        let path = self.path.join("displaced");
        open_directory(&path).doing("make", &path.display())
    }

    /// The path of what the step with this number displaced.
    pub(crate) fn displaced_path(&self, step: usize) -> PathBuf {
        self.path.join("displaced").join(step.to_string())
    }

    /// Writes a record.
    pub(crate) fn write<T: Serialize>(
        &self,
        name: &'static str,
        value: &T,
        hook: Hook<'_>,
    ) -> Result<(), CommitError> {
        let shown = self.path.join(name);
        let failed = |source: std::io::Error| CommitError::Io {
            doing: "write record",
            name: shown.display().to_string(),
            source,
        };
        let body = serde_json::to_vec(value).map_err(|error| failed(error.into()))?;
        let fresh = format!("{name}.new");
        hook("record: write");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let file = openat(&self.directory, &fresh, flags, Mode::RUSR | Mode::WUSR);
        let mut file = std::fs::File::from(file.map_err(|errno| failed(errno.into()))?);
        writeln!(file, "{}", Digest::new(Sha256::digest(&body).into())).map_err(failed)?;
        file.write_all(&body).map_err(failed)?;
        hook("record: sync");
        file.sync_all().map_err(failed)?;
        hook("record: rename");
        renameat(&self.directory, &fresh, &self.directory, name)
            .map_err(|errno| failed(errno.into()))?;
        hook("record: sync directory");
        fsync(&self.directory).map_err(|errno| failed(errno.into()))
    }

    /// Whether a record is there, or may be.
    pub(crate) fn has(&self, name: &'static str) -> bool {
        statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW).err() != Some(Errno::NOENT)
    }

    /// Makes sure that a record is not there.
    pub(crate) fn erase(&self, name: &'static str) -> Result<(), CommitError> {
        match unlinkat(&self.directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => fsync(&self.directory),
            Err(errno) => Err(errno),
        }
        .doing("remove record", &self.path.join(name).display())
    }

    /// Reads a record; `None` when it was never written.
    pub(crate) fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, CommitError> {
        let path = self.path.join(name);
        let damaged = |reason: String| CommitError::Record {
            name: path.display().to_string(),
            reason,
        };
        let file = match open_private(&path) {
            Ok(file) => file,
            Err(error) if is_absence(&error) => return Ok(None),
            Err(error) => return Err(damaged(error.to_string())),
        };
        let text = std::io::read_to_string(std::fs::File::from(file))
            .map_err(|error| damaged(error.to_string()))?;
        let (sum, body) = text
            .split_once('\n')
            .ok_or_else(|| damaged("it has no checksum".to_owned()))?;
        if sum != Digest::new(Sha256::digest(body).into()).to_string() {
            return Err(damaged("its checksum does not match".to_owned()));
        }
        serde_json::from_str(body)
            .map(Some)
            .map_err(|error| damaged(error.to_string()))
    }
}

/// When a landing began, in nanoseconds since the Unix epoch: its id tells. One that tells nothing
/// is taken for the latest, so that it hides nothing.
pub(crate) fn moment(id: &str) -> i64 {
    i64::from_str_radix(id, 16).unwrap_or(i64::MAX)
}

/// The ids of a session's landings, oldest first.
pub(crate) fn identifiers(session: &SessionDir) -> Result<Vec<String>, CommitError> {
    let path = session.landings();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match open(&path, flags, Mode::empty()) {
        Ok(directory) => directory,
        Err(Errno::NOENT) => return Ok(Vec::new()),
        Err(errno) => return Err(errno).doing("open", &path.display()),
    };
    let names = names(directory.as_fd()).doing("list", &path.display())?;
    let mut ids: Vec<String> = names
        .into_iter()
        .filter_map(|name| String::from_utf8(name).ok())
        .collect();
    ids.sort();
    Ok(ids)
}

/// The names of the records.
pub(crate) const INTENT: &str = "intent";
pub(crate) const PREPARED: &str = "prepared";
pub(crate) const COMMITTED: &str = "committed";
pub(crate) const DONE: &str = "done";
/// Taken back, except for what lies in a folder that was not there.
pub(crate) const PARTLY: &str = "partly";
