//! What the kernel remembers of the tree, and how it is told to forget.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, PoisonError};

use aegis_policies::journal::NodeId;

use super::Overlay;
use super::shadow::{FolderKey, Place};

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

    /// Waits until no lookup and no listing of a directory is under way.
    fn settle(&self, folder: NodeId) {
        // To forget a name waits for them; this one can not be there.
        self.forget_name(folder, b"/");
    }

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
    /// Makes known who is to be told what the kernel must forget, and starts to follow the host.
    /// The newest one counts.
    pub fn attach_kernel(self: &Arc<Self>, kernel: Arc<dyn KernelCache>) {
        let forgets_all = kernel.forget_all();
        let mut attached = self.kernel.write().unwrap_or_else(PoisonError::into_inner);
        *attached = Some(kernel);
        drop(attached);
        self.follow(forgets_all);
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
        let mut names = Vec::new();
        let mut parents: HashMap<FolderKey, NodeId> = HashMap::new();
        for id in nodes.iter().copied().chain([self.root()]) {
            if let Some(inode) = self.inodes.find(id) {
                let hosts = inode.lower_names().into_iter();
                names.extend(hosts.map(|it| (it.folder, it.name)));
            }
            if let Ok(folder) = self.folder_of(&shadow, id) {
                parents.insert(folder, id);
            }
        }
        let own = nodes.iter().filter_map(|id| shadow.node(*id));
        for Place { folder, name } in own.flat_map(|node| &node.names) {
            let parent = parents.get(folder).copied();
            names.extend(parent.map(|parent| (parent, name.clone())));
        }
        KnownNames { names, nodes }
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
}
