//! Large files of the host that the kernel reads without asking.
//!
//! Only where nothing can ever be written, because
//! - the kernel opens the registered file anew with the flags of whoever opens the node: one that is
//!   opened for writing would write to the host's file;
//! - an open file must see what is written later, so none may read past the content that a copy-up
//!   would give it, and a snapshot's copy before the next write would be passed by as well;
//! - a node has one such file, or the page cache, as long as it is open.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::fstat;
use rustix::io::Errno;

use crate::sys::backing::{register, unregister};

/// From this size on it pays: a smaller file is read from the page cache as fast (measured).
const SMALLEST: i64 = 256 << 10;

/// What the kernel reads by itself.
#[derive(Debug)]
pub(super) struct Passthrough {
    connection: Arc<OwnedFd>,
    open: Mutex<HashMap<u64, Open>>,
}

/// How a node is read as long as anybody has it open.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// The number of the registered file; `None` for the page cache.
    registered: Option<u32>,
    handles: usize,
}

impl Passthrough {
    /// Finds out whether this process may register files.
    ///
    /// # Errors
    /// Why it may not, in words.
    pub(super) fn probe(connection: &Arc<OwnedFd>) -> Result<Self, &'static str> {
        let own = File::open("/proc/self/exe").map_err(|_| "the probe found no file")?;
        match register(connection.as_fd(), &own) {
            Ok(number) => unregister(connection.as_fd(), number),
            Err(Errno::PERM) => return Err("needs CAP_SYS_ADMIN on the machine (root)"),
            // Our own program may lie on an overlay; what it stands for may not.
            Err(Errno::LOOP) => {}
            Err(_) => return Err("the kernel does not offer it (Linux 6.9 does)"),
        }
        Ok(Self {
            connection: Arc::clone(connection),
            open: Mutex::default(),
        })
    }

    /// A node is opened; `file` is the host's file that is read. Returns what the kernel reads.
    pub(super) fn open(&self, node: u64, file: Option<&File>) -> Option<u32> {
        let mut open = self.lock();
        let node = open.entry(node).or_insert_with(|| Open {
            registered: file.and_then(|file| self.register(file)),
            handles: 0,
        });
        node.handles += 1;
        node.registered
    }

    /// A node that was opened is closed.
    pub(super) fn close(&self, node: u64) {
        let mut open = self.lock();
        let Some(entry) = open.get_mut(&node) else {
            return;
        };
        entry.handles = entry.handles.saturating_sub(1);
        if entry.handles == 0
            && let Some(Open {
                registered: Some(number),
                ..
            }) = open.remove(&node)
        {
            unregister(self.connection.as_fd(), number);
        }
    }

    fn register(&self, file: &File) -> Option<u32> {
        let large = fstat(file).is_ok_and(|stat| stat.st_size >= SMALLEST);
        large
            .then(|| register(self.connection.as_fd(), file).ok())
            .flatten()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
