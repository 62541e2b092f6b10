//! The places of the sandbox, at most one thing at each, parents before children.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::mount::{Access, Kind, Mount, Source, What};

/// As many links as the kernel follows (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// A file system under construction. Paths sort by component, so a parent comes before what is
/// mounted inside it.
#[derive(Debug, Default)]
pub(super) struct Layers(BTreeMap<PathBuf, What>);

impl Layers {
    /// Puts something at a place, instead of what was there.
    pub(super) fn put(&mut self, at: &Path, what: What) {
        self.0.insert(at.to_owned(), what);
    }

    /// Puts a host path there, read-only.
    pub(super) fn show(&mut self, at: &Path, real: &Path, kind: Kind) {
        let from = Source::Host(real.to_owned());
        self.put(
            at,
            What::Bind {
                from,
                access: Access::ReadOnly,
                kind,
            },
        );
    }

    /// Takes away everything at and below a place.
    pub(super) fn clear(&mut self, place: &Path) {
        self.0.retain(|at, _| !at.starts_with(place));
    }

    /// Whether the host's own content is visible at a path.
    pub(super) fn shows(&self, path: &Path) -> bool {
        self.shows_after(path.to_owned(), MOST_LINKS)
    }

    /// Whether an empty file was placed over one of the host.
    pub(super) fn covers(&self, path: &Path) -> bool {
        self.0.get(path) == Some(&What::Empty)
    }

    /// Whether something was placed directly in a directory.
    pub(super) fn holds_child_of(&self, directory: &Path) -> bool {
        self.0.keys().any(|at| at.parent() == Some(directory))
    }

    /// The mounts in the order in which they are to be made.
    pub(super) fn into_mounts(self) -> Vec<Mount> {
        self.0
            .into_iter()
            .map(|(at, what)| Mount { at, what })
            .collect()
    }

    fn shows_after(&self, path: PathBuf, links_left: usize) -> bool {
        let nearest = path
            .ancestors()
            .find_map(|at| self.0.get(at).map(|what| (at, what)));
        match nearest {
            Some((_, What::Bind { from, .. })) => {
                matches!(from, Source::Host(_) | Source::View | Source::Binary)
            }
            Some((at, What::Link(target))) if links_left > 0 => {
                let folder = at.parent().unwrap_or(Path::new("/"));
                let rest = path.strip_prefix(at).unwrap_or(Path::new(""));
                self.shows_after(flatten(&folder.join(target).join(rest)), links_left - 1)
            }
            _ => false,
        }
    }
}

/// Takes `..` away by name, which is right where no component is a link: our own links are in
/// directories that we made.
fn flatten(path: &Path) -> PathBuf {
    let mut flat = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::ParentDir => {
                flat.pop();
            }
            Component::Normal(name) => flat.push(name),
            _ => {}
        }
    }
    flat
}
