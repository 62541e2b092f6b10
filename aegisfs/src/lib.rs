//! The project as the agent sees it, and the road back.
//!
//! `overlay` holds the lazy copy-on-write tree, `guard` names and judges what is done to it,
//! `fuse` translates the kernel's protocol. `commit` takes what changed back to the host.
//! `commit` and `fuse`/`guard` never import each other.
//!
//! # Alone
//! The file system needs nothing of the launcher. A caller brings a folder for the session, a gate
//! (policy and journal), and the project as a descriptor:
//!
//! 1. [`layout::SessionDir`] names what lies in the session's folder; `Journal::create` starts its
//!    journal, [`overlay::checkpoint::resume_journal`] goes on with it. One process at a time may do
//!    so; the launcher holds a lock meanwhile.
//! 2. `Gate::with_defaults` judges by the built-in policy and the caller's own, and records.
//! 3. [`overlay::Overlay::open`] replays the journal into the tree; [`guard::Guard`] puts the gate in
//!    front of it, and [`guard::Guard::read_only`] takes every change away.
//! 4. [`fuse::mount`] mounts and serves it ([`fuse::mount_on`] on other terms, [`fuse::serve`] on a
//!    connection that is mounted already), and [`fuse::Served::features`] says what is in force.
//! 5. [`overlay::changes::changes`] tells what a session at rest has changed, and `commit` lands it.
//!
//! `examples/view.rs` is a protected view in that way, `examples/without_mount.rs` uses the tree without
//! any mount.

pub mod commit;
pub mod fuse;
pub mod guard;
pub mod layout;
pub mod merge;
pub mod overlay;
mod sys;
