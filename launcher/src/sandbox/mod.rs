//! What a session's command may see and touch, and how it is started that way.
//!
//! [`facts`] looks at the host once, [`plan`] turns what was found into plain data without touching
//! the file system, and the carrier ([`linux`]) carries the plan out with bubblewrap. Inside, the
//! [`stage`] opens the doors, drops what is left of the host and becomes the command.

pub mod bwrap;
mod channel;
mod check;
mod door;
pub mod error;
pub mod facts;
pub mod home;
mod layers;
pub mod linux;
mod message;
pub mod mount;
pub mod namespace;
mod place;
pub mod plan;
pub mod program;
mod restrict;
mod running;
mod seccomp;
mod socket;
pub mod stage;
mod syscalls;
mod variables;

pub use bwrap::Bubblewrap;
pub(crate) use channel::Channel;
pub use door::Door;
pub use error::SandboxError;
pub use facts::HostFacts;
pub use linux::Descriptors;
pub(crate) use message::Stream;
pub use plan::{Plan, Request};
pub use running::{Enforced, Exit, Killer, Running, Waiting};
