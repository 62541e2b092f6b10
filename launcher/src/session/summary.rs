//! What a session did, in a few lines: from its journal and its tree.

mod counts;
mod effects;

use std::fmt::Write;

use aegisfs::overlay::changes::Change;

pub use counts::Counts;
pub use effects::{Effects, Span, Tally};

use super::launch::Finished;
use super::{Session, changes, find};
use crate::error::CommandError;
use counts::{is_git_record, work};

/// How many names a line shows before it only counts.
const SHOWN: usize = 4;

/// The lines that end a run.
///
/// # Errors
/// When the session's journal or tree can not be read.
pub fn of_run(finished: &Finished) -> Result<String, CommandError> {
    let session = &finished.session;
    let changed = changes(session)?;
    let mut text = format!("aegis-os: session {}", session.id());
    if finished.status != 0 {
        let _ok = write!(text, " (exit status {})", finished.status);
    }
    let mut shown = lines(&changed, &Effects::read(session, Span::LastRun)?);
    shown.push(("next", next(session, !changed.is_empty())));
    for (title, content) in shown {
        let _ok = write!(text, "\n  {title:8} {content}");
    }
    Ok(text)
}

/// What changed, was refused and went over the network, each line with its title.
#[must_use]
pub fn lines(changed: &[Change], effects: &Effects) -> Vec<(&'static str, String)> {
    let mut lines = vec![("changed", shown_changes(changed))];
    let titles = std::iter::once("refused").chain(std::iter::repeat(""));
    for (title, ((kind, policies), tally)) in titles.zip(&effects.refused) {
        lines.push((title, shown_refusal(kind, policies, tally)));
    }
    let requests = effects
        .requests
        .iter()
        .map(|(name, count)| format!("{name} ({count} requests)"));
    let tunnels = effects
        .connections
        .iter()
        .map(|(name, count)| format!("{name} ({count} connections)"));
    let network: Vec<_> = requests.chain(tunnels).collect();
    if !network.is_empty() {
        lines.push(("network", network.join(", ")));
    }
    lines
}

fn shown_changes(changed: &[Change]) -> String {
    let records = if changed.iter().any(is_git_record) {
        "git's records"
    } else {
        ""
    };
    let names: Vec<_> = work(changed)
        .map(|change| change.path.to_string())
        .collect();
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
        .cloned()
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
    let names: Vec<_> = tally.first.iter().take(SHOWN).cloned().collect();
    let dots = if tally.first.len() > SHOWN {
        ", ..."
    } else {
        ""
    };
    let by = if policies.is_empty() {
        "no policy permits it"
    } else {
        policies
    };
    format!(
        "{} x {kind}: {}{dots} ({by})",
        tally.count,
        names.join(", ")
    )
}

/// The commands that make sense now; they name the session when another one would be meant.
fn next(session: &Session, has_changes: bool) -> String {
    let is_meant = find(None).is_ok_and(|meant| meant.id() == session.id());
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
}
