//! `aegis-os status`: one session in detail.

use super::Outcome;

/// Shows one session: its state, what it changed, what it was refused.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, or the first letters of its id.
    session: Option<String>,
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

/// Prints the session.
///
/// # Errors
/// When the session can not be read.
pub fn run(_args: &Args) -> Outcome {
    Ok(std::process::ExitCode::SUCCESS)
}
