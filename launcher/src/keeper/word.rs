//! What the serving process tells the one that watches it.

use serde::{Deserialize, Serialize};

use crate::session::Bytes;

/// One word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Word {
    /// The session and its mount point.
    Session {
        /// Its id.
        id: String,
        /// Where it is or will be mounted.
        mountpoint: Bytes,
    },
    /// The tree is served from now on, and silence means that something is wrong.
    Serving {
        /// How much silence, in milliseconds.
        patience: u64,
        /// The minor number of the tree's device, which names its connection.
        device: u32,
    },
    /// What the person waits for is there.
    Ready,
    /// The tree is about to be unmounted; what follows takes the time that it takes.
    Closing,
}
