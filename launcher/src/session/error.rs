//! What can go wrong with sessions.

use std::io;
use std::path::PathBuf;

use aegis_policies::journal::JournalError;
use rustix::io::Errno;

use super::home::shown;

/// Why a session could not be found, made or kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Neither `AEGIS_HOME` nor a home directory is known.
    #[error("there is no place for sessions: neither `AEGIS_HOME` nor `HOME` is set")]
    NoHome,
    /// The folder of all sessions, or a setting in it, could be changed by somebody else.
    #[error("`{}` can not be trusted: {why}", shown(path))]
    UnsafeHome {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// No session of the project exists.
    #[error("there is no session for `{}`", shown(project))]
    NoneHere {
        /// The folder that was looked from.
        project: PathBuf,
    },
    /// No id starts with what was given.
    #[error("no session has an id that starts with `{given}`")]
    Unknown {
        /// What was given.
        given: String,
    },
    /// Several ids start with what was given.
    #[error("`{given}` is the start of several ids: {}", ids.join(", "))]
    Ambiguous {
        /// What was given.
        given: String,
        /// The ids.
        ids: Vec<String>,
    },
    /// The session is being served, landed or discarded by another process.
    #[error("session `{id}` is in use{}", by(*server))]
    Busy {
        /// The session.
        id: String,
        /// The process that serves it, when it is known.
        server: Option<u32>,
    },
    /// `session.json` can not be understood.
    #[error("session `{id}` is damaged: {why}")]
    Damaged {
        /// The session.
        id: String,
        /// What is wrong with it.
        why: String,
    },
    /// The user's settings can not be understood.
    #[error("the settings in `{}` can not be used: {why}", shown(path))]
    Settings {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The journal of a session can not be made.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The file system refused.
    #[error("{doing} `{}`: {source}", shown(path))]
    Io {
        /// What was being done, as a gerund.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// What the file system said.
        source: io::Error,
    },
}

impl SessionError {
    /// A closure for `map_err`.
    pub(crate) fn io<E: Into<io::Error>>(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::Io {
            doing,
            path: path.into(),
            source: source.into(),
        }
    }

    /// What to do next, when there is something to do.
    #[must_use]
    pub fn next(&self) -> Option<String> {
        Some(match self {
            Self::NoHome => "set `AEGIS_HOME` to a folder of your own".to_owned(),
            Self::UnsafeHome { path, .. } => format!(
                "make it yours alone (`chmod go-w {0}`, `chown $(id -u) {0}`) or set `AEGIS_HOME` \
                 to another folder",
                shown(path)
            ),
            Self::NoneHere { .. } => {
                "`aegis-os sessions` lists all; `aegis-os run -- COMMAND` starts one".to_owned()
            }
            Self::Unknown { .. } => "`aegis-os sessions` lists all ids".to_owned(),
            Self::Ambiguous { .. } => "give more letters of the id".to_owned(),
            Self::Busy { .. } => "wait until its command has ended, or end it".to_owned(),
            Self::Damaged { id, .. } => format!("`aegis-os discard {id}` throws it away"),
            Self::Settings { .. } => {
                "correct it: `allow` is a list of hosts, `ro` a list of absolute paths".to_owned()
            }
            Self::Journal(JournalError::Io { source, .. }) => return next_for_system(source),
            Self::Journal(_) => return None,
            Self::Io { source, .. } => return next_for_system(source),
        })
    }
}

/// What to do about a refusal of the file system that sessions are kept on.
pub(crate) fn next_for_system(source: &io::Error) -> Option<String> {
    let next = match Errno::from_io_error(source)? {
        Errno::NOSPC | Errno::DQUOT => {
            "free some space on that disk, or set `AEGIS_HOME` to a folder on another one"
        }
        Errno::ACCESS | Errno::PERM | Errno::ROFS => {
            "set `AEGIS_HOME` to a folder that you can write to"
        }
        Errno::NOENT | Errno::NOTDIR => {
            "make the folder above it, or set `AEGIS_HOME` to a folder that can be made"
        }
        Errno::MFILE | Errno::NFILE => "raise the limit of open files (`ulimit -n`)",
        _ => return None,
    };
    Some(next.to_owned())
}

fn by(server: Option<u32>) -> String {
    server.map_or_else(String::new, |pid| format!(" by process {pid}"))
}
