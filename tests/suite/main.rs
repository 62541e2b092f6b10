//! Everything that needs the whole house: one binary, one process per test.

#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a failed step ends the test, and tests start programs"
)]

mod agents;
mod attacks;
mod documents;
mod door;
mod errors;
mod git;
mod house;
mod landing;
mod mount;
mod ordinary;
mod sessions;
mod terminal;
