//! `aegis-os status`: one session in detail.

mod served;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;

use aegis_policies::path::{escape, shorten};
use serde_json::json;

use super::sessions::{activity, object};
use super::{Outcome, talk};
use crate::error::CommandError;
use crate::session::pending::unlanded;
use crate::session::record::MountMode;
use crate::session::summary::{self, Counts, Effects, Span, Tally};
use crate::session::torn::torn;
use crate::session::{self, Access, Record, Session};

pub use served::lines as served_lines;

/// Shows one session: its state, what it changed, what it was refused.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, or the first letters of its id.
    session: Option<String>,
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

/// Prints the session.
///
/// # Errors
/// When the session can not be read.
pub fn run(args: &Args) -> Outcome {
    let session = session::look_up(args.session.as_deref())?;
    let text = if args.json {
        as_json(&session)?
    } else {
        as_text(&session)?
    };
    talk::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn as_text(session: &Session) -> Result<String, CommandError> {
    let record = session.record();
    let command: Vec<_> = record.command.iter().map(session::Bytes::shown).collect();
    let mut text = format!("session  {}\n", session.id());
    let fields = [
        ("state", activity(session)),
        ("project", record.project.shown()),
        ("agent", escape(record.agent.as_bytes())),
        ("command", command.join(" ")),
        ("started", format!("{} UTC", record.created.readable())),
        ("tier", tier(record)),
    ];
    for (title, value) in fields {
        let _ok = writeln!(text, "{title:8} {}", shorten(&value));
    }
    for (title, content) in served_lines(record.features.as_ref()) {
        let _ok = writeln!(text, "{title:8} {content}");
    }
    let changes = session::changes(session)?;
    for path in torn(session, &changes)? {
        let name = path.to_string();
        let name = shorten(&name);
        let _ok = writeln!(text, "torn     {name}: {TORN}");
    }
    let changed = unlanded(session, changes)?;
    for (title, content) in summary::lines(&changed, &Effects::read(session, Span::Whole)?) {
        let _ok = writeln!(text, "{title:8} {content}");
    }
    Ok(text)
}

/// What a person is told about a file of which a part is lost.
const TORN: &str = "the host's file changed before all of it was copied; what is missing can not be \
    read or landed, so write the file anew or remove it in the session";

/// What the kernel enforced in the last run, with what was missing.
fn tier(record: &Record) -> String {
    if record.command.is_empty() {
        return match record.access {
            Access::Shadow => "none: a mount without a sandbox".to_owned(),
            Access::ReadOnly => "none: a read-only mount without a sandbox".to_owned(),
        };
    }
    let Some(enforced) = &record.enforced else {
        return "none: nothing has run".to_owned();
    };
    let mount = match record.mount {
        MountMode::Namespace | MountMode::Direct => "private mount",
        MountMode::Fusermount => "mount by fusermount3",
    };
    let mut tier = format!(
        "enforced ({mount}, seccomp, Landlock ABI {})",
        enforced.landlock
    );
    for missing in &enforced.missing {
        let _ok = write!(tier, "; missing: {missing}");
    }
    tier
}

/// Tallies as objects; `second` names the second half of their key.
fn tallies(tallies: &BTreeMap<(&'static str, String), Tally>, second: &str) -> serde_json::Value {
    tallies
        .iter()
        .map(|((kind, why), tally)| {
            json!({"kind": kind, second: why, "count": tally.count, "first": tally.first})
        })
        .collect()
}

fn as_json(session: &Session) -> Result<String, CommandError> {
    let changes = session::changes(session)?;
    let torn = torn(session, &changes)?;
    let counts = Counts::of(&unlanded(session, changes)?);
    let effects = Effects::read(session, Span::Whole)?;
    let mut object = object(session);
    if let Some(fields) = object.as_object_mut() {
        fields.insert(
            "changed".to_owned(),
            json!({
                "created": counts.created,
                "modified": counts.modified,
                "moved": counts.moved,
                "deleted": counts.deleted,
            }),
        );
        let landed = effects.landings.last();
        let landed = landed.map(|at| json!({"names": effects.landings.names(), "at": at}));
        fields.insert("landed".to_owned(), landed.into());
        fields.insert(
            "torn".to_owned(),
            json!(torn.iter().map(ToString::to_string).collect::<Vec<_>>()),
        );
        fields.insert("refused".to_owned(), tallies(&effects.refused, "policies"));
        fields.insert("failed".to_owned(), tallies(&effects.failed, "reason"));
        fields.insert("connections".to_owned(), json!(effects.connections));
        fields.insert("requests".to_owned(), json!(effects.requests));
    }
    Ok(format!("{object}\n"))
}
