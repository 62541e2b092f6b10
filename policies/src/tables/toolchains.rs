//! Toolchains in a person's home.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) toolchain: Vec<Toolchain>,
}

/// Directories that belong to one toolchain.
///
/// In paths and values, a leading `~/` stands for the person's home. A directory that does not
/// exist on the host is left out, and so are its variables.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Toolchain {
    /// Its name.
    pub name: String,
    /// The directories to bind read-only at their own path.
    pub directories: Vec<String>,
    /// The directories that belong on `PATH`, in this order, when they exist.
    #[serde(default)]
    pub search: Vec<String>,
    /// Variables to set when the first directory exists.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Leave it out when the name of a host that the session may reach holds one of these words:
    /// the tool then downloads into the directory, which it could not write.
    #[serde(default)]
    pub unless_allowed: Vec<String>,
    /// Why an agent needs it and may see it.
    pub reason: String,
}
