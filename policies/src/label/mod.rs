//! Labels: what kind of name a path is, from glob tables that are data.

mod detour;
mod labeler;

use serde::{Deserialize, Serialize};

pub use detour::Detour;
pub use labeler::{Labeler, Repository};

/// One kind of name.
///
/// Journals hold the number of a label: a new one goes to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Label {
    /// Holds credentials.
    Secret,
    /// Runs on a build server.
    Ci,
    /// Runs when the project is built.
    BuildScript,
    /// Runs on the person's machine outside the sandbox: editor tasks, direnv, hooks.
    RunsLater,
    /// Configures an agent.
    AgentConfig,
    /// Lies in the version control directory.
    Vcs,
    /// A version control name that git would execute, or that redirects git.
    VcsLocked,
    /// A name that git writes inside, and that would redirect git or run on the host.
    VcsRedirect,
    /// Lies in a repository of its own inside the project.
    VcsNested,
    /// A directory that holds locked or secret names; it may not be moved or replaced.
    Anchor,
    /// Pins dependencies.
    Lockfile,
    /// Is not text.
    Binary,
    /// A document.
    Document,
    /// A data file.
    Data,
    /// Made by a tool.
    Generated,
    /// Copied from elsewhere.
    Vendored,
}

impl Label {
    /// Every label, for tables and tests.
    pub const ALL: [Self; 16] = [
        Self::Secret,
        Self::Ci,
        Self::BuildScript,
        Self::RunsLater,
        Self::AgentConfig,
        Self::Vcs,
        Self::VcsLocked,
        Self::VcsRedirect,
        Self::VcsNested,
        Self::Anchor,
        Self::Lockfile,
        Self::Binary,
        Self::Document,
        Self::Data,
        Self::Generated,
        Self::Vendored,
    ];

    /// The name used in policies and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::Ci => "ci",
            Self::BuildScript => "build-script",
            Self::RunsLater => "runs-later",
            Self::AgentConfig => "agent-config",
            Self::Vcs => "vcs",
            Self::VcsLocked => "vcs-locked",
            Self::VcsRedirect => "vcs-redirect",
            Self::VcsNested => "vcs-nested",
            Self::Anchor => "anchor",
            Self::Lockfile => "lockfile",
            Self::Binary => "binary",
            Self::Document => "document",
            Self::Data => "data",
            Self::Generated => "generated",
            Self::Vendored => "vendored",
        }
    }
}

/// A set of labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Labels(u32);

impl Labels {
    /// No label.
    pub const NONE: Self = Self(0);

    /// The set with `label` removed.
    #[must_use]
    pub const fn without(self, label: Label) -> Self {
        Self(self.0 & !(1 << label as u8))
    }

    /// The labels of either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The set with `label` added.
    #[must_use]
    pub const fn with(self, label: Label) -> Self {
        Self(self.0 | (1 << label as u8))
    }

    /// Whether `label` is in the set.
    #[must_use]
    pub const fn has(self, label: Label) -> bool {
        self.0 & (1 << label as u8) != 0
    }

    /// The labels in the set.
    pub fn iter(self) -> impl Iterator<Item = Label> {
        Label::ALL.into_iter().filter(move |label| self.has(*label))
    }
}
