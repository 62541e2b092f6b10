//! A review as text.

use std::fmt::Write;

use aegis_policies::RelPath;
use aegis_policies::path::escape;
use aegisfs::commit::{Carried, Reason, State};

use super::hunks::{self, Counts};
use super::sheet::{Content, Sheet, Shown, Side};
use super::style::{Ink, Style};

/// Everything, piece by piece: first what does not land and what needs a look, then the changes with
/// their lines.
pub fn as_text<'a>(sheet: &'a Sheet<'_>, style: Style) -> impl Iterator<Item = String> + 'a {
    let changes = sheet.changes.iter().map(move |change| {
        let mut text = String::new();
        push_change(&mut text, sheet, change, style);
        text
    });
    std::iter::once(notices(sheet, style)).chain(changes)
}

/// The notices, and one line for each change.
#[must_use]
pub fn as_stat(sheet: &Sheet<'_>, style: Style) -> String {
    let mut text = notices(sheet, style);
    let mut total = Counts::default();
    for change in &sheet.changes {
        let shown = match lines_of(sheet, change) {
            Some(Counts { added, removed }) => {
                total.added += added;
                total.removed += removed;
                let added = style.paint(Ink::Added, &format!("{:>6}", format!("+{added}")));
                let removed = style.paint(Ink::Removed, &format!("{:>6}", format!("-{removed}")));
                format!("{added} {removed}")
            }
            None => format!("{:>13}", noun(change)),
        };
        let word = change.action.word();
        line(&mut text, &format!("{shown}  {word:7} {}", title(change)));
    }
    let (names, Counts { added, removed }) = (sheet.changes.len(), total);
    line(
        &mut text,
        &format!("{names} names, +{added} -{removed} lines"),
    );
    text
}

/// What a person is asked about, in a few lines.
#[must_use]
pub fn summary(sheet: &Sheet<'_>, style: Style) -> String {
    let mut text = notices(sheet, style);
    for change in sheet.changes.iter().take(SHOWN) {
        let note = change.note.map(|note| format!(" ({note})"));
        let note = note.unwrap_or_default();
        line(
            &mut text,
            &format!("  {:7} {}{note}", change.action.word(), title(change)),
        );
    }
    if let Some(more) = sheet
        .changes
        .len()
        .checked_sub(SHOWN)
        .filter(|more| *more > 0)
    {
        line(&mut text, &format!("  and {more} more"));
    }
    text
}

/// How many changes a summary names.
const SHOWN: usize = 40;

fn notices(sheet: &Sheet<'_>, style: Style) -> String {
    let mut text = String::new();
    if !sheet.left.is_empty() {
        let head = format!("{} will not land:", sheet.left.len());
        line(&mut text, &style.paint(Ink::Warning, &head));
        let left = sheet.left.iter().map(|(path, _, reason)| (path, reason));
        left_lines(left)
            .iter()
            .for_each(|left| line(&mut text, left));
    }
    text.push_str(&sensitive(sheet, style));
    push_repository(&mut text, sheet, style);
    text
}

/// What a person's own tools will run or trust; empty when there is nothing of the kind.
#[must_use]
pub fn sensitive(sheet: &Sheet<'_>, style: Style) -> String {
    let mut text = String::new();
    let sensitive: Vec<_> = sheet
        .changes
        .iter()
        .filter(|change| change.is_sensitive)
        .collect();
    if !sensitive.is_empty() {
        let head = format!("{} that your own tools run or trust:", sensitive.len());
        line(&mut text, &style.paint(Ink::Warning, &head));
    }
    for change in sensitive {
        let labels: Vec<_> = change.labels.iter().map(|label| label.name()).collect();
        let labels = labels.join(", ");
        line(
            &mut text,
            &format!("  {:7} {} ({labels})", change.action.word(), title(change)),
        );
    }
    let carried = sheet.carried.iter().filter(|carried| carried.sensitive);
    let carried: Vec<_> = carried.collect();
    if !carried.is_empty() {
        let head = format!(
            "{} that git would bring later, with a reset or a checkout, and that your own tools run \
             or trust:",
            carried.len()
        );
        line(&mut text, &style.paint(Ink::Warning, &head));
    }
    carried
        .iter()
        .for_each(|carried| line(&mut text, &carried_line(carried)));
    text
}

