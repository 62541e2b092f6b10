//! Why a directory can not be a project.

use std::io;
use std::path::PathBuf;

use super::super::home::shown;

/// Why a directory can not be a project.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProjectError {
    /// The current directory was removed or can not be reached.
    #[error("the current directory can not be found: {0}")]
    NoCurrentDirectory(io::Error),
    /// The launcher runs inside a session.
    #[error("a session can not be started inside session `{0}`")]
    Nested(String),
    /// The directory can not be opened.
    #[error("the project `{}` can not be opened: {source}", shown(path))]
    Unreachable {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another directory has taken the place of a session's project.
    #[error("`{}` is not the directory that the session was made for", shown(path))]
    Replaced {
        /// The directory.
        path: PathBuf,
    },
    /// The directory holds what must stay hidden from an agent.
    #[error("`{}` can not be a project: {why}", shown(path))]
    TooWide {
        /// The directory.
        path: PathBuf,
        /// What it holds.
        why: &'static str,
    },
    /// The directory lies in the session folder.
    #[error(
        "`{}` can not be a project: it lies in the session folder `{}`",
        shown(path),
        shown(home)
    )]
    InSessions {
        /// The directory.
        path: PathBuf,
        /// The session folder.
        home: PathBuf,
    },
    /// The session folder lies in the project.
    #[error(
        "the session folder `{}` lies in the project `{}`, where the agent would see it",
        shown(home),
        shown(path)
    )]
    HoldsSessions {
        /// The directory.
        path: PathBuf,
        /// The session folder.
        home: PathBuf,
    },
    /// The file system can not carry a project.
    #[error("`{}` can not be a project: it is on `{kind}`, {why}", shown(path))]
    FileSystem {
        /// The directory.
        path: PathBuf,
        /// The type of the file system.
        kind: String,
        /// Why that type is refused.
        why: &'static str,
    },
}
