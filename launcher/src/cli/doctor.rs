//! `aegis-os doctor`: what this machine offers.

use std::process::ExitCode;

use super::{Outcome, talk};
use crate::doctor;

/// Tries what a session needs, and says what is missing and how to get it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

/// Prints the findings; exit status 1 when sessions can not run here.
///
/// # Errors
/// When the findings can not be printed.
pub fn run(args: &Args) -> Outcome {
    let examination = doctor::examine();
    let shown = if args.json {
        doctor::as_json
    } else {
        doctor::as_text
    };
    talk::print(&shown(&examination))?;
    Ok(if examination.is_fit() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
