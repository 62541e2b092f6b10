//! The vocabulary: what a session can do to the world, as plain values.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::label::Labels;
use crate::path::{RelPath, escape};

/// What is done.
///
/// Journals hold the number of a kind: a new one goes to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Kind {
    /// Reading the content of a file.
    FsRead,
    /// Changing the content of a file.
    FsWrite,
    /// Making a name.
    FsCreate,
    /// Removing a name.
    FsRemove,
    /// Moving a name.
    FsRename,
    /// Adding a link: a further name for a file, or a symbolic link.
    FsLink,
    /// Changing mode, owner, times or extended attributes.
    FsMeta,
    /// Starting a program.
    Exec,
    /// Opening a connection.
    NetConnect,
    /// One HTTP request that the proxy can read.
    NetRequest,
    /// Asking for the address of a name.
    DnsQuery,
    /// Adding a credential that the agent never sees to a request.
    SecretInject,
    /// Taking a snapshot of the shadow.
    WorkspaceSnapshot,
    /// Landing a change in the real project.
    WorkspaceCommit,
    /// Landing a change that a person's own tools will execute or trust.
    WorkspaceCommitSensitive,
    /// Reading outside the project.
    WorkspaceReadOutside,
    /// Changing the configuration of an agent.
    AgentConfigWrite,
    /// Claiming a name among several agents.
    CoordClaim,
    /// Publishing an artifact.
    ArtifactPublish,
}

impl Kind {
    /// Every kind, for tables and tests.
    pub const ALL: [Self; 19] = [
        Self::FsRead,
        Self::FsWrite,
        Self::FsCreate,
        Self::FsRemove,
        Self::FsRename,
        Self::FsLink,
        Self::FsMeta,
        Self::Exec,
        Self::NetConnect,
        Self::NetRequest,
        Self::DnsQuery,
        Self::SecretInject,
        Self::WorkspaceSnapshot,
        Self::WorkspaceCommit,
        Self::WorkspaceCommitSensitive,
        Self::WorkspaceReadOutside,
        Self::AgentConfigWrite,
        Self::CoordClaim,
        Self::ArtifactPublish,
    ];

    /// The name used in policies, in the journal's text form and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FsRead => "fs.read",
            Self::FsWrite => "fs.write",
            Self::FsCreate => "fs.create",
            Self::FsRemove => "fs.remove",
            Self::FsRename => "fs.rename",
            Self::FsLink => "fs.link",
            Self::FsMeta => "fs.meta",
            Self::Exec => "exec",
            Self::NetConnect => "net.connect",
            Self::NetRequest => "net.request",
            Self::DnsQuery => "dns.query",
            Self::SecretInject => "secret.inject",
            Self::WorkspaceSnapshot => "workspace.snapshot",
            Self::WorkspaceCommit => "workspace.commit",
            Self::WorkspaceCommitSensitive => "workspace.commit_sensitive",
            Self::WorkspaceReadOutside => "workspace.read_outside",
            Self::AgentConfigWrite => "agent.config_write",
            Self::CoordClaim => "coord.claim",
            Self::ArtifactPublish => "artifact.publish",
        }
    }

    /// Whether anything is judged as this kind. The names of the others are kept for later, and a
    /// rule about them would never apply.
    #[must_use]
    pub const fn is_judged(self) -> bool {
        match self {
            Self::FsRead
            | Self::FsWrite
            | Self::FsCreate
            | Self::FsRemove
            | Self::FsRename
            | Self::FsLink
            | Self::FsMeta
            | Self::NetConnect
            | Self::NetRequest
            | Self::SecretInject
            | Self::WorkspaceCommit
            | Self::WorkspaceCommitSensitive => true,
            Self::Exec
            | Self::DnsQuery
            | Self::WorkspaceSnapshot
            | Self::WorkspaceReadOutside
            | Self::AgentConfigWrite
            | Self::CoordClaim
            | Self::ArtifactPublish => false,
        }
    }
}

/// What it takes to take an effect back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Reversibility {
    /// A snapshot of the shadow covers it.
    Reversible,
    /// A landing that `undo` can reverse.
    Compensable,
    /// Bytes that left the machine.
    Irreversible,
}

impl Reversibility {
    /// The name used in policies and in the journal's text form.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reversible => "reversible",
            Self::Compensable => "compensable",
            Self::Irreversible => "irreversible",
        }
    }
}

/// What is touched.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Scope {
    /// A name in the shadow of the project.
    Shadow {
        /// The name.
        path: RelPath,
        /// What kind of name it is.
        labels: Labels,
    },
    /// A name in the real project, touched by a landing.
    Project {
        /// The name.
        path: RelPath,
        /// What kind of name it is.
        labels: Labels,
    },
    /// A host and port on the network.
    Endpoint {
        /// The canonical host name, or a literal address.
        host: String,
        /// The TCP port.
        port: u16,
        /// Whether the user's own configuration or command line lists it.
        listed: bool,
    },
    /// A request to a configured upstream of the reverse proxy.
    Request {
        /// The upstream's name, such as `anthropic`.
        upstream: String,
        /// The HTTP method.
        method: String,
        /// The path, without the query.
        path: String,
    },
}

impl Scope {
    /// The class of the scope, as policies name it.
    #[must_use]
    pub const fn class(&self) -> &'static str {
        match self {
            Self::Shadow { .. } => "shadow",
            Self::Project { .. } => "project",
            Self::Endpoint { .. } => "endpoint",
            Self::Request { .. } => "request",
        }
    }

    /// The labels; empty for what is not a path.
    #[must_use]
    pub const fn labels(&self) -> Labels {
        match self {
            Self::Shadow { labels, .. } | Self::Project { labels, .. } => *labels,
            Self::Endpoint { .. } | Self::Request { .. } => Labels::NONE,
        }
    }
}

/// What is touched, safe to print (see [`escape`]).
impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shadow { path, .. } | Self::Project { path, .. } => path.fmt(formatter),
            Self::Endpoint { host, port, .. } => {
                write!(formatter, "{}:{port}", escape(host.as_bytes()))
            }
            Self::Request {
                upstream,
                method,
                path,
            } => {
                let request = format!("{upstream} {method} {path}");
                formatter.write_str(&escape(request.as_bytes()))
            }
        }
    }
}

/// Who does it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Actor {
    /// The agent's name, such as `claude` or the base name of the command.
    pub agent: Arc<str>,
    /// The process as the host numbers it; 0 when it is not known.
    pub pid: u32,
}

/// One thing that a session wants to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Effect {
    /// What is done.
    pub kind: Kind,
    /// What is touched.
    pub scope: Scope,
    /// What it takes to take it back.
    pub reversibility: Reversibility,
}

impl Effect {
    /// An effect inside the shadow; a snapshot covers it.
    #[must_use]
    pub const fn shadow(kind: Kind, path: RelPath, labels: Labels) -> Self {
        Self {
            kind,
            scope: Scope::Shadow { path, labels },
            reversibility: Reversibility::Reversible,
        }
    }
}
