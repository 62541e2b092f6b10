//! How many names changed, and how.

use std::collections::BTreeSet;

use aegis_policies::RelPath;
use aegisfs::overlay::changes::Change;

/// How many names changed, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Names that the host does not have.
    pub created: usize,
    /// Names whose content, type or mode differs.
    pub modified: usize,
    /// Names that are gone.
    pub deleted: usize,
    /// Names that hold what had another name.
    pub moved: usize,
}

impl Counts {
    /// Counts `changes`; git's own records are left out.
    #[must_use]
    pub fn of(changes: &[Change]) -> Self {
        let gone = gone(changes);
        let mut counts = Self::default();
        for change in work(changes) {
            let is_moved = change
                .moved_from
                .as_ref()
                .is_some_and(|old| gone.contains(old));
            let counter = match (&change.before, &change.after) {
                (_, None) => &mut counts.deleted,
                (_, Some(_)) if is_moved => &mut counts.moved,
                (None, Some(_)) => &mut counts.created,
                (Some(_), Some(_)) => &mut counts.modified,
            };
            *counter += 1;
        }
        counts
    }

    /// How many in all.
    #[must_use]
    pub const fn names(&self) -> usize {
        self.created + self.modified + self.deleted + self.moved
    }

    /// As `2 created, 1 deleted`; empty when nothing changed.
    #[must_use]
    pub fn shown(&self) -> String {
        let parts = [
            (self.created, "created"),
            (self.modified, "modified"),
            (self.moved, "moved"),
            (self.deleted, "deleted"),
        ];
        let shown = parts.iter().filter(|(count, _)| *count > 0);
        shown
            .map(|(count, how)| format!("{count} {how}"))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// As `1 name` or `2 names`.
#[must_use]
pub fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// The changes that are work of the agent: without git's own records, and without the old name of
/// what was moved, which its new name stands for.
pub(super) fn work(changes: &[Change]) -> impl Iterator<Item = &Change> {
    let left: BTreeSet<_> = changes
        .iter()
        .filter_map(|change| change.moved_from.as_ref())
        .collect();
    changes.iter().filter(move |change| {
        let is_old_name = change.after.is_none() && left.contains(&change.path);
        !is_old_name && !is_git_record(change)
    })
}

fn gone(changes: &[Change]) -> BTreeSet<&RelPath> {
    let gone = changes.iter().filter(|change| change.after.is_none());
    gone.map(|change| &change.path).collect()
}

pub(super) fn is_git_record(change: &Change) -> bool {
    change.path.as_bytes().starts_with(b".git/") || change.path.as_bytes() == b".git"
}
