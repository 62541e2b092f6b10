//! The door as its clients see it: real sockets, real TLS, real namespaces, a real journal.

#![expect(clippy::unwrap_used, reason = "a test that can not go on has failed")]
#![expect(
    clippy::indexing_slicing,
    reason = "a test that can not go on has failed"
)]

mod bounds;
mod namespace;
mod plain;
mod reverse;
mod reverse_refused;
mod streams;
mod support;
mod tls;
mod tunnel;
mod tunnel_refused;
