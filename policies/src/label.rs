//! Labels: what kind of name a path is, from glob tables that are data.

use std::borrow::Cow;
use std::collections::BTreeMap;

use globset::{Candidate, Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};

use crate::path::RelPath;
use crate::tables::TableError;

/// One kind of name.
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

/// Whether the real project is a git repository.
///
/// Where it is not, `git init` at the root must work, so the root's `.git` is then treated as a
/// nested one: free inside, refused by a landing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repository {
    /// The project root has a `.git`.
    Present,
    /// It has none.
    Absent,
}

/// Finds the labels of a path; one compiled glob set for all tables.
#[derive(Debug)]
pub struct Labeler {
    set: GlobSet,
    effects: Vec<Mark>,
    repository: Repository,
}

/// What a matching glob does to the set of labels.
#[derive(Clone, Copy, Debug)]
enum Mark {
    Gives(Label),
    Takes(Label),
}

/// One label's table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    names: Vec<Name>,
    #[serde(default)]
    except: Vec<Name>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Name {
    glob: String,
    /// Read by people, and demanded of every line.
    #[serde(rename = "reason")]
    _reason: String,
}

impl Labeler {
    /// The labeler of the built-in tables, for a project that is a repository or not.
    ///
    /// # Errors
    /// [`TableError`] when the tables are not valid, which a test excludes.
    pub fn embedded(repository: Repository) -> Result<Self, TableError> {
        Self::parse(include_str!("../tables/labels.toml"), repository)
    }

    /// The labels of `path`, and so of everything below a labelled directory.
    #[must_use]
    pub fn labels(&self, path: &RelPath) -> Labels {
        let labels = self.matches(path.as_bytes());
        let labels = match fold(path.as_bytes()) {
            Some(folded) => labels.union(self.matches(folded.as_bytes())),
            None => labels,
        };
        match self.repository {
            Repository::Present => labels,
            Repository::Absent => as_if_nested(path, labels),
        }
    }

    fn parse(source: &str, repository: Repository) -> Result<Self, TableError> {
        let tables: BTreeMap<Label, Table> =
            toml::from_str(source).map_err(|error| TableError::toml("labels", error))?;
        let mut set = GlobSetBuilder::new();
        let mut effects = Vec::new();
        for (label, table) in tables {
            let gives = table.names.iter().map(|name| (name, Mark::Gives(label)));
            let takes = table.except.iter().map(|name| (name, Mark::Takes(label)));
            for (name, mark) in gives.chain(takes) {
                for glob in name.globs()? {
                    set.add(glob);
                    effects.push(mark);
                }
            }
        }
        let set = set
            .build()
            .map_err(|error| TableError::glob("labels", &error))?;
        Ok(Self {
            set,
            effects,
            repository,
        })
    }

    fn matches(&self, path: &[u8]) -> Labels {
        let (mut given, mut taken) = (Labels::NONE, Labels::NONE);
        for index in self.set.matches_candidate(&Candidate::from_bytes(path)) {
            match self.effects.get(index) {
                Some(Mark::Gives(label)) => given = given.with(*label),
                Some(Mark::Takes(label)) => taken = taken.with(*label),
                None => {}
            }
        }
        taken.iter().fold(given, Labels::without)
    }
}

impl Name {
    /// The name itself and, for a directory, everything below it.
    fn globs(&self) -> Result<Vec<Glob>, TableError> {
        let build = |glob: &str| {
            GlobBuilder::new(glob)
                .literal_separator(true)
                .case_insensitive(true)
                .backslash_escape(true)
                .build()
                .map_err(|error| TableError::glob("labels", &error))
        };
        match self.glob.strip_suffix('/') {
            Some(directory) => Ok(vec![build(directory)?, build(&format!("{directory}/**"))?]),
            None => Ok(vec![build(&self.glob)?]),
        }
    }
}

/// The path as a file system that folds case (ext4 `casefold`, APFS, HFS+) may take it, when it
/// differs by more than ASCII case: HFS+ drops code points that show nothing, and Unicode folds
/// U+212A to `k` and U+017F to `s`.
fn fold(path: &[u8]) -> Option<String> {
    if path.is_ascii() {
        return None;
    }
    let text: Cow<'_, str> = String::from_utf8_lossy(path);
    let visible = text.chars().filter(|character| !is_ignorable(*character));
    let folded = visible.flat_map(char::to_lowercase);
    Some(
        folded
            .map(|character| {
                if character == '\u{17f}' {
                    's'
                } else {
                    character
                }
            })
            .collect(),
    )
}

/// The code points that HFS+ ignores in names; git refuses `.git` written with them for the same
/// reason (CVE-2014-9390).
const fn is_ignorable(character: char) -> bool {
    matches!(character, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

/// The labels of a name under the root's `.git` when that is not the project's own repository.
fn as_if_nested(path: &RelPath, labels: Labels) -> Labels {
    let in_git = path
        .components()
        .next()
        .is_some_and(|name| name.eq_ignore_ascii_case(b".git"));
    if !in_git {
        return labels;
    }
    labels
        .without(Label::VcsLocked)
        .without(Label::Anchor)
        .with(Label::VcsNested)
}
