//! The commands, one file per subject.

mod keeper;
mod limits;
mod mounts;
mod places;
mod recover;
mod repository;
mod runs;
mod sessions;
mod settings;
mod snapshots;
pub mod world;
