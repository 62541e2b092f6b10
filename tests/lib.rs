//! Shared set-up of the end-to-end tests: an ordinary user, a home, a project, the program under
//! test, trees that can be compared, and small servers on loopback.
//!
//! The suite runs as root on a build server and as a developer elsewhere. As root, everything under
//! test is started as the user `aegis-test`, because Aegis OS is for ordinary users.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test support: a failed set-up ends the test, and tests start programs"
)]

pub mod agents;
pub mod audit;
pub mod endpoint;
pub mod env;
pub mod http;
pub mod process;
pub mod toolchain;
pub mod tree;
pub mod user;

pub use env::TestEnv;
pub use process::Finished;
