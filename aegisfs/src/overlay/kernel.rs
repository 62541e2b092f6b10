//! What the kernel remembers of the tree, and how it is told to forget.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, PoisonError};

use aegis_policies::journal::NodeId;

use super::Overlay;
use super::shadow::{FolderKey, Place, Shadow};

/// The kernel's memory of a mount: names that lead somewhere, names that do not, attributes,
/// listings and pages.
///
/// To forget a name or a node can wait for requests that are being answered, so these are called
/// only from threads that never answer any. What the kernel does not remember is no error.
pub trait KernelCache: Debug + Send + Sync {
    /// Forgets where a name leads, or that it leads nowhere, and the names below it.
    fn forget_name(&self, parent: NodeId, name: &[u8]);

    /// Forgets the attributes of a node, and its pages or its listing.
    fn forget_node(&self, id: NodeId);

    /// Forgets the attributes of a node only. Never waits: a thread that is answering a request
    /// may call it.
    fn forget_attributes(&self, id: NodeId);

    /// Forgets every name at once; returns whether this kernel can (`FUSE_NOTIFY_INC_EPOCH`, Linux
    /// 6.16).
    fn forget_all(&self) -> bool;
}

/// What the kernel remembered at some moment.
#[derive(Debug)]
pub struct KnownNames {
    names: Vec<(NodeId, Box<[u8]>)>,
    nodes: Vec<NodeId>,
}

impl Overlay {
    /// Makes known who is to be told what the kernel must forget. The newest one counts.
    pub fn attach_kernel(&self, kernel: Arc<dyn KernelCache>) {
        let mut attached = self.kernel.write().unwrap_or_else(PoisonError::into_inner);
        *attached = Some(kernel);
    }

    /// The kernel's memory of this tree, while it is mounted.
    #[must_use]
    pub fn kernel(&self) -> Option<Arc<dyn KernelCache>> {
        let attached = self.kernel.read().unwrap_or_else(PoisonError::into_inner);
        attached.as_ref().map(Arc::clone)
    }

    /// The names that the kernel may remember. Those that lead nowhere are not known.
    #[must_use]
    pub fn known_names(&self) -> KnownNames {
        let shadow = self.read();
        let nodes = self.inodes.known();
        let mut parents: HashMap<FolderKey, NodeId> = HashMap::new();
        for id in nodes.iter().copied().chain([self.root()]) {
            if let Ok(folder) = self.folder_of(&shadow, id) {
                parents.insert(folder, id);
            }
        }
        let places = nodes.iter().flat_map(|id| self.places_of(&shadow, *id));
        let named = places.filter_map(|place| {
            let parent = parents.get(&place.folder)?;
            Some((*parent, place.name))
        });
        KnownNames {
            names: named.collect(),
            nodes,
        }
    }

    /// Makes the kernel ask again for everything: the tree has become another one. `known` was
    /// taken before it did. Called only from threads that answer no requests.
    ///
    /// Where the kernel can not forget all names at once, one that led nowhere may go on to do so
    /// for as long as such an answer was good.
    pub fn forget_everything(&self, known: &KnownNames) {
        let Some(kernel) = self.kernel() else {
            return;
        };
        if !kernel.forget_all() {
            for (parent, name) in &known.names {
                kernel.forget_name(*parent, name);
            }
        }
        for id in known.nodes.iter().copied().chain([self.root()]) {
            kernel.forget_node(id);
        }
    }

    /// Every place whose name leads to a node, on the host or in the session.
    fn places_of(&self, shadow: &Shadow, id: NodeId) -> Vec<Place> {
        let lower = self.inodes.find(id).map(|inode| inode.lower_names());
        let hosts = lower.into_iter().flatten().filter_map(|path| {
            let (folder, name) = path.split_last()?;
            Some(Place {
                folder: FolderKey::Lower(folder),
                name: name.into(),
            })
        });
        let own = shadow.node(id).map(|node| node.names.clone());
        hosts.chain(own.into_iter().flatten()).collect()
    }
}
