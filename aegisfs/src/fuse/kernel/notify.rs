//! The kernel's memory of a mount that is served here.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use aegis_policies::journal::NodeId;
use rustix::io::write;

use super::abi::Notice;
use crate::overlay::KernelCache;

/// The number by which the kernel knows the directory that is mounted (FUSE_ROOT_ID).
const ROOT: u64 = 1;

/// Tells the kernel what to forget. An error means that the kernel did not remember, or that the
/// mount is gone: both leave nothing to do.
#[derive(Debug)]
pub(super) struct Memory {
    connection: Arc<OwnedFd>,
    root: NodeId,
}

impl Memory {
    pub(super) const fn new(connection: Arc<OwnedFd>, root: NodeId) -> Self {
        Self { connection, root }
    }

    fn number(&self, id: NodeId) -> u64 {
        if id == self.root { ROOT } else { id.0 }
    }

    fn tell(&self, notice: &Notice<'_>) -> bool {
        write(&*self.connection, &notice.encode()).is_ok()
    }
}

impl KernelCache for Memory {
    fn forget_name(&self, parent: NodeId, name: &[u8]) {
        let folder = self.number(parent);
        self.tell(&Notice::Name { folder, name });
    }

    fn forget_node(&self, id: NodeId) {
        let node = self.number(id);
        self.tell(&Notice::Node { node, pages: true });
    }

    fn forget_attributes(&self, id: NodeId) {
        let node = self.number(id);
        self.tell(&Notice::Node { node, pages: false });
    }

    fn forget_all(&self) -> bool {
        self.tell(&Notice::Epoch)
    }
}
