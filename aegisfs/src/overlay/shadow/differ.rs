//! What differs between two states of one shadow.

use std::collections::BTreeSet;

use aegis_policies::journal::NodeId;

use super::{FolderKey, Shadow};

impl Shadow {
    /// The directories of which the two states say different things.
    pub(crate) fn differing_folders(&self, other: &Self) -> BTreeSet<FolderKey> {
        let keys = self.folders.keys().chain(other.folders.keys());
        keys.filter(|key| self.folders.get(key) != other.folders.get(key))
            .cloned()
            .collect()
    }

    /// The names in a directory of which the two states say different things.
    pub(crate) fn differing_names(&self, other: &Self, key: &FolderKey) -> BTreeSet<Box<[u8]>> {
        let names = |shadow: &Self| -> Vec<Box<[u8]>> {
            let folder = shadow.folders.get(key).into_iter();
            folder
                .flat_map(|folder| folder.children.keys().cloned())
                .collect()
        };
        let all = names(self).into_iter().chain(names(other));
        all.filter(|name| self.child(key, name) != other.child(key, name))
            .collect()
    }

    /// The nodes of which the two states say different things.
    pub(crate) fn differing_nodes(&self, other: &Self) -> BTreeSet<NodeId> {
        let ids = self.nodes.keys().chain(other.nodes.keys()).copied();
        ids.filter(|id| self.nodes.get(id) != other.nodes.get(id))
            .collect()
    }

    /// The node of a directory, as far as the shadow knows it.
    pub(crate) fn folder_node(&self, key: &FolderKey) -> Option<NodeId> {
        match key {
            FolderKey::Made(id) => Some(*id),
            FolderKey::Lower(path) => self.lower_folders.get(path).copied(),
        }
    }
}
