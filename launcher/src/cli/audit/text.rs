//! One line per entry, for people: `time  process  what  to what  outcome [policies]`.

use std::fmt::Write;

use aegis_policies::journal::{Entry, Event, ShadowOp};
use aegis_policies::path::escape;
use aegis_policies::{Effect, Scope};

use super::history::{History, word};
use crate::session::clock::Moment;

/// The line of an entry; `None` for one that only explains others.
pub(super) fn line(entry: &Entry, history: &History) -> Option<String> {
    let (what, to_what) = phrase(&entry.event)?;
    let at = Moment::from_millis(entry.at / 1_000_000).readable();
    let millis = entry.at / 1_000_000 % 1000;
    let process = process(entry, history);
    let mut line = format!("{at}.{millis:03}  {process:<20}  {what:<14}  {to_what}");
    if let Some(decision) = history.decision(entry) {
        let policies = match decision.policies.as_slice() {
            [] => "no policy".to_owned(),
            named => escape(named.join(", ").as_bytes()),
        };
        // Writing to a string does not fail.
        let _infallible = write!(line, "  {} [{policies}]", word(decision.outcome));
    }
    Some(line)
}

/// The process as `number/base name`.
fn process(entry: &Entry, history: &History) -> String {
    if entry.pid == 0 {
        return "aegis-os".to_owned();
    }
    let path = history.executable(entry).unwrap_or_default();
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    format!(
        "{}/{}",
        entry.pid,
        if name.is_empty() {
            "?".to_owned()
        } else {
            escape(name)
        }
    )
}

fn phrase(event: &Event) -> Option<(&'static str, String)> {
    Some(match event {
        Event::Process { .. } | Event::Verdict { .. } => return None,
        Event::Started { command } => {
            let words: Vec<_> = command.iter().map(|word| escape(word)).collect();
            ("started", words.join(" "))
        }
        Event::Ended { status } => ("ended", format!("with status {status}")),
        Event::Shadow(operation) => change(operation),
        Event::Read { path } => ("fs.read", path.to_string()),
        Event::Written { path, bytes, size } => (
            "fs.write",
            format!("{path} ({bytes} bytes written, {size} in all)"),
        ),
        Event::Refused { effect } => (effect.kind.name(), scope(effect)),
        Event::Blocked { effect, reason } => {
            let reason = escape(reason.as_bytes());
            (
                effect.kind.name(),
                format!("{} (stopped: {reason})", scope(effect)),
            )
        }
        Event::Begun { effect } => (effect.kind.name(), format!("{} (begun)", scope(effect))),
        Event::Tunnel {
            host,
            port,
            sent,
            received,
            millis,
        } => {
            let host = escape(host.as_bytes());
            (
                "net.connect",
                format!("{host}:{port} ({sent} out, {received} in, {millis} ms)"),
            )
        }
        Event::Request {
            upstream,
            method,
            path,
            status,
            sent,
            received,
            millis,
        } => {
            let request = escape(format!("{upstream} {method} {path}").as_bytes());
            let figures = format!("{status}, {sent} out, {received} in, {millis} ms");
            ("net.request", format!("{request} ({figures})"))
        }
        Event::Landed {
            landing,
            paths,
            undo,
            ..
        } => {
            let landing = escape(landing.as_bytes());
            (
                if *undo { "undone" } else { "landed" },
                format!("{landing} ({paths} paths)"),
            )
        }
        other => (other.name(), String::new()),
    })
}

fn change(operation: &ShadowOp) -> (&'static str, String) {
    let path = operation.path();
    match operation {
        ShadowOp::CopyUp { .. } => ("fs.write", format!("{path} (copied from the project)")),
        ShadowOp::Create { .. } => ("fs.create", path.to_string()),
        ShadowOp::Link { from, .. } => ("fs.link", format!("{from} -> {path}")),
        ShadowOp::Remove { .. } => ("fs.remove", path.to_string()),
        ShadowOp::Rename { from, exchange, .. } => (
            "fs.rename",
            format!("{from} {} {path}", if *exchange { "<->" } else { "->" }),
        ),
        ShadowOp::SetAttr { .. } => ("fs.meta", path.to_string()),
        ShadowOp::SetXattr { name, .. } => ("fs.meta", format!("{path} ({})", escape(name))),
        _ => ("shadow", path.to_string()),
    }
}

fn scope(effect: &Effect) -> String {
    match &effect.scope {
        Scope::Shadow { path, .. } | Scope::Project { path, .. } => path.to_string(),
        Scope::Endpoint { host, port, .. } => format!("{}:{port}", escape(host.as_bytes())),
        Scope::Request {
            upstream,
            method,
            path,
        } => escape(format!("{upstream} {method} {path}").as_bytes()),
        other => other.class().to_owned(),
    }
}
