//! `aegis-os review`: see what the agent changed, then decide.

use std::process::ExitCode;

use super::{Outcome, land, talk};
use crate::review::{self, Desk, Style};

/// Shows what a session changed and asks whether to land it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, or the first letters of its id.
    #[arg(long, short)]
    session: Option<String>,
}

/// Shows the changes and asks.
///
/// # Errors
/// When the session can not be read or landed.
pub fn run(args: &Args) -> Outcome {
    let desk = Desk::at(args.session.as_deref())?;
    let frozen = land::freeze(&desk, &[], &|_| false)?;
    let sheet = review::of_frozen(&desk.looking().site(), &frozen);
    if sheet.is_empty() {
        talk::say("there is nothing to land");
        return Ok(ExitCode::SUCCESS);
    }
    review::show(|| review::as_text(&sheet, Style::of_stdout()))?;
    if sheet.count() == 0 {
        return Ok(ExitCode::FAILURE);
    }
    land::decide(&desk, &[], frozen)
}
