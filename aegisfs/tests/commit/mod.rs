//! The road back, on real directories.

mod crash;
mod env;
mod full;
mod git;
mod git_carried;
mod landing;
mod merging;
mod modes;
mod moving;
mod race;
mod refusals;
mod undo;
