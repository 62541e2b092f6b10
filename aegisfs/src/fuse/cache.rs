//! The kernel's memory of a mount that fuser serves.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use aegis_policies::journal::NodeId;
use fuser::{INodeNo, Notifier};

use crate::overlay::KernelCache;

/// `FUSE_NOTIFY_INC_EPOCH` of linux/fuse.h.
const INC_EPOCH: i32 = 8;

/// Tells the kernel through fuser what to forget. An error means that the kernel did not remember,
/// or that the mount is gone: both leave nothing to do.
#[derive(Debug)]
pub(super) struct FuserCache {
    notifier: Notifier,
    connection: OwnedFd,
    root: NodeId,
}

impl FuserCache {
    /// `connection` is the one that `notifier` writes to: fuser does not know every notice.
    pub(super) const fn new(notifier: Notifier, connection: OwnedFd, root: NodeId) -> Self {
        Self {
            notifier,
            connection,
            root,
        }
    }

    fn number(&self, id: NodeId) -> INodeNo {
        if id == self.root {
            INodeNo::ROOT
        } else {
            INodeNo(id.0)
        }
    }
}

impl KernelCache for FuserCache {
    fn forget_name(&self, parent: NodeId, name: &[u8]) {
        let name = OsStr::from_bytes(name);
        let _ = self.notifier.inval_entry(self.number(parent), name);
    }

    fn forget_node(&self, id: NodeId) {
        let _ = self.notifier.inval_inode(self.number(id), 0, 0);
    }

    fn forget_attributes(&self, id: NodeId) {
        // A negative offset leaves the pages alone (fuse_reverse_inval_inode), and so waits for none.
        let _ = self.notifier.inval_inode(self.number(id), -1, 0);
    }

    fn forget_all(&self) -> bool {
        notify(&self.connection, INC_EPOCH).is_ok()
    }
}

/// Sends a notice without a body: `struct fuse_out_header` with the code in the place of an error,
/// and no request that it would answer.
fn notify(connection: &OwnedFd, code: i32) -> io::Result<()> {
    const LENGTH: u32 = 16;
    let mut notice = [0; LENGTH as usize];
    let (length, rest) = notice.split_at_mut(4);
    let (kind, _unique) = rest.split_at_mut(4);
    length.copy_from_slice(&LENGTH.to_ne_bytes());
    kind.copy_from_slice(&code.to_ne_bytes());
    rustix::io::write(connection, &notice)?;
    Ok(())
}
