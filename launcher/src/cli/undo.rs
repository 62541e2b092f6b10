//! `aegis-os undo`: take the last landing back.

use std::process::ExitCode;

use aegisfs::commit::Reversal;

use super::land::status;
use super::{Outcome, talk};
use crate::review::{self, Desk};
use crate::session::summary::count;

/// Takes the last landing of a session back. A name that you changed since is left alone.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, or the first letters of its id.
    #[arg(long, short)]
    session: Option<String>,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

/// How many names are listed before the question.
const SHOWN: usize = 40;

/// Takes the landing back.
///
/// # Errors
/// When the landing can not be read or reversed.
pub fn run(args: &Args) -> Outcome {
    let desk = Desk::at(args.session.as_deref())?;
    let site = desk.looking().site();
    let reversal = Reversal::find(&site, None).map_err(review::failed)?;
    let paths = reversal.paths();
    for path in paths.iter().take(SHOWN) {
        talk::say(&format!("  {path}"));
    }
    let names = count(paths.len() as u64, "name");
    let question = format!("Take {names} back to what was there before");
    let matter = format!("taking {names} back");
    if !args.yes && !review::ask(&question, &matter)? {
        talk::say("nothing was changed");
        return Ok(ExitCode::FAILURE);
    }
    let undone = reversal
        .apply(&site, Some(desk.journal()))
        .map_err(review::failed)?;
    talk::say(&review::undone(&undone));
    Ok(status(undone.left().count()))
}
