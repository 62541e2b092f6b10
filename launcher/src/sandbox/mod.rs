//! What a session's command may see and touch, and how it is started that way.
//!
//! [`facts`] looks at the host once, [`plan`] turns what was found into plain data without touching
//! the file system, and the carrier ([`linux`]) carries the plan out with bubblewrap. Inside, the
//! [`stage`] opens the doors, drops what is left of the host and becomes the command.

pub mod error;
pub mod facts;
pub mod home;
pub mod linux;
pub mod namespace;
pub mod plan;
pub mod stage;

pub use error::SandboxError;
pub use facts::HostFacts;
pub use linux::{Descriptors, Door, Enforced, Exit, Running, Waiting};
pub use plan::{Plan, Request};
