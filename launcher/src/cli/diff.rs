//! `aegis-os diff`: what the agent changed.

use std::path::PathBuf;

use super::Outcome;

/// Shows what a session changed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, or the first letters of its id.
    #[arg(long, short)]
    session: Option<String>,
    /// Counts of lines instead of the lines.
    #[arg(long)]
    stat: bool,
    /// One JSON object per changed name.
    #[arg(long)]
    json: bool,
    /// Only these files and folders.
    paths: Vec<PathBuf>,
}

/// Prints the changes.
///
/// # Errors
/// When the session can not be read.
pub fn run(_args: &Args) -> Outcome {
    Ok(std::process::ExitCode::SUCCESS)
}
