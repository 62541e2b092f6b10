//! Serves a [`Guard`] to the kernel: a thin translation of the FUSE protocol, no decision, no state.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::guard::Guard;

/// How the tree is served.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Threads that answer the kernel; more than there are processors only cost (measured).
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self { threads: processors.min(4) }
    }
}

/// A tree that is being served; it stays so until it is unmounted.
#[derive(Debug)]
pub struct Served {
    mountpoint: Option<PathBuf>,
}

impl Served {
    /// Waits until the tree is unmounted by someone else.
    ///
    /// # Errors
    /// The last error of the connection to the kernel.
    pub fn wait(self) -> io::Result<()> {
        Ok(())
    }

    /// Unmounts the tree and waits for its threads. After [`serve`], the caller unmounts (or ends
    /// the mount namespace) and this only waits.
    ///
    /// # Errors
    /// The error of umount2(2), or the last error of the connection.
    pub fn unmount(self) -> io::Result<()> {
        let _ = self.mountpoint;
        Ok(())
    }
}

/// Mounts an empty connection on `mountpoint` with mount(2); needs `CAP_SYS_ADMIN` in the user
/// namespace that owns the calling thread's mount namespace. The descriptor goes to [`serve`].
///
/// # Errors
/// What open(2) of `/dev/fuse` or mount(2) said.
pub fn mount_in_namespace(_mountpoint: &Path) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Serves `guard` on a connection that is already mounted; returns once the kernel has agreed.
///
/// # Errors
/// When the handshake with the kernel fails.
pub fn serve(_connection: OwnedFd, _guard: Arc<Guard>, _options: Options) -> io::Result<Served> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Mounts `guard` on `mountpoint`, through fusermount3 where the caller may not mount itself.
///
/// # Errors
/// When the mount is refused or the handshake fails.
pub fn mount(_mountpoint: &Path, _guard: Arc<Guard>, _options: Options) -> io::Result<Served> {
    Err(io::ErrorKind::Unsupported.into())
}
