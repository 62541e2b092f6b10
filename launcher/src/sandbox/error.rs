//! Why a sandbox could not be planned or started.

use std::io;
use std::path::PathBuf;

use crate::session::home::shown;

/// The failures of the sandbox room.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The request names no command.
    #[error("no command was given")]
    NoCommand,
    /// The command is on no directory of the host's `PATH`.
    #[error("`{0}` was not found on the PATH")]
    CommandNotFound(String),
    /// The command lies where the sandbox shows nothing, and no narrow part of it can be shown.
    #[error("`{0}` lies in a place that the sandbox hides; show it with `--ro {1}`")]
    CommandHidden(String, String),
    /// A path of the request cannot be part of a sandbox.
    #[error("`{path}` cannot be used: {reason}", path = shown(path))]
    Path {
        /// The path as it was given.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A table that is built into the program is not valid.
    #[error("{0}")]
    Table(String),
    /// The kernel, or a security module, refuses namespaces to this user.
    #[error("this system refuses user namespaces ({reason}): {source}")]
    NamespaceRefused {
        /// The setting that is the likely cause.
        reason: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Bubblewrap is not installed.
    #[error("bubblewrap (`bwrap`) is not installed")]
    BubblewrapMissing,
    /// A bubblewrap was found that other users could have replaced.
    #[error("`{path}` is not owned by root or can be written by others", path = shown(.0))]
    BubblewrapUntrusted(PathBuf),
    /// Bubblewrap ended before the sandbox was ready.
    #[error("bubblewrap could not build the sandbox: {0}")]
    Bubblewrap(String),
    /// The first process inside refused to go on.
    #[error("the sandbox refused to start: {0}")]
    Stage(String),
    /// What came out of the sandbox is not what the launcher asked for.
    #[error("the sandbox answered with something unexpected: {0}")]
    Protocol(&'static str),
    /// A system call of the launcher failed.
    #[error("{action}: {source}")]
    System {
        /// What was being done.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl SandboxError {
    /// Wraps the failure of one step, to be used with `map_err`.
    pub(crate) fn system<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System {
            action,
            source: source.into(),
        }
    }
}
