//! From what the host has changed to what the kernel must forget.
//!
//! An answer that was under way when the host made its change may reach the kernel after the notice
//! about it. To forget a name waits until no lookup and no listing of its directory is under way
//! (the kernel holds the directory's lock over both), and attributes that come with an older answer
//! than the notice are ignored for a node that the kernel has. So names are forgotten first, and
//! before a node is forgotten alone its directory is waited for: [`KernelCache::settle`].

use aegis_policies::journal::NodeId;

use super::events::{Batch, Changes};
use crate::overlay::Overlay;
use crate::overlay::found::Found;
use crate::overlay::kernel::KernelCache;
use crate::overlay::shadow::Shadow;

impl Overlay {
    /// Has the kernel forget what the host has changed.
    pub(super) fn host_changed(&self, batch: &Batch) {
        let Some(kernel) = self.kernel() else { return };
        if batch.folders_moved || batch.lost {
            self.lower.forget_folders();
        }
        if batch.lost {
            self.listings.clear();
            return self.forget_everything(&self.known_names());
        }
        for (folder, changes) in &batch.folders {
            self.changed_in(kernel.as_ref(), *folder, changes);
        }
        for id in self.renamed_while_open(batch) {
            kernel.forget_attributes(id);
        }
    }

    fn changed_in(&self, kernel: &dyn KernelCache, folder: NodeId, changes: &Changes) {
        self.note_arrived(folder, changes);
        if !changes.names.is_empty() {
            self.listings.forget(folder);
        }
        for name in &changes.names {
            if !self.is_own(folder, name) {
                kernel.forget_name(folder, name);
            }
        }
        let changed = self.changed_nodes(folder, changes);
        if !changed.is_empty() {
            kernel.settle(folder);
        }
        for id in changed {
            kernel.forget_node(id);
        }
        kernel.forget_node(folder);
    }

    /// Notes where directories went that the kernel knows: some process may be in them.
    fn note_arrived(&self, folder: NodeId, changes: &Changes) {
        for name in &changes.arrived {
            let arrived = self.known_at(&self.read(), folder, name);
            if let Some(inode) = arrived.and_then(|id| self.inodes.find(id)) {
                inode.note_name(folder, name);
            }
        }
    }

    /// The nodes that the kernel knows by these names and that show what the host has.
    fn changed_nodes(&self, folder: NodeId, changes: &Changes) -> Vec<NodeId> {
        let shadow = self.read();
        let names = changes.contents.iter();
        names
            .filter_map(|name| self.known_at(&shadow, folder, name))
            .collect()
    }

    fn known_at(&self, shadow: &Shadow, folder: NodeId, name: &[u8]) -> Option<NodeId> {
        let within = self.within(shadow, folder).ok()?;
        let found = self.find_within(shadow, &within, name).ok()?;
        let id = found.id()?;
        if self.inodes.find(id).is_some() {
            return Some(id);
        }
        if let Found::Lower(lower) = &found {
            self.inodes.drop_foreign(lower.identity(), id);
        }
        None
    }

    /// Whether a name is the session's: what the host does with its own of that name is not seen.
    fn is_own(&self, folder: NodeId, name: &[u8]) -> bool {
        let shadow = self.read();
        let folder = self.folder_of(&shadow, folder);
        folder.is_ok_and(|folder| shadow.child(&folder, name).is_some())
    }

    /// Open files that may have lost a name: the kernel finds them by no name any more, and shows
    /// how many they have to whom holds them.
    fn renamed_while_open(&self, batch: &Batch) -> Vec<NodeId> {
        let renamed = |(folder, name): (NodeId, &[u8])| {
            let changes = batch.folders.get(&folder);
            changes.is_some_and(|changes| changes.names.contains(name))
        };
        let open = self.handles.iter();
        let open = open.map(|handle| handle.inode.clone());
        open.filter(|inode| {
            let names = inode.lower_names();
            names.iter().any(|it| renamed((it.folder, &it.name)))
        })
        .map(|inode| inode.id)
        .collect()
    }
}
