//! The commands, one file per subject.

mod mounts;
mod places;
mod runs;
mod sessions;
mod settings;
pub mod world;
