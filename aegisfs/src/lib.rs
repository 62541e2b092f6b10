//! The project as the agent sees it, and the road back.
//!
//! `overlay` holds the lazy copy-on-write tree, `guard` names and judges what is done to it,
//! `fuse` translates the kernel's protocol. `commit` takes what changed back to the host.
//! `commit` and `fuse`/`guard` never import each other.

pub mod commit;
pub mod fuse;
pub mod guard;
pub mod layout;
pub mod merge;
pub mod overlay;
mod sys;
