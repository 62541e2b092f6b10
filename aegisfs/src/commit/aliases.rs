//! Names that a link of the host's gives another, sensitive name: what lands as `real.txt` is run as
//! `Makefile` when the host has `Makefile -> real.txt`.

use std::collections::{BTreeMap, BTreeSet};

use aegis_policies::{Labels, RelPath};

use super::beneath::Tree;
use super::item::{Item, is_sensitive};
use super::links;

/// Gives items the labels of the sensitive names by which the host's links lead to them. The links
/// in the project's folder and in those above each item are read; one elsewhere is not found.
pub(crate) fn label(tree: Tree<'_>, items: &mut [Item], labels: &dyn Fn(&RelPath) -> Labels) {
    let aliases = aliases(tree, items);
    for item in items.iter_mut().filter(|_| !aliases.is_empty()) {
        for place in above(&item.path).chain([item.path.clone()]) {
            for alias in aliases.get(&place).into_iter().flatten() {
                let also = beyond(&item.path, &place, alias).map_or(Labels::NONE, |it| labels(&it));
                if is_sensitive(also) {
                    item.labels = item.labels.union(also);
                }
            }
        }
    }
}

/// By name, the links that lead to it.
fn aliases(tree: Tree<'_>, items: &[Item]) -> BTreeMap<RelPath, Vec<RelPath>> {
    let folders: BTreeSet<RelPath> = items.iter().flat_map(|item| above(&item.path)).collect();
    let mut aliases: BTreeMap<RelPath, Vec<RelPath>> = BTreeMap::new();
    for folder in &folders {
        for link in tree.links(folder) {
            if let Ok(link) = folder.join(&link)
                && let Some(text) = tree.link(&link)
                && let Ok(leads_to) = links::resolve(tree, &links::Plan::new(), &link, &text)
            {
                aliases.entry(leads_to).or_default().push(link);
            }
        }
    }
    aliases
}

/// Every folder that the path lies in, the nearest first.
fn above(path: &RelPath) -> impl Iterator<Item = RelPath> + use<> {
    let parent = |path: &RelPath| path.split_last().map(|(parent, _)| parent);
    std::iter::successors(parent(path), parent)
}

/// `path`, which lies in `place`, by the name `alias` of `place`.
fn beyond(path: &RelPath, place: &RelPath, alias: &RelPath) -> Option<RelPath> {
    let mut rest = path.components().skip(place.components().count());
    rest.try_fold(alias.clone(), |at, name| at.join(name).ok())
}
