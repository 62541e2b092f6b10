//! What became of a landing or of its reversal.

use std::fmt::Write;

use aegis_policies::path::escape;
use aegisfs::commit::{Done, Landed};

use super::text::left_lines;

/// The lines after a landing.
#[must_use]
pub fn landed(landed: &Landed) -> String {
    let mut text = format!("landed {} (landing {})", names(landed.changed()), landed.id);
    let merged = landed
        .results
        .iter()
        .filter(|outcome| outcome.result == Ok(Done::Merged));
    for outcome in merged {
        let _ok = write!(text, "\n  merged   {}", outcome.path);
    }
    push_left(&mut text, landed);
    push_unfinished(&mut text, landed);
    if landed.changed() > 0 {
        text.push_str("\n  `aegis-os undo` takes it back");
    }
    text
}

/// The lines after a reversal.
#[must_use]
pub fn undone(landed: &Landed) -> String {
    let mut text = format!("took {} back", names(landed.changed()));
    push_left(&mut text, landed);
    push_unfinished(&mut text, landed);
    text
}

/// The names have changed all the same; what is still to be done is done by the next command that
/// works on the session.
fn push_unfinished(text: &mut String, landed: &Landed) {
    for why in &landed.unfinished {
        let _ok = write!(text, "\nnot finished: {}", escape(why.as_bytes()));
    }
}

fn push_left(text: &mut String, landed: &Landed) {
    let left = landed.left().count();
    if left == 0 {
        return;
    }
    let _ok = write!(text, "\nleft {} alone:", names(left));
    let left = landed
        .left()
        .map(|(outcome, reason)| (&outcome.path, reason));
    for line in left_lines(left) {
        let _ok = write!(text, "\n{line}");
    }
}

fn names(count: usize) -> String {
    if count == 1 {
        "1 name".to_owned()
    } else {
        format!("{count} names")
    }
}
