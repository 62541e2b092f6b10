//! `aegis-os land`: bring changes into the project.

use std::path::PathBuf;

use super::Outcome;

/// Brings what a session changed into the project.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, or the first letters of its id.
    #[arg(long, short)]
    session: Option<String>,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
    /// Only these files and folders.
    paths: Vec<PathBuf>,
}

/// Lands.
///
/// # Errors
/// When the session can not be read or landed.
pub fn run(_args: &Args) -> Outcome {
    Ok(std::process::ExitCode::SUCCESS)
}
