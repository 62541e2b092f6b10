//! What may happen, who decided, and the record.
//!
//! This room knows no other room. A front door (the FUSE guard, the proxy, the lander) *names* an
//! [`Effect`], the [`Gate`] *judges* and journals it, and only the holder of a [`Permit`] *acts*.
//! There is no unsafe, no async and no walking of file systems here.

#![forbid(unsafe_code)]

mod cedar;
pub mod effect;
pub mod fold;
pub mod gate;
pub mod journal;
pub mod label;
pub mod path;
pub mod tables;

pub use cedar::{Policy, PolicyError};
pub use effect::{Actor, Effect, Kind, Reversibility, Scope};
pub use gate::{Gate, GateError, Permit, Refusal};
pub use journal::Journal;
pub use label::{Detour, Label, Labeler, Labels, Repository};
pub use path::RelPath;
