//! `aegis-os sessions`: the list.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use aegis_policies::path::{escape, shorten};
use serde_json::json;

use super::{Outcome, talk};
use crate::session::pending::Pending;
use crate::session::{self, Activity, Listing, Session};

/// Lists the sessions, newest first.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// One JSON object per line and session.
    #[arg(long)]
    json: bool,
}

/// Prints the list.
///
/// # Errors
/// When the sessions can not be read.
pub fn run(args: &Args) -> Outcome {
    let listing = session::list()?;
    talk::print(&if args.json {
        lines(&listing)
    } else {
        table(&listing)
    })?;
    if listing.sessions.is_empty() && listing.damaged.is_empty() {
        talk::say("no sessions; `aegis-os run -- COMMAND` starts one");
    }
    for id in &listing.damaged {
        talk::say(&format!(
            "session `{id}` is damaged; `aegis-os discard {id}` throws it away"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// How a session is doing, in one word or two.
#[must_use]
pub fn activity(session: &Session) -> String {
    match (session.activity(), session.record().status) {
        (Activity::Live, _) => "running".to_owned(),
        (Activity::Interrupted, _) => "interrupted".to_owned(),
        (Activity::Ended, Some(0) | None) => "ended".to_owned(),
        (Activity::Ended, Some(status)) => format!("ended ({status})"),
    }
}

/// The session as one JSON object.
#[must_use]
pub fn object(session: &Session) -> serde_json::Value {
    let record = session.record();
    let activity = match session.activity() {
        Activity::Live => "running",
        Activity::Interrupted => "interrupted",
        Activity::Ended => "ended",
    };
    json!({
        "id": session.id().as_str(),
        "activity": activity,
        "agent": record.agent,
        "project": record.project,
        "command": record.command,
        "created": record.created,
        "ended": record.ended,
        "status": record.status,
        "mount": record.mount,
        "mountpoint": record.mountpoint,
        "access": record.access,
        "server": record.server,
        "features": record.features,
        "enforced": record.enforced,
        "directory": session::Bytes::from(session.dir().root()),
    })
}

fn lines(listing: &Listing) -> String {
    let mut look = Look::new();
    let lines = listing.sessions.iter().map(|session| {
        let pending = look.at(session);
        let mut object = object(session);
        if let Some(fields) = object.as_object_mut() {
            let word = pending.map(Pending::shown);
            fields.insert("changes".to_owned(), word.into());
            fields.insert("to_land".to_owned(), pending.map(to_land).into());
        }
        format!("{object}\n")
    });
    lines.collect()
}

fn to_land(pending: Pending) -> usize {
    match pending {
        Pending::Names(count) => count,
        _ => 0,
    }
}

/// Looks at what sessions have to land, for a bounded time in all.
struct Look(Instant);

impl Look {
    fn new() -> Self {
        Self(Instant::now())
    }

    /// `None` when it is not known, such as of a session that runs.
    fn at(&mut self, session: &Session) -> Option<Pending> {
        let left = ALTOGETHER.saturating_sub(self.0.elapsed());
        Pending::of(session.id(), left.min(EACH))
    }
}

/// How long the list may look at one session.
const EACH: Duration = Duration::from_secs(1);
/// How long it may look at all of them.
const ALTOGETHER: Duration = Duration::from_secs(4);

fn table(listing: &Listing) -> String {
    if listing.sessions.is_empty() {
        return String::new();
    }
    let mut text = row([
        "SESSION",
        "STATE",
        "CHANGES",
        "STARTED (UTC)",
        "AGENT",
        "PROJECT",
    ]);
    let mut look = Look::new();
    for session in &listing.sessions {
        let record = session.record();
        let pending = look.at(session);
        text.push_str(&row([
            session.id().as_str(),
            &activity(session),
            &pending.map_or_else(|| "?".to_owned(), Pending::shown),
            &record.created.readable(),
            &shorten(&escape(record.agent.as_bytes())),
            &shorten(&record.project.shown()),
        ]));
    }
    text
}

fn row([id, state, changes, started, agent, project]: [&str; 6]) -> String {
    let mut line = String::new();
    // Writing to a string can not fail.
    let _ok = writeln!(
        line,
        "{id:20}  {state:12}  {changes:13}  {started:19}  {agent:12}  {project}"
    );
    line
}
