//! `aegis-os snapshots`: what a session can go back to.

use std::fmt::Write;
use std::process::ExitCode;

use aegisfs::overlay::Snapshot;
use aegisfs::overlay::past::{Closeness, Difference, Past};
use serde_json::json;

use super::{Outcome, talk};
use crate::error::CommandError;
use crate::review::Looking;
use crate::session::clock::Moment;
use crate::session::positions;
use crate::session::serve::ServeError;

/// Lists the snapshots of a session, oldest first, with what has changed since.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, or the first letters of its id.
    session: Option<String>,
    /// One JSON object per line and snapshot.
    #[arg(long)]
    json: bool,
}

/// Prints the list.
///
/// # Errors
/// When the session can not be read.
pub fn run(args: &Args) -> Outcome {
    let looking = Looking::at(args.session.as_deref())?;
    let snapshots = positions::snapshots(looking.session())?.kept;
    let now = positions::open(looking.session(), looking.project(), None)?;
    if !args.json && !snapshots.is_empty() {
        talk::print(&row([
            "ENTRY",
            "TAKEN (UTC)",
            "NAME OR CAUSE",
            "SINCE THEN",
        ]))?;
    }
    for snapshot in &snapshots {
        let since = since(&looking, snapshot, &now)?;
        talk::print(&if args.json {
            object(snapshot, since)
        } else {
            line(snapshot, since)
        })?;
    }
    if snapshots.is_empty() {
        talk::say("no snapshots; `aegis-os snapshot` takes one");
    }
    Ok(ExitCode::SUCCESS)
}

/// How many names differ now.
#[derive(Clone, Copy, Debug, Default)]
struct Since {
    created: usize,
    changed: usize,
    removed: usize,
}

fn since(looking: &Looking, snapshot: &Snapshot, now: &Past<'_>) -> Result<Since, CommandError> {
    let then = positions::open(looking.session(), looking.project(), Some(snapshot.seq))?;
    let differences = then.differences(now, Closeness::Files);
    let mut since = Since::default();
    for Difference { before, after, .. } in differences.map_err(ServeError::from)? {
        match (before, after) {
            (None, _) => since.created += 1,
            (_, None) => since.removed += 1,
            _ => since.changed += 1,
        }
    }
    Ok(since)
}

fn line(snapshot: &Snapshot, since: Since) -> String {
    let Since {
        created,
        changed,
        removed,
    } = since;
    row([
        &snapshot.seq.to_string(),
        &Moment::from_millis(snapshot.at / 1_000_000).readable(),
        &positions::word(snapshot),
        &format!("{created} created, {changed} changed, {removed} removed"),
    ])
}

fn object(snapshot: &Snapshot, since: Since) -> String {
    let object = json!({
        "entry": snapshot.seq,
        "at": snapshot.at,
        "name": snapshot.name,
        "cause": snapshot.cause.name(),
        "since": {
            "created": since.created,
            "changed": since.changed,
            "removed": since.removed,
        },
    });
    format!("{object}\n")
}

fn row([entry, taken, name, since]: [&str; 4]) -> String {
    let mut line = String::new();
    // Writing to a string can not fail.
    let _ok = writeln!(line, "{entry:>8}  {taken:19}  {name:20}  {since}");
    line
}
