//! Ways to the project's repository beside `.git`.
//!
//! `.git` may be a link, or a file that names a directory; and a name in that directory may be a link
//! again. What git executes then lies under another name, and is locked under that one as well.

use crate::fold::fold;
use crate::path::RelPath;

/// A name in the project that git takes for one at or below `.git`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detour {
    /// Where it lies; the root when the project's own directory is the repository.
    pub place: RelPath,
    /// What it is to git: `.git`, or a name below.
    pub stands_for: RelPath,
}

/// A detour in the one spelling that paths are compared in.
#[derive(Debug)]
pub(super) struct Folded {
    place: Vec<u8>,
    stands_for: Vec<u8>,
}

/// Where a path lies, seen from a detour.
pub(super) enum View {
    /// At its place or below; with the name that this is to git.
    Inside(Vec<u8>),
    /// On the way to it: a directory that must not be moved or replaced.
    Above,
    /// Anywhere else.
    Beside,
}

impl From<&Detour> for Folded {
    fn from(detour: &Detour) -> Self {
        Self {
            place: fold(detour.place.as_bytes()),
            stands_for: fold(detour.stands_for.as_bytes()),
        }
    }
}

impl Folded {
    /// Where the lower-case `path` lies.
    pub(super) fn view(&self, path: &[u8]) -> View {
        match below(&self.place, path) {
            Some([]) => View::Inside(self.stands_for.clone()),
            Some(rest) => View::Inside([&self.stands_for, b"/".as_slice(), rest].concat()),
            None if below(path, &self.place).is_some() => View::Above,
            None => View::Beside,
        }
    }
}

/// The part of `path` below `directory`; empty when they are the same.
fn below<'a>(directory: &[u8], path: &'a [u8]) -> Option<&'a [u8]> {
    if directory.is_empty() {
        return Some(path);
    }
    match path.strip_prefix(directory)? {
        [] => Some(&[]),
        [b'/', rest @ ..] => Some(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::{Label, Labeler, Labels, Repository};

    fn labels(detours: &[(&str, &str)], path: &str) -> Labels {
        let parse = |text: &str| RelPath::parse(text.as_bytes()).unwrap();
        let detours: Vec<_> = detours
            .iter()
            .map(|(place, stands_for)| Detour {
                place: parse(place),
                stands_for: parse(stands_for),
            })
            .collect();
        let labeler = Labeler::embedded(Repository::Present).unwrap();
        labeler.with_detours(&detours).labels(&parse(path))
    }

    #[test]
    fn a_repository_under_another_name_is_locked_like_one_in_dot_git() {
        let detours = [("a/Store", ".git"), ("scripts", ".git/hooks")];
        for path in [
            "a/Store",
            "a/store/config",
            "a/STORE/hooks/pre-commit",
            "a/\u{17f}tore/con\u{fb01}g",
            "a/Store/commondir",
            "a/Store/objects/info/alternates",
            "a/Store/modules/x/config",
            "scripts",
            "scripts/pre-commit",
            ".git/config",
        ] {
            assert!(labels(&detours, path).has(Label::VcsLocked), "{path}");
        }
        for path in ["a/Store/index", "a/Store/refs/heads/x", "a/Store/HEAD"] {
            let labels = labels(&detours, path);
            assert!(
                !labels.has(Label::VcsLocked) && labels.has(Label::Vcs),
                "{path}"
            );
            assert!(labels.has(Label::VcsRedirect), "{path}");
        }
        for path in [
            "a/Storehouse/config",
            "b/Store/config",
            "a/config",
            "config",
        ] {
            assert!(!labels(&detours, path).has(Label::VcsLocked), "{path}");
        }
    }

    #[test]
    fn the_way_to_it_is_not_moved() {
        let detours = [("a/b/store", ".git")];
        for path in ["a", "A/B", "a/b/store", "a/b/store/info"] {
            assert!(labels(&detours, path).has(Label::Anchor), "{path}");
        }
        assert!(!labels(&detours, "a/c").has(Label::Anchor));
        assert!(!labels(&[], "a").has(Label::Anchor));
    }

    #[test]
    fn the_project_itself_may_be_the_repository() {
        let detours = [("", ".git")];
        assert!(labels(&detours, "config").has(Label::VcsLocked));
        assert!(labels(&detours, "hooks/pre-push").has(Label::VcsLocked));
        assert!(!labels(&detours, "source/config").has(Label::VcsLocked));
    }
}
