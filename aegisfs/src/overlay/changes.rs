//! What the agent changed, as values that the commit pipeline starts from.

use std::path::PathBuf;

use aegis_policies::RelPath;
use aegis_policies::journal::{Baseline, NodeKind};

/// One name whose meaning differs from what the host had when the agent first touched it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The name.
    pub path: RelPath,
    /// What the host had there at first touch; `None` when the name did not exist.
    pub before: Option<Baseline>,
    /// What the shadow has there now; `None` when the name is gone.
    pub after: Option<After>,
    /// The host's name of the node that was moved here.
    pub moved_from: Option<RelPath>,
}

/// What the shadow has under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct After {
    /// The type; for a symbolic link, with its target.
    pub kind: NodeKind,
    /// Permission bits.
    pub mode: u32,
    /// Where the bytes are; `None` for what is not a regular file.
    pub content: Option<Content>,
    /// The node, so that two names of one file can be told from two files.
    pub node: u64,
}

/// Where the bytes of a changed file are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// In this file of the session's `content` folder.
    Shadow(PathBuf),
    /// Still in the host's tree under this name: the file was moved or its mode changed.
    Host(RelPath),
}
