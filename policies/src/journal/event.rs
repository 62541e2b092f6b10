//! What an entry can say.

use serde::{Deserialize, Serialize};

use super::Seq;
use super::shadow::ShadowOp;
use crate::effect::{Effect, Kind};
use crate::label::Labels;
use crate::path::RelPath;

/// Names a decision that an earlier [`Event::Verdict`] entry spells out; 0 is "no decision needed".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VerdictId(pub u32);

/// One entry of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Nanoseconds since the Unix epoch.
    pub at: u64,
    /// The process as the host numbers it; 0 for the launcher itself.
    pub pid: u32,
    /// The decision that allowed it.
    pub verdict: VerdictId,
    /// What happened.
    pub event: Event,
}

/// What happened.
///
/// Journals hold the number of a variant and its fields in order: a new variant goes to the end, and
/// the fields of one that has been released stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[expect(
    clippy::large_enum_variant,
    reason = "the largest variant is also the most frequent one"
)]
pub enum Event {
    /// A run of the session began.
    Started {
        /// The command and its arguments, as bytes.
        command: Vec<Vec<u8>>,
    },
    /// A run of the session ended with this exit status (128+n for signal n).
    Ended {
        /// The status.
        status: i32,
    },
    /// A process was seen for the first time.
    Process {
        /// The path of its executable; empty when it can not be known.
        exe: Vec<u8>,
    },
    /// A decision was made for the first time; later entries name it by `id`.
    Verdict {
        /// The id that later entries use.
        id: VerdictId,
        /// What was judged.
        kind: Kind,
        /// The class of the scope.
        class: String,
        /// The labels of the scope.
        labels: Labels,
        /// Whether it was allowed.
        outcome: Outcome,
        /// The policies that decided.
        policies: Vec<String>,
    },
    /// The shadow changed. These entries are the state of the file system.
    Shadow(ShadowOp),
    /// A file was opened for reading for the first time by this process.
    Read {
        /// The file.
        path: RelPath,
    },
    /// A handle that wrote was closed.
    Written {
        /// The file.
        path: RelPath,
        /// Bytes written through the handle.
        bytes: u64,
        /// The size of the file now, in bytes.
        size: u64,
    },
    /// An effect was refused.
    Refused {
        /// What was wanted.
        effect: Effect,
    },
    /// A connection was tunnelled and is closed.
    Tunnel {
        /// The host name.
        host: String,
        /// The port.
        port: u16,
        /// Bytes from the agent.
        sent: u64,
        /// Bytes to the agent.
        received: u64,
        /// How long it lasted, in milliseconds.
        millis: u64,
    },
    /// A request went through the reverse proxy and is answered.
    Request {
        /// The upstream.
        upstream: String,
        /// The method.
        method: String,
        /// The path without the query.
        path: String,
        /// The HTTP status that came back; 0 when none did.
        status: u16,
        /// Body bytes from the agent.
        sent: u64,
        /// Body bytes to the agent.
        received: u64,
        /// How long it lasted, in milliseconds.
        millis: u64,
    },
    /// A landing (or the reversal of one) changed the real project.
    Landed {
        /// The landing's id.
        landing: String,
        /// The SHA-256 of the approved manifest, in hexadecimal.
        manifest: String,
        /// How many paths changed.
        paths: u64,
        /// Whether this reversed an earlier landing.
        undo: bool,
    },
    /// Policy had no word against it, but the door that carries it out stopped it.
    Blocked {
        /// What was wanted.
        effect: Effect,
        /// Why it was stopped.
        reason: String,
    },
    /// Something that can not be taken back begins: it is on record before it happens, and with
    /// what became of it in a later entry.
    Begun {
        /// What is done.
        effect: Effect,
    },
    /// The shadow as it is after this entry can be gone back to; its generation goes up by one.
    Snapshot {
        /// What a person called it.
        name: Option<String>,
        /// Why it was taken.
        cause: SnapshotCause,
    },
    /// The shadow became what it was after an earlier entry; its generation goes up by one.
    Rewound {
        /// The number of that entry.
        to: Seq,
    },
}

impl Event {
    /// The name used in the text form and in messages.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Started { .. } => "started",
            Self::Ended { .. } => "ended",
            Self::Process { .. } => "process",
            Self::Verdict { .. } => "verdict",
            Self::Shadow(_) => "shadow",
            Self::Read { .. } => "read",
            Self::Written { .. } => "written",
            Self::Refused { .. } => "refused",
            Self::Tunnel { .. } => "tunnel",
            Self::Request { .. } => "request",
            Self::Landed { .. } => "landed",
            Self::Blocked { .. } => "blocked",
            Self::Begun { .. } => "begun",
            Self::Snapshot { .. } => "snapshot",
            Self::Rewound { .. } => "rewound",
        }
    }
}

/// Why a snapshot was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SnapshotCause {
    /// Somebody asked for it.
    Requested,
    /// A run began.
    Started,
    /// A run ended.
    Ended,
    /// There were changes, and then for a while there were none.
    Quiet,
    /// A landing is about to begin.
    Landing,
    /// The agent made a commit.
    Commit,
    /// The shadow is about to be rewound.
    Rewind,
}

impl SnapshotCause {
    /// Every cause, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Requested,
        Self::Started,
        Self::Ended,
        Self::Quiet,
        Self::Landing,
        Self::Commit,
        Self::Rewind,
    ];

    /// The name used in the journal's text form.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Started => "run-started",
            Self::Ended => "run-ended",
            Self::Quiet => "quiet",
            Self::Landing => "before-landing",
            Self::Commit => "commit",
            Self::Rewind => "before-rewind",
        }
    }

    /// Whether nobody asked for it, so that it may make room for a newer one.
    #[must_use]
    pub const fn is_automatic(self) -> bool {
        !matches!(self, Self::Requested)
    }
}

/// What the gate said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// It may happen.
    Allow,
    /// A person may allow it.
    Ask,
    /// It may not happen.
    Deny,
}

impl Outcome {
    /// The name used in the journal's text form.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}
