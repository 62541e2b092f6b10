//! Out through one door.
//!
//! A sandbox has a network namespace with nothing in it but loopback and a few listeners, which
//! were made inside and handed out. This room accepts on them outside: it *names* what a client
//! wants, the [`Gate`](aegis_policies::Gate) *judges* it, and with the permit it *acts*.
//!
//! ```text
//! client -> proxy   (names) -> gate -> Permit -> tunnel | forward (act) -> host
//!        -> reverse (names) -> gate -> Permit -> forward, with the key  -> API
//! ```
//!
//! Two things can be had: a tunnel to a listed host, of which only the destination, the sizes and
//! the duration are known; and a request to one of a few APIs, which gets the session's key on its
//! way out. Everything else is refused in words and journalled.

#![forbid(unsafe_code)]

mod address;
mod allow;
mod desk;
mod dial;
mod door;
mod environment;
mod error;
mod forward;
mod hello;
mod http;
mod inbound;
mod ledger;
mod link;
mod name;
mod options;
mod proxy;
mod pump;
mod reverse;
mod room;
mod scrub;
mod secret;
mod sniff;
mod tls;
mod tunnel;
mod upstream;
mod words;

pub use allow::AllowList;
pub use desk::FAILED;
pub use dial::{Resolve, SystemResolver};
pub use door::{Door, Entrance, Summary};
pub use environment::environment;
pub use error::EgressError;
pub use name::{Authority, Host, NameError};
pub use options::{EncryptedHello, Limits, Options, Timeouts};
pub use secret::Secret;
pub use upstream::Upstream;
