//! Labels from glob tables.

use std::borrow::Cow;
use std::collections::BTreeMap;

use globset::{Candidate, Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use serde::Deserialize;

use super::detour::{Detour, Folded, View};
use super::{Label, Labels};
use crate::fold::fold;
use crate::path::RelPath;
use crate::tables::TableError;

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
    marks: Vec<Mark>,
    repository: Repository,
    detours: Vec<Folded>,
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
        Self::parse(include_str!("../../tables/labels.toml"), repository)
    }

    /// The same labeler for a project whose repository is found by `detours` as well.
    #[must_use]
    pub fn with_detours(mut self, detours: &[Detour]) -> Self {
        self.detours = detours.iter().map(Folded::from).collect();
        self
    }

    /// The labels of `path`, and so of everything below a labelled directory.
    #[must_use]
    pub fn labels(&self, path: &RelPath) -> Labels {
        let bytes = path.as_bytes();
        let mut labels = self.spelled(&lower(bytes));
        if !bytes.is_ascii() {
            labels = labels.union(self.spelled(&fold(bytes)));
        }
        match self.repository {
            Repository::Present => labels,
            Repository::Absent => as_if_nested(path, labels),
        }
    }

    fn parse(source: &str, repository: Repository) -> Result<Self, TableError> {
        let tables: BTreeMap<Label, Table> =
            toml::from_str(source).map_err(|error| TableError::toml("labels", &error))?;
        let mut set = GlobSetBuilder::new();
        let mut marks = Vec::new();
        for (label, table) in tables {
            let gives = table.names.iter().map(|name| (name, Mark::Gives(label)));
            let takes = table.except.iter().map(|name| (name, Mark::Takes(label)));
            for (name, mark) in gives.chain(takes) {
                for glob in name.globs()? {
                    set.add(glob);
                    marks.push(mark);
                }
            }
        }
        let set = set
            .build()
            .map_err(|error| TableError::glob("labels", &error))?;
        Ok(Self {
            set,
            marks,
            repository,
            detours: Vec::new(),
        })
    }

    /// The labels of a path in one spelling: its own, and those that detours give it.
    fn spelled(&self, path: &[u8]) -> Labels {
        let own = self.matches(path);
        self.detours.iter().fold(own, |labels, detour| {
            labels.union(match detour.view(path) {
                View::Inside(name) => self.matches(&name).with(Label::VcsRedirect),
                View::Above => Labels::NONE.with(Label::Anchor),
                View::Beside => Labels::NONE,
            })
        })
    }

    fn matches(&self, path: &[u8]) -> Labels {
        let (mut given, mut taken) = (Labels::NONE, Labels::NONE);
        for index in self.set.matches_candidate(&Candidate::from_bytes(path)) {
            match self.marks.get(index) {
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
        match self.glob.strip_suffix('/') {
            Some(directory) => Ok(vec![
                compile(directory)?,
                compile(&format!("{directory}/**"))?,
            ]),
            None => Ok(vec![compile(&self.glob)?]),
        }
    }
}

/// Globs and paths are both in lower case: a set that ignored case itself could not look plain
/// names and suffixes up in a table, and would try a thousand patterns one by one.
fn compile(glob: &str) -> Result<Glob, TableError> {
    GlobBuilder::new(&glob.to_ascii_lowercase())
        .literal_separator(true)
        .build()
        .map_err(|error| TableError::glob("labels", &error))
}

fn lower(path: &[u8]) -> Cow<'_, [u8]> {
    if path.iter().any(u8::is_ascii_uppercase) {
        Cow::Owned(path.to_ascii_lowercase())
    } else {
        Cow::Borrowed(path)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn labels_in(repository: Repository, path: &[u8]) -> Labels {
        thread_local! {
            static LABELERS: [Labeler; 2] = [Repository::Present, Repository::Absent]
                .map(|repository| Labeler::embedded(repository).unwrap());
        }
        let path = RelPath::parse(path).unwrap();
        LABELERS
            .with(|labelers| labelers[usize::from(repository == Repository::Absent)].labels(&path))
    }

    fn has(path: impl AsRef<[u8]>, label: Label) -> bool {
        labels_in(Repository::Present, path.as_ref()).has(label)
    }

    #[test]
    fn exceptions_name_a_last_component_only() {
        let tables: BTreeMap<Label, Table> =
            toml::from_str(include_str!("../../tables/labels.toml")).unwrap();
        for name in tables.values().flat_map(|table| &table.except) {
            let last = name.glob.strip_prefix("**/").unwrap();
            assert!(!last.contains('/'), "{}", name.glob);
        }
    }

    #[test]
    fn every_label_has_a_table_and_every_line_a_reason() {
        let tables: BTreeMap<Label, Table> =
            toml::from_str(include_str!("../../tables/labels.toml")).unwrap();
        for label in Label::ALL {
            assert!(tables.contains_key(&label), "{}", label.name());
        }
        for name in tables
            .values()
            .flat_map(|table| table.names.iter().chain(&table.except))
        {
            assert!(!name._reason.is_empty(), "{}", name.glob);
        }
    }

    #[test]
    fn locks_what_git_runs_or_follows() {
        for path in [
            ".git",
            ".git/config",
            ".git/config.lock",
            ".git/hooks",
            ".git/hooks/pre-commit",
            ".git/hooks/a/b",
            ".git/info/attributes",
            ".git/objects/info/alternates",
            ".git/commondir",
            ".git/modules/lib/config",
            ".git/modules/a/b/hooks/post-checkout",
            ".git/worktrees/x/config.worktree",
            ".GIT/Config",
            ".git/HOOKS/pre-push",
        ] {
            assert!(has(path, Label::VcsLocked), "{path}");
        }
    }

    #[test]
    fn leaves_free_what_git_needs_to_work() {
        for path in [
            ".git/index",
            ".git/index.lock",
            ".git/HEAD",
            ".git/refs/heads/main",
            ".git/logs/HEAD",
            ".git/COMMIT_EDITMSG",
            ".git/objects/ab/cdef",
            ".git/objects/pack/pack-1.idx",
            ".git/packed-refs",
            ".git/ORIG_HEAD",
            ".git/worktrees/x/HEAD",
            ".git/worktrees/x/commondir",
            ".git/rebase-merge/git-rebase-todo",
            "sub/.git/config",
            "sub/.git/hooks/pre-commit",
            "config",
            "hooks/pre-commit",
        ] {
            assert!(!has(path, Label::VcsLocked), "{path}");
        }
        assert!(has("sub/.git/config", Label::VcsNested));
        assert!(has("a/b/.git", Label::VcsNested));
        assert!(!has(".git/index", Label::VcsNested));
        assert!(has(".git/worktrees/x/commondir", Label::VcsRedirect));
    }

    #[test]
    fn sees_through_spellings_that_some_file_systems_fold() {
        for path in [
            ".g\u{200c}it/config",
            ".git/hoo\u{212a}s/pre-commit",
            ".git/commondir\u{feff}",
            ".git/hook\u{17f}/pre-commit",
            ".git/con\u{fb01}g",
            ".g\u{ad}it/config",
            ".gi\u{3164}t/ho\u{fe0f}oks/x",
            ".git/inf\u{e0100}o/attributes",
        ] {
            assert!(has(path, Label::VcsLocked), "{path}");
        }
        assert!(has(b".git/hooks/\xff\n", Label::VcsLocked));
        assert!(has(b"a\nb/\xff/.env", Label::Secret));
    }

    #[test]
    fn a_project_without_a_repository_may_make_one_inside() {
        let labels = labels_in(Repository::Absent, b".git/config");
        assert!(!labels.has(Label::VcsLocked) && labels.has(Label::VcsNested));
        assert!(!labels_in(Repository::Absent, b".git").has(Label::Anchor));
        assert!(labels_in(Repository::Absent, b".claude").has(Label::Anchor));
    }

    #[test]
    fn templates_of_secrets_are_none() {
        for path in [
            ".env",
            "api/.env.local",
            "prod.env",
            "a/.aws/credentials",
            "id_ed25519",
        ] {
            assert!(has(path, Label::Secret), "{path}");
        }
        for path in [
            ".env.example",
            "a/.env.local.example",
            "id_ed25519.pub",
            "env.ts",
            "cacert.pem",
        ] {
            assert!(!has(path, Label::Secret), "{path}");
        }
    }

    #[test]
    fn directories_of_locked_and_secret_names_are_anchors() {
        let tables: BTreeMap<Label, Table> =
            toml::from_str(include_str!("../../tables/labels.toml")).unwrap();
        let locked = [Label::VcsLocked, Label::AgentConfig, Label::Secret];
        for name in locked.iter().flat_map(|label| &tables[label].names) {
            // A directory of any name may lie below `.git/modules`; git itself renames there.
            let glob = name
                .glob
                .trim_end_matches('/')
                .replace(".git/modules/**/", ".git/modules/x/");
            let glob = glob.strip_prefix("**/").unwrap_or(&glob).replace('*', "x");
            let Some((directory, _)) = glob.rsplit_once('/') else {
                continue;
            };
            if directory.starts_with(".git/modules/x/") || directory == "config" {
                continue;
            }
            assert!(
                has(directory, Label::Anchor),
                "{directory} of {}",
                name.glob
            );
        }
    }
}
