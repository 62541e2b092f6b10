//! The road back, on real directories.

mod crash;
mod env;
mod full;
mod git;
mod landing;
mod merging;
mod race;
mod refusals;
mod undo;
