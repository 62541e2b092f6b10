//! The environment of the sandbox.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde::Deserialize;

/// The variables that pass in with the value they have outside. Everything else is left behind.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// Variables by name.
    pub variable: Vec<Variable>,
    /// Variables by the start of their name.
    pub prefix: Vec<Prefix>,
}

/// One variable that passes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Why it passes.
    pub reason: String,
}

/// All variables whose name starts alike.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prefix {
    /// The start of the name.
    pub start: String,
    /// Why they pass.
    pub reason: String,
}

impl Environment {
    /// Whether a variable of this name passes.
    #[must_use]
    pub fn passes(&self, name: &OsStr) -> bool {
        let name = name.as_bytes();
        self.variable
            .iter()
            .any(|variable| variable.name.as_bytes() == name)
            || self
                .prefix
                .iter()
                .any(|prefix| name.starts_with(prefix.start.as_bytes()))
    }
}
