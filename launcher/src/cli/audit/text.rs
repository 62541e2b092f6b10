//! One line per entry, for people: `time  process  what  to what  outcome [policies]`.

use std::fmt::Write;

use aegis_policies::journal::{Entry, Event, ShadowOp};
use aegis_policies::path::{escape, shorten};
use aegis_policies::{Effect, RelPath};

use super::history::History;
use crate::session::clock::Moment;
use crate::session::summary::count;

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
        let _infallible = write!(line, "  {} [{policies}]", decision.outcome.name());
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
            ("started", shorten(&words.join(" ")).into_owned())
        }
        Event::Ended { status } => ("ended", format!("with status {status}")),
        Event::Shadow(operation) => change(operation),
        Event::Read { path } => ("fs.read", name(path)),
        Event::Written { path, bytes, size } => (
            "fs.write",
            format!("{} ({bytes} bytes written, {size} in all)", name(path)),
        ),
        Event::Refused { effect } => (effect.kind.name(), scope(effect)),
        Event::Blocked { effect, reason } => {
            let shown = escape(reason.as_bytes());
            let end = if reason.starts_with(aegis_egress::FAILED) {
                ""
            } else {
                "stopped: "
            };
            (
                effect.kind.name(),
                format!("{} ({end}{})", scope(effect), shorten(&shown)),
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
                format!(
                    "{}:{port} ({sent} out, {received} in, {millis} ms)",
                    shorten(&host)
                ),
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
            ("net.request", format!("{} ({figures})", shorten(&request)))
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
                format!("{landing} ({})", count(*paths, "path")),
            )
        }
        Event::Snapshot { name, cause } => {
            let named = name
                .as_deref()
                .map_or_else(String::new, |name| format!("{} ", escape(name.as_bytes())));
            ("snapshot", format!("{named}({})", cause.name()))
        }
        Event::Rewound { to } => ("rewound", format!("to entry {to}")),
        other => (other.name(), String::new()),
    })
}

fn change(operation: &ShadowOp) -> (&'static str, String) {
    let path = name(operation.path());
    match operation {
        ShadowOp::CopyUp { .. } => ("fs.write", format!("{path} (copied from the project)")),
        ShadowOp::Create { .. } => ("fs.create", path),
        ShadowOp::Link { from, .. } => ("fs.link", format!("{} -> {path}", name(from))),
        ShadowOp::Remove { .. } => ("fs.remove", path),
        ShadowOp::Rename { from, exchange, .. } => (
            "fs.rename",
            format!(
                "{} {} {path}",
                name(from),
                if *exchange { "<->" } else { "->" }
            ),
        ),
        ShadowOp::SetAttr { .. } => ("fs.meta", path),
        ShadowOp::SetXattr { name, .. } => ("fs.meta", format!("{path} ({})", escape(name))),
        ShadowOp::Fork { .. } => ("fs.write", format!("{path} (copied for a snapshot)")),
        ShadowOp::Name { .. } => ("fs.create", path),
        _ => ("shadow", path),
    }
}

/// A name, fit for one line among others.
fn name(path: &RelPath) -> String {
    shorten(&path.to_string()).into_owned()
}

fn scope(effect: &Effect) -> String {
    shorten(&effect.scope.to_string()).into_owned()
}