/// One line for each name that does not land; the repository's records that only follow another of
/// them are counted.
pub(super) fn left_lines<'a>(left: impl Iterator<Item = (&'a RelPath, &'a Reason)>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut together = 0;
    for (path, reason) in left {
        if matches!(reason, Reason::GitTogether(_)) {
            together += 1;
            continue;
        }
        let why = escape(reason.to_string().as_bytes());
        lines.push(format!("  {:8} {path}: {why}", kind(reason)));
    }
    if together > 0 {
        lines.push(format!(
            "  conflict {together} more records of the repository: its references, HEAD and index \
             land together or not at all; the agent's commits stay in the session"
        ));
    }
    lines
}

fn push_repository(text: &mut String, sheet: &Sheet<'_>, style: Style) {
    for advance in &sheet.advances {
        let branch = advance
            .reference
            .strip_prefix("heads/")
            .unwrap_or(&advance.reference);
        let commits = match advance.commits {
            0 => "moves to a commit that is there".to_owned(),
            1 => "1 commit".to_owned(),
            commits => format!("{commits} commits"),
        };
        let head = format!("branch {}: {commits}", escape(branch.as_bytes()));
        line(text, &style.paint(Ink::Head, &head));
        if advance.dropped > 0 {
            let dropped = format!("  drops {} commits that it has now", advance.dropped);
            line(text, &style.paint(Ink::Warning, &dropped));
        }
        advance
            .summaries
            .iter()
            .for_each(|summary| line(text, &format!("  {summary}")));
    }
    for moved in &sheet.moves {
        let side = |side: &Option<String>| side.as_deref().map(escaped);
        let (old, new) = (side(&moved.old), side(&moved.new));
        let (old, new) = (old.as_deref(), new.as_deref());
        let (old, new) = (old.unwrap_or("nothing"), new.unwrap_or("nothing"));
        line(text, &format!("  {}: {old} -> {new}", escaped(&moved.name)));
    }
    if sheet.moves.is_empty() {
        for (path, action) in &sheet.references {
            line(text, &format!("  {:7} {path}", action.word()));
        }
    }
    let carried = sheet.carried.iter().filter(|carried| !carried.sensitive);
    let carried: Vec<_> = carried.collect();
    if !carried.is_empty() {
        let count = carried.len();
        let head =
            format!("{count} others that git would bring later, with a reset or a checkout:");
        line(text, &style.paint(Ink::Head, &head));
    }
    for carried in carried.iter().take(SHOWN) {
        line(text, &carried_line(carried));
    }
    if let Some(more @ 1..) = carried.len().checked_sub(SHOWN) {
        line(text, &format!("  in commits only: {more} more"));
    }
    if sheet.records > 0 && sheet.advances.is_empty() {
        let records = sheet.records;
        line(text, &format!("{records} records and objects in `.git`"));
    }
}

/// One path that lands with commits or the index and is nowhere among the files.
fn carried_line(carried: &Carried) -> String {
    let place = if carried.within == "index" {
        "in the index only"
    } else {
        "in commits only"
    };
    let mut notes = vec![escaped(&carried.within)];
    if carried.removes {
        notes.push("removes it".to_owned());
    }
    if carried.sensitive {
        let labels: Vec<_> = carried.labels.iter().map(|label| label.name()).collect();
        notes.push(format!("sensitive: {}", labels.join(", ")));
    }
    format!("  {place}: {} ({})", carried.path, notes.join("; "))
}

fn escaped(text: &str) -> String {
    escape(text.as_bytes())
}

/// `conflict` or `refused`.
pub(super) const fn kind(reason: &Reason) -> &'static str {
    if reason.is_conflict() {
        "conflict"
    } else {
        "refused"
    }
}

fn title(change: &Shown) -> String {
    match &change.moved_from {
        Some(from) => format!("{from} -> {}", change.path),
        None => change.path.to_string(),
    }
}

fn push_change(text: &mut String, sheet: &Sheet<'_>, change: &Shown, style: Style) {
    let old_name = change.moved_from.as_ref().unwrap_or(&change.path);
    let mut head = vec![format!("diff --git a/{old_name} b/{}", change.path)];
    head.extend(modes(change));
    if let Some(from) = &change.moved_from {
        head.push(format!("rename from {from}"));
        head.push(format!("rename to {}", change.path));
    }
    if let Some(note) = change.note {
        head.push(format!("({note})"));
    }
    head.iter()
        .for_each(|head| line(text, &style.paint(Ink::Head, head)));
    match (&change.old.state, &change.new.state) {
        (State::Symlink { .. }, _) | (_, State::Symlink { .. }) => push_links(text, change, style),
        _ => push_content(text, sheet, change, style),
    }
}

