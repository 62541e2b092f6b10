//! Where what had a name went. Taking the old name away loses what it held unless one of the new
//! names lands.

use std::collections::{BTreeMap, BTreeSet};

use aegis_policies::RelPath;

/// The agent's renames of what the host had.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// By old name, the new ones: a file with several names may have been moved to several.
    to: BTreeMap<RelPath, Vec<RelPath>>,
    /// New names under which the host has it already.
    arrived: BTreeSet<RelPath>,
}

impl Moves {
    /// What the host had as `from` is `to` in the session.
    pub(crate) fn note(&mut self, from: RelPath, to: RelPath) {
        let names = self.to.entry(from).or_default();
        if !names.contains(&to) {
            names.push(to);
        }
    }

    /// The host has what is at `to` already.
    pub(crate) fn arrive(&mut self, to: RelPath) {
        self.arrived.insert(to);
    }

    /// The new name of what was at `from`, when none of its new names lands.
    pub(crate) fn stranded(
        &self,
        from: &RelPath,
        lands: &dyn Fn(&RelPath) -> bool,
    ) -> Option<&RelPath> {
        let names = self.to.get(from)?;
        let is_safe = names
            .iter()
            .any(|name| self.arrived.contains(name) || lands(name));
        names.first().filter(|_| !is_safe)
    }

    /// The new names of what was at `from`.
    pub(crate) fn names(&self, from: &RelPath) -> &[RelPath] {
        self.to.get(from).map_or(&[], Vec::as_slice)
    }
}
