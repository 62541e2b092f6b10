//! Where files and directories are on the host that a landing gave another name, and what landings
//! put there.
//!
//! The journal knows what the agent moved by the name that the host had for it. Once the move has
//! landed, the host has it under the new name. What has landed is on the
//! host as well: when the agent removes it, the host's must not show through in its place.

use std::borrow::Cow;
use std::collections::BTreeMap;

use aegis_policies::RelPath;
use serde::{Deserialize, Serialize};

/// The host's present names, by those of the journal, and what landings put on the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relocations {
    moves: Vec<Vec<(RelPath, RelPath)>>,
    /// When a landing that is in force put something there, in nanoseconds since the Unix epoch.
    landed: BTreeMap<RelPath, i64>,
}

impl Relocations {
    /// The relocations that `landings` make: of each, oldest first, the old and the new names.
    #[must_use]
    pub fn new(landings: Vec<Vec<(RelPath, RelPath)>>) -> Self {
        let moves = landings.into_iter().filter(|moves| !moves.is_empty());
        Self {
            moves: moves.collect(),
            landed: BTreeMap::new(),
        }
    }

    /// Adds the host's names under which landings in force have put something, and when
    /// (nanoseconds since the Unix epoch).
    #[must_use]
    pub fn with_landed(mut self, landed: impl IntoIterator<Item = (RelPath, i64)>) -> Self {
        self.landed.extend(landed);
        self
    }

    /// Whether everything is where the journal has it.
    pub(crate) const fn is_empty(&self) -> bool {
        self.moves.is_empty()
    }

    /// The host's names that landings have put something under.
    pub(crate) fn landed(&self) -> impl Iterator<Item = &RelPath> {
        self.landed.keys()
    }

    /// Whether what the host has as `path`, a name of the journal, landed before `at`.
    pub(crate) fn has_landed(&self, path: &RelPath, at: i64) -> bool {
        let landed = self.landed.get(&*self.locate(path));
        landed.is_some_and(|since| *since <= at)
    }

    /// The host's present name of what it once had as `path`.
    #[must_use]
    pub fn locate<'a>(&self, path: &'a RelPath) -> Cow<'a, RelPath> {
        let mut found = Cow::Borrowed(path);
        for moves in &self.moves {
            let nearest = moves.iter().filter(|(from, _)| found.starts_with(from));
            let nearest = nearest.max_by_key(|(from, _)| from.as_bytes().len());
            if let Some(moved) = nearest.and_then(|(from, to)| follow(&found, from, to)) {
                found = Cow::Owned(moved);
            }
        }
        found
    }
}

/// `path` with its beginning `from` replaced by `to`.
fn follow(path: &RelPath, from: &RelPath, to: &RelPath) -> Option<RelPath> {
    let rest = path.components().skip(from.components().count());
    rest.into_iter()
        .try_fold(to.clone(), |path, name| path.join(name).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_nearest_move_of_each_landing_counts() {
        let moves = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(from, to)| (path(from), path(to)))
                .collect::<Vec<_>>()
        };
        let relocations = Relocations::new(vec![
            moves(&[("a", "b"), ("a/x", "y")]),
            moves(&[]),
            moves(&[("b/c", "d")]),
        ]);
        let located = |text: &str| relocations.locate(&path(text)).to_string();
        assert_eq!(located("a/q"), "b/q");
        assert_eq!(located("a/x"), "y");
        assert_eq!(located("a/c/deep"), "d/deep");
        assert_eq!(located("ab"), "ab");
    }
}
