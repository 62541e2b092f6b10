//! Data that other rooms act on, as values: what is re-exposed, masked, passed in, filtered, and
//! where the proxy may forward to. The files are under policies/tables, each line with its reason.

mod environment;
mod masks;
mod roots;
mod seccomp;
mod toolchains;
mod upstreams;

use serde::de::DeserializeOwned;

pub use environment::{Environment, Prefix, Variable};
pub use masks::{Mask, MaskKind};
pub use roots::Root;
pub use seccomp::{Action, Errno, FlagRule, IoctlRule, Seccomp, SocketFamily, SyscallRule};
pub use toolchains::Toolchain;
pub use upstreams::{Credential, Endpoint, Route, Upstream};

/// Why a built-in table could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The file is not what its reader expects.
    #[error("built-in table `{table}`: {message}")]
    Invalid {
        /// The table.
        table: &'static str,
        /// What is wrong with it.
        message: String,
    },
}

/// The toolchains in a person's home that the sandbox shows again, read-only.
///
/// # Errors
/// [`TableError`] when the table is not valid, which a test excludes.
pub fn toolchains() -> Result<Vec<Toolchain>, TableError> {
    parse::<toolchains::File>("toolchains", include_str!("../../tables/toolchains.toml"))
        .map(|file| file.toolchain)
}

/// What the sandbox hides, in the order in which it is to be hidden.
///
/// # Errors
/// [`TableError`] when the table is not valid, which a test excludes.
pub fn masks() -> Result<Vec<Mask>, TableError> {
    parse::<masks::File>("masks", include_str!("../../tables/masks.toml")).map(|file| file.mask)
}

/// What the sandbox shows of the host's root.
///
/// # Errors
/// [`TableError`] when the table is not valid, which a test excludes.
pub fn roots() -> Result<Vec<Root>, TableError> {
    parse::<roots::File>("roots", include_str!("../../tables/roots.toml")).map(|file| file.root)
}

/// The environment variables that pass into the sandbox.
///
/// # Errors
/// [`TableError`] when the table is not valid, which a test excludes.
pub fn environment() -> Result<Environment, TableError> {
    parse("environment", include_str!("../../tables/environment.toml"))
}

/// The system calls, socket families and ioctl requests that the sandbox filters.
///
/// # Errors
/// [`TableError`] when the table is not valid, which a test excludes.
pub fn seccomp() -> Result<Seccomp, TableError> {
    parse("seccomp", include_str!("../../tables/seccomp.toml"))
}

/// The model providers that the reverse proxy forwards to.
///
/// # Errors
/// [`TableError`] when the table is not valid, which a test excludes.
pub fn upstreams() -> Result<Vec<Upstream>, TableError> {
    parse::<upstreams::File>("upstreams", include_str!("../../tables/upstreams.toml"))
        .map(|file| file.upstream)
}

fn parse<T: DeserializeOwned>(table: &'static str, source: &str) -> Result<T, TableError> {
    toml::from_str(source).map_err(|error| TableError::toml(table, &error))
}

impl TableError {
    pub(crate) fn toml(table: &'static str, error: &toml::de::Error) -> Self {
        Self::Invalid {
            table,
            message: error.to_string(),
        }
    }

    pub(crate) fn glob(table: &'static str, error: &globset::Error) -> Self {
        Self::Invalid {
            table,
            message: error.to_string(),
        }
    }
}
