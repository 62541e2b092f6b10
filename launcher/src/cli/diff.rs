//! `aegis-os diff`: what the agent changed.

use std::path::PathBuf;
use std::process::ExitCode;

use aegis_policies::RelPath;
use aegisfs::overlay::past::{Closeness, Difference};

use super::Outcome;
use crate::error::CommandError;
use crate::review::{self, Looking, Style};
use crate::session::positions;
use crate::session::serve::ServeError;

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
    /// Since a snapshot of the session (its name, or the number of an entry) instead of since the
    /// session began; with what has changed in `.git`.
    #[arg(long, value_name = "SNAPSHOT")]
    since: Option<String>,
    /// Only these files and folders.
    paths: Vec<PathBuf>,
}

/// Prints the changes.
///
/// # Errors
/// When the session can not be read.
pub fn run(args: &Args) -> Outcome {
    let looking = Looking::at(args.session.as_deref())?;
    let site = looking.site();
    let sheet = match &args.since {
        Some(since) => review::of_differences(&site, &differences(&looking, since, &args.paths)?),
        None => review::of_plan(&site, &looking.plan(&args.paths)?),
    };
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

/// What differs between a snapshot and the present tree.
fn differences(
    looking: &Looking,
    since: &str,
    paths: &[PathBuf],
) -> Result<Vec<Difference>, CommandError> {
    let (session, project) = (looking.session(), looking.project());
    let select = looking.select(paths)?;
    let entry = positions::entry(session, since)?;
    let then = positions::open(session, project, Some(entry))?;
    let now = positions::open(session, project, None)?;
    let found = then.differences(&now, Closeness::Bytes);
    let mut found = found.map_err(ServeError::from)?;
    let wanted = |path: &RelPath| select.iter().any(|folder| path.starts_with(folder));
    found.retain(|one| select.is_empty() || wanted(&one.path));
    Ok(found)
}
