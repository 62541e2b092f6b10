//! `aegis-os diff`: what the agent changed.

use std::path::PathBuf;
use std::process::ExitCode;

use super::Outcome;
use crate::review::{self, Looking, Style};

/// Shows what a session changed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, or the first letters of its id.
    #[arg(long, short)]
    session: Option<String>,
    /// Counts of lines instead of the lines.
    #[arg(long, conflicts_with = "json")]
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
pub fn run(args: &Args) -> Outcome {
    let looking = Looking::at(args.session.as_deref())?;
    let plan = looking.plan(&args.paths)?;
    let sheet = review::of_plan(&looking.site(), &plan);
    let style = Style::of_stdout();
    if args.json {
        review::as_json(&sheet).try_for_each(|line| super::talk::print(&line))?;
    } else if sheet.is_empty() {
        super::talk::say(&format!(
            "session `{}` changed nothing",
            looking.session().id()
        ));
    } else if args.stat {
        super::talk::print(&review::as_stat(&sheet, style))?;
    } else {
        review::show(|| review::as_text(&sheet, style))?;
    }
    Ok(ExitCode::SUCCESS)
}
