//! `aegis-os land`: bring changes into the project.

use std::path::PathBuf;
use std::process::ExitCode;

use aegisfs::commit::{Approval, Frozen, Item};

use super::{Outcome, talk};
use crate::error::CommandError;
use crate::review::{self, Desk, Style};

/// Brings what a session changed into the project.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Exit status: 0 when everything landed, 1 when something was left \
                             alone. A file that you changed meanwhile is merged when you and the \
                             agent changed different lines, and left alone otherwise."
)]
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
pub fn run(args: &Args) -> Outcome {
    let desk = Desk::at(args.session.as_deref())?;
    let frozen = freeze(&desk, &args.paths, &|_| false)?;
    let sheet = review::of_frozen(&desk.looking().site(), &frozen);
    if sheet.is_empty() {
        talk::say("there is nothing to land");
        return Ok(ExitCode::SUCCESS);
    }
    if args.yes {
        eprint(&review::sensitive(&sheet, Style::Plain));
        return land(&desk, frozen);
    }
    eprint(&review::summary(&sheet, Style::Plain));
    decide(&desk, &args.paths, frozen)
}

/// Asks about what the person's own tools run or trust, then about everything, and lands.
pub(super) fn decide(desk: &Desk, paths: &[PathBuf], mut frozen: Frozen) -> Outcome {
    let sensitive = frozen
        .entries()
        .iter()
        .filter(|entry| entry.sensitive)
        .count();
    if sensitive > 0 {
        let question = format!("Land the {sensitive} that your own tools run or trust, too");
        if !review::ask(&question, &format!("landing {sensitive} sensitive names"))? {
            drop(frozen);
            frozen = freeze(desk, paths, &Item::is_sensitive)?;
        }
    }
    let count = frozen.entries().len();
    if count == 0 {
        talk::say("nothing is left that could land");
        return Ok(ExitCode::FAILURE);
    }
    let question = format!("Land {count} names in the project");
    if !review::ask(&question, &format!("landing {count} names"))? {
        talk::say("nothing was landed");
        return Ok(ExitCode::FAILURE);
    }
    land(desk, frozen)
}

/// Freezes what would land, without what is `declined`.
pub(super) fn freeze(
    desk: &Desk,
    paths: &[PathBuf],
    declined: &dyn Fn(&Item) -> bool,
) -> Result<Frozen, CommandError> {
    let mut plan = desk.plan(paths)?;
    plan.decline(declined);
    plan.freeze(&desk.looking().site()).map_err(review::failed)
}

fn land(desk: &Desk, frozen: Frozen) -> Outcome {
    let approval = Approval::by_person(frozen.manifest());
    let approved = frozen.approve(&approval).map_err(review::failed)?;
    let landed = approved
        .land(&desk.looking().site(), Some(desk.journal()))
        .map_err(review::failed)?;
    talk::say(&review::landed(&landed));
    Ok(status(landed.left().count()))
}

/// Zero when nothing was left alone.
pub(super) fn status(left: usize) -> ExitCode {
    if left == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn eprint(text: &str) {
    text.lines().for_each(talk::say);
}
