//! What can go wrong before the door is open. What goes wrong afterwards is an answer to the
//! client and an entry in the journal, never an error of the launcher.

use std::io;

use crate::name::NameError;

/// Why the door could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EgressError {
    /// An entry of the allow list is not a host, `host:port` or `.suffix`.
    #[error("the allow entry `{entry}` can not be used: {reason}")]
    AllowEntry {
        /// The entry as it was given, with control characters escaped.
        entry: String,
        /// What is wrong with it.
        reason: NameError,
    },
    /// The base URL of an upstream can not be used.
    #[error("the base URL `{url}` of upstream `{name}` can not be used: {reason}")]
    BaseUrl {
        /// The upstream.
        name: String,
        /// The URL, without user information.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An entry of the upstream table can not be used.
    #[error("upstream `{name}`: the {field} `{value}` can not be used")]
    Table {
        /// The upstream.
        name: String,
        /// The field of the table.
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// A key holds a byte that no header can carry. The key itself is not shown.
    #[error("the key for upstream `{name}` holds a character that a header can not carry")]
    Key {
        /// The upstream.
        name: String,
    },
    /// An entrance names an upstream that was not given.
    #[error("no upstream is called `{name}`")]
    UnknownUpstream {
        /// The name.
        name: String,
    },
    /// A certificate given as an extra root can not be read.
    #[error("an extra root certificate can not be read: {reason}")]
    Roots {
        /// What is wrong with it.
        reason: String,
    },
    /// A listener could not be made ready.
    #[error("a listening socket of the sandbox can not be used: {0}")]
    Listener(#[source] io::Error),
    /// The thread or its reactor could not be started.
    #[error("the proxy thread can not be started: {0}")]
    Thread(#[source] io::Error),
}
