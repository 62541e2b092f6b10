//! The words that people read when a command can not do what it was asked: what happened, why,
//! and what to do next.

use std::io;

use aegis_egress::EgressError;
use aegis_policies::GateError;
use aegis_policies::journal::JournalError;
use aegisfs::overlay::OverlayError;

use crate::sandbox::SandboxError;
use crate::session::exits::ExitsError;
use crate::session::next_for_system;
use crate::session::serve::ServeError;
use crate::session::{ProjectError, SessionError};

/// Our own failure before or outside the command that was to be run (as env(1) and docker use it).
pub const OWN_FAILURE: u8 = 125;
/// The command was found and can not be executed, as shells report it.
const NOT_EXECUTABLE: u8 = 126;
/// The command was not found, as shells report it.
const NOT_FOUND: u8 = 127;

const NEXT_FOR_DAMAGE: &str = "`aegis-os recover` says what is damaged and saves what is left; \
    `aegis-os audit` shows what lies before the damage; `aegis-os discard` throws the session away";

const SEE_DOCTOR: &str = "`aegis-os doctor` says what this system refuses and how to allow it";

/// Why a command of `aegis-os` failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// A session could not be found, made or kept.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The directory can not be a project.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// The project's view could not be served.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The ways out of the session could not be set up.
    #[error(transparent)]
    Exits(#[from] ExitsError),
    /// The view can be mounted neither by the launcher nor by the set-uid helper.
    #[error("{refusal}; the set-uid helper of FUSE does not help: {helper}")]
    NoMount {
        /// Why the launcher has no namespaces of its own.
        refusal: String,
        /// What came of the helper.
        helper: String,
    },
    /// The sandbox could not be planned or started.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The journal could not be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The operating system refused something plain.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done, such as "writing to standard output".
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// A failure that its room has put into words already.
    #[error("{what}: {why}")]
    Told {
        /// What happened.
        what: String,
        /// Why.
        why: String,
        /// What to do next; empty when nothing is to be done.
        next: String,
    },
    /// A question had to be asked and there is nobody to answer.
    #[error("{question} needs an answer and there is no terminal to ask on")]
    NobodyToAsk {
        /// The question, as a noun, such as "landing 3 files".
        question: String,
    },
}

impl CommandError {
    /// A failure in words of the caller's own.
    #[must_use]
    pub fn told(what: &str, why: impl ToString, next: &str) -> Self {
        Self::Told {
            what: what.to_owned(),
            why: why.to_string(),
            next: next.to_owned(),
        }
    }

    /// A failure of something plain.
    #[must_use]
    pub fn io(doing: &str, source: io::Error) -> Self {
        Self::Io {
            doing: doing.to_owned(),
            source,
        }
    }

    /// What to do next, when there is something to do.
    #[must_use]
    pub fn next(&self) -> Option<String> {
        match self {
            damage if damage.is_damage() => Some(NEXT_FOR_DAMAGE.to_owned()),
            Self::Session(error) => error.next(),
            Self::Project(error) => Some(next_for_project(error).to_owned()),
            Self::NoMount { .. } => Some(SEE_DOCTOR.to_owned()),
            Self::Exits(error) => next_for_exits(error).map(str::to_owned),
            Self::Serve(ServeError::Journal(error)) => next_for_journal(error),
            Self::Serve(error) => next_for_serve(error).map(str::to_owned),
            Self::Sandbox(error) => next_for_sandbox(error).map(str::to_owned),
            Self::Told { next, .. } if !next.is_empty() => Some(next.clone()),
            Self::NobodyToAsk { .. } => Some("add `--yes` to agree beforehand".to_owned()),
            Self::Journal(error) => next_for_journal(error),
            Self::Io { .. } | Self::Told { .. } => None,
        }
    }

    /// Whether the record of a session is damaged.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        use JournalError::Damaged;
        match self {
            Self::Journal(Damaged { .. }) | Self::Serve(ServeError::Journal(Damaged { .. })) => {
                true
            }
            Self::Serve(ServeError::Overlay(error)) => matches!(
                error,
                OverlayError::Journal(Damaged { .. }) | OverlayError::Replay { .. }
            ),
            _ => false,
        }
    }

    /// The exit status of the process.
    #[must_use]
    pub const fn status(&self) -> u8 {
        match self {
            Self::Sandbox(SandboxError::CommandNotFound(_)) => NOT_FOUND,
            Self::Sandbox(SandboxError::CommandHidden(..)) => NOT_EXECUTABLE,
            _ => OWN_FAILURE,
        }
    }
}

fn next_for_journal(error: &JournalError) -> Option<String> {
    match error {
        JournalError::Io { source, .. } => next_for_system(source),
        _ => None,
    }
}

const fn next_for_project(error: &ProjectError) -> &'static str {
    match error {
        ProjectError::Nested(_) => "start it from a shell outside",
        ProjectError::NoCurrentDirectory(_) => "change to a directory that exists",
        ProjectError::Unreachable { .. } => "check that the path exists and that you may read it",
        ProjectError::Replaced { .. } => "put the old directory back, or discard the session",
        ProjectError::TooWide { .. } => "change to the folder of one project and start again",
        ProjectError::InSessions { .. } => {
            "work on the real project, or move this folder elsewhere"
        }
        ProjectError::HoldsSessions { .. } => "set `AEGIS_HOME` to a folder outside the project",
        ProjectError::FileSystem { .. } => "work on a copy of the project on a local disk",
    }
}

const fn next_for_exits(error: &ExitsError) -> Option<&'static str> {
    match error {
        ExitsError::Egress(EgressError::AllowEntry { .. }) => {
            Some("write it as HOST, HOST:PORT or .SUFFIX, in `--allow` or in `config.toml`")
        }
        ExitsError::Egress(EgressError::BaseUrl { .. } | EgressError::Key { .. }) => {
            Some("correct the variable in the environment that `aegis-os` is started from")
        }
        _ => None,
    }
}

fn next_for_serve(error: &ServeError) -> Option<&'static str> {
    match error {
        ServeError::Device(source) if source.kind() == io::ErrorKind::NotFound => Some(
            "load the module (`modprobe fuse`); in a container, start it with `--device /dev/fuse`",
        ),
        ServeError::Device(source) if source.kind() == io::ErrorKind::PermissionDenied => {
            Some("allow it (`chmod 0666 /dev/fuse`), as udev does on most systems")
        }
        ServeError::Repository(_) => {
            Some("`git rev-parse --git-dir` there shows what git makes of it; repair that first")
        }
        ServeError::Mount { .. } => Some(SEE_DOCTOR),
        ServeError::Overlay(OverlayError::NameTaken) => {
            Some("choose another name; `aegis-os snapshots` lists those that are taken")
        }
        ServeError::Gate(GateError::Policy(_)) => {
            Some("correct `policy.cedar` in `~/.aegis` (or in `AEGIS_HOME`)")
        }
        _ => None,
    }
}

fn next_for_sandbox(error: &SandboxError) -> Option<&'static str> {
    Some(match error {
        SandboxError::NoCommand => "name one: `aegis-os run -- COMMAND`",
        SandboxError::CommandNotFound(_) => "check the spelling, or give its whole path",
        SandboxError::NamespaceRefused { .. } | SandboxError::Bubblewrap(_) => SEE_DOCTOR,
        SandboxError::BubblewrapMissing => {
            "install it (`apt install bubblewrap`, `dnf install bubblewrap`)"
        }
        SandboxError::Path { .. } => "check that path, or leave it out",
        SandboxError::BubblewrapUntrusted(_) => "reinstall bubblewrap from your distribution",
        _ => return None,
    })
}
