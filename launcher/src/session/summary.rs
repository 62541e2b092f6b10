//! What a session did, in a few lines: from its journal and its tree.

mod counts;
mod effects;

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use aegis_policies::path::shorten;
use aegisfs::overlay::changes::Change;

pub use counts::{Counts, count};
pub use effects::{Effects, Landings, Span, Tally};

use super::launch::Finished;
use super::pending::{unlanded, within};
use super::{Session, changes, look_up};
use crate::error::CommandError;
use counts::{is_git_record, work};

/// Lines, each with its title.
pub type Lines = Vec<(&'static str, String)>;

/// How long the end of a run may wait for what it did: a command that is over should not seem to
/// hang.
const PATIENCE: Duration = Duration::from_secs(3);
const TOO_MUCH: &str = "more than could be counted in 3 seconds; `aegis-os status` takes its time";
/// How many names a line shows before it only counts.
const SHOWN: usize = 4;

/// The lines that end a run.
///
/// # Errors
/// When the session's journal or tree can not be read.
pub fn of_run(finished: Finished) -> Result<String, CommandError> {
    let session = Arc::new(finished.session);
    let mut text = format!("aegis-os: session {}", session.id());
    if finished.status != 0 {
        let _ok = write!(text, " (exit status {})", finished.status);
    }
    let looked_at = Arc::clone(&session);
    let (mut shown, has_changes) = match within(PATIENCE, move || look(&looked_at)) {
        Some(seen) => seen?,
        None => (vec![("changed", TOO_MUCH.to_owned())], true),
    };
    shown.push(("next", next(&session, has_changes)));
    for (title, content) in shown {
        let _ok = write!(text, "\n  {title:8} {content}");
    }
    Ok(text)
}

fn look(session: &Session) -> Result<(Lines, bool), CommandError> {
    let effects = Effects::read(session, Span::LastRun)?;
    let mut changed = changes(session)?;
    if effects.landings.last().is_some() {
        changed = unlanded(session, changed)?;
    }
    Ok((lines(&changed, &effects), !changed.is_empty()))
}

/// What changed, was refused and went over the network, each line with its title.
#[must_use]
pub fn lines(changed: &[Change], effects: &Effects) -> Lines {
    let mut lines = vec![("changed", shown_changes(changed))];
    if let Some(last) = effects.landings.last() {
        let names = count(effects.landings.names(), "name");
        lines.push(("landed", format!("{names}, {} UTC", last.readable())));
    }
    let titles = std::iter::once("refused").chain(std::iter::repeat(""));
    for (title, ((kind, policies), tally)) in titles.zip(&effects.refused) {
        lines.push((title, shown_refusal(kind, policies, tally)));
    }
    let requests = effects
        .requests
        .iter()
        .map(|(name, times)| format!("{} ({})", shorten(name), count(*times, "request")));
    let tunnels = effects
        .connections
        .iter()
        .map(|(name, times)| format!("{} ({})", shorten(name), count(*times, "connection")));
    let network: Vec<_> = requests.chain(tunnels).collect();
    if !network.is_empty() {
        lines.push(("network", network.join(", ")));
    }
    let titles = std::iter::once("failed").chain(std::iter::repeat(""));
    for (title, ((kind, reason), tally)) in titles.zip(&effects.failed) {
        lines.push((title, shown_refusal(kind, reason, tally)));
    }
    lines
}

fn shown_changes(changed: &[Change]) -> String {
    let records = if changed.iter().any(is_git_record) {
        "git's records"
    } else {
        ""
    };
    let names: Vec<_> = work(changed).map(|change| &change.path).collect();
    if names.is_empty() {
        return if records.is_empty() {
            "nothing".to_owned()
        } else {
            records.to_owned()
        };
    }
    let first = names
        .iter()
        .take(SHOWN)
        .map(|path| shorten(&path.to_string()).into_owned())
        .collect::<Vec<_>>()
        .join(", ");
    let more = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let and = if records.is_empty() { "" } else { "; " };
    format!(
        "{}: {first}{more}{and}{records}",
        Counts::of(changed).shown()
    )
}

fn shown_refusal(kind: &str, policies: &str, tally: &Tally) -> String {
    let names: Vec<_> = tally
        .first
        .iter()
        .take(SHOWN)
        .map(|name| shorten(name))
        .collect();
    let dots = if tally.first.len() > SHOWN {
        ", ..."
    } else {
        ""
    };
    let by = if policies.is_empty() {
        "no policy permits it".into()
    } else {
        shorten(policies)
    };
    format!(
        "{} x {kind}: {}{dots} ({by})",
        tally.count,
        names.join(", ")
    )
}

/// The commands that make sense now; they name the session when another one would be meant.
fn next(session: &Session, has_changes: bool) -> String {
    let is_meant = look_up(None).is_ok_and(|meant| meant.id() == session.id());
    let (option, argument) = if is_meant {
        (String::new(), String::new())
    } else {
        (
            format!(" --session {}", session.id()),
            format!(" {}", session.id()),
        )
    };
    if has_changes {
        format!(
            "`aegis-os diff{option}`, `aegis-os review{option}`, `aegis-os land{option}` or \
             `aegis-os discard{argument}`"
        )
    } else {
        format!("`aegis-os audit{argument}` or `aegis-os discard{argument}`")
    }
}

#[cfg(test)]
mod tests {
    use aegis_policies::RelPath;
    use aegis_policies::journal::NodeKind;
    use aegisfs::overlay::changes::After;

    use super::*;

    #[test]
    fn refusals_are_counted_and_a_few_are_named() {
        let mut tally = Tally::default();
        for number in 0..9 {
            tally.add(format!("f{}", number % 6));
        }
        let shown = shown_refusal("fs.write", "vcs.locked", &tally);
        assert_eq!(shown, "9 x fs.write: f0, f1, f2, f3, ... (vcs.locked)");
    }

    #[test]
    fn long_names_do_not_make_long_lines() {
        let long = "x".repeat(30_000);
        let mut effects = Effects::default();
        let mut tally = Tally::default();
        (0..4).for_each(|number| tally.add(format!("{number}{long}")));
        effects.refused.insert(("fs.write", long.clone()), tally);
        effects.connections.insert(long.clone(), 1);
        let path = RelPath::parse(long.as_bytes()).unwrap();
        let changed = Change {
            path,
            before: None,
            after: Some(After {
                kind: NodeKind::Directory,
                mode: 0o755,
                content: None,
                node: 1,
            }),
            moved_from: None,
        };
        for (_, line) in lines(&[changed], &effects) {
            assert!(line.len() < 1500, "{}", line.len());
        }
    }
}
