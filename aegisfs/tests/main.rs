//! Everything that is tested from outside: the tree against a plain directory, with and without a
//! mount; what an attacker tries; a server that is killed; the road back to the host.

#![expect(clippy::unwrap_used, reason = "a test that can not go on has failed")]
#![expect(clippy::panic, reason = "a test that can not go on has failed")]
#![expect(
    clippy::indexing_slicing,
    reason = "a test that can not go on has failed"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and name their own paths"
)]

mod commit;
mod overlay;
