//! Tests of the launcher as a program: real mounts, real sandboxes, as root and as an ordinary user.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that can not go on has failed"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "tests prepare places of their own and start the program under test"
)]

mod cli;
mod review;
mod sandbox;
