//! What the sandbox shows of the host's root.

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) root: Vec<Root>,
}

/// One directory that the sandbox shows, read-only, when the host has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Root {
    /// The absolute path.
    pub path: String,
    /// Why it is shown.
    pub reason: String,
}