/// The lines of a git header that tell modes, with the type as git counts it.
fn modes(change: &Shown) -> Vec<String> {
    let moved = change.moved_from.is_some();
    match (mode(&change.old.state), mode(&change.new.state)) {
        (None, Some(new)) if !moved => vec![format!("new {} mode {new}", change.new.state.noun())],
        (Some(old), None) => vec![format!("deleted {} mode {old}", change.old.state.noun())],
        (Some(old), Some(new)) if old != new => {
            vec![format!("old mode {old}"), format!("new mode {new}")]
        }
        _ => Vec::new(),
    }
}

fn mode(state: &State) -> Option<String> {
    match state {
        State::Absent => None,
        State::File { mode, .. } => Some(format!("10{mode:04o}")),
        State::Symlink { .. } => Some("120000".to_owned()),
        State::Directory { mode } => Some(format!("04{mode:04o}")),
        State::Other => Some("special".to_owned()),
    }
}

fn push_links(text: &mut String, change: &Shown, style: Style) {
    for (side, sign, ink) in [
        (&change.old, '-', Ink::Removed),
        (&change.new, '+', Ink::Added),
    ] {
        if let State::Symlink { target } = &side.state {
            line(
                text,
                &style.paint(ink, &format!("{sign}link to {}", escape(target))),
            );
        } else if side.state != State::Absent {
            line(text, &style.paint(ink, &format!("{sign}{}", side.state)));
        }
    }
}

fn push_content(text: &mut String, sheet: &Sheet<'_>, change: &Shown, style: Style) {
    if change.old.state.sha256() == change.new.state.sha256() {
        return;
    }
    let (old, new) = sheet.open(change);
    match (bytes(&old), bytes(&new)) {
        (Some(was), Some(is)) if hunks::is_text(was) && hunks::is_text(is) => {
            let name = |content: &Content, prefix: &str, path: &RelPath| match content {
                Content::None => "/dev/null".to_owned(),
                _ => format!("{prefix}/{path}"),
            };
            let from = change.moved_from.as_ref().unwrap_or(&change.path);
            let names = [
                format!("--- {}", name(&old, "a", from)),
                format!("+++ {}", name(&new, "b", &change.path)),
            ];
            names
                .iter()
                .for_each(|name| line(text, &style.paint(Ink::Head, name)));
            text.push_str(&hunks::unified(was, is, style));
        }
        _ => push_whole(text, change, (&old, &new), style),
    }
}

/// What is not shown by lines: sizes and hashes.
fn push_whole(text: &mut String, change: &Shown, sides: (&Content, &Content), style: Style) {
    for (content, state, sign, ink) in [
        (sides.0, &change.old.state, '-', Ink::Removed),
        (sides.1, &change.new.state, '+', Ink::Added),
    ] {
        let size = match content {
            Content::None => continue,
            Content::Bytes(bytes) => format!("{} bytes", bytes.len()),
            Content::Large(size) => format!("{size} bytes, too large to show"),
            Content::Unreadable(why) => format!("can not be read: {}", escape(why.as_bytes())),
        };
        let hash = state.sha256().map(|sha256| format!(", SHA-256 {sha256}"));
        let hash = hash.unwrap_or_default();
        let shown = format!("{sign}binary or large: {size}{hash}");
        line(text, &style.paint(ink, &shown));
    }
}

fn bytes(content: &Content) -> Option<&[u8]> {
    match content {
        Content::None => Some(b""),
        Content::Bytes(bytes) => Some(bytes),
        Content::Large(_) | Content::Unreadable(_) => None,
    }
}

/// How many lines come and go, where lines mean something.
pub(super) fn lines_of(sheet: &Sheet<'_>, change: &Shown) -> Option<Counts> {
    let is_file = |side: &Side| matches!(side.state, State::File { .. } | State::Absent);
    if !is_file(&change.old) || !is_file(&change.new) {
        return None;
    }
    let (old, new) = sheet.open(change);
    let (old, new) = (bytes(&old)?, bytes(&new)?);
    let text = hunks::is_text(old) && hunks::is_text(new);
    text.then(|| hunks::count(old, new))
}

/// The word for what is there without lines, or for what was.
const fn noun(change: &Shown) -> &'static str {
    match (&change.new.state, &change.old.state) {
        (State::Absent, old) => old.noun(),
        (State::File { .. }, _) => "binary",
        (new, _) => new.noun(),
    }
}

fn line(text: &mut String, line: &str) {
    // Writing into memory does not fail.
    let _written = writeln!(text, "{line}");
}
