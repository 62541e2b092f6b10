//! `aegis-os sessions`: the list.

use super::Outcome;

/// Lists the sessions, newest first.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// One JSON object per session.
    #[arg(long)]
    json: bool,
}

/// Prints the list.
///
/// # Errors
/// When the sessions can not be read.
pub fn run(_args: &Args) -> Outcome {
    Ok(std::process::ExitCode::SUCCESS)
}
