//! A review as data: one JSON object per changed name.

use aegis_policies::RelPath;
use aegis_policies::path::hex;
use aegisfs::commit::{Carried, State};
use serde_json::{Map, Value, json};

use super::sheet::{Sheet, Shown};
use super::text::{kind, lines_of};

/// One line for each change, then one for each name that does not land.
pub fn as_json<'a>(sheet: &'a Sheet<'_>) -> impl Iterator<Item = String> + 'a {
    let changes = sheet.changes.iter().map(move |shown| change(sheet, shown));
    let left = sheet.left.iter().map(|(path, action, reason)| {
        let mut object = name(path);
        object.insert("action".into(), action.word().into());
        object.insert("left".into(), kind(reason).into());
        object.insert("reason".into(), reason.to_string().into());
        object
    });
    let moves = sheet.moves.iter().map(|moved| {
        let mut object = Map::new();
        object.insert("reference".into(), moved.name.as_str().into());
        object.insert("old".into(), json!(moved.old));
        object.insert("new".into(), json!(moved.new));
        object
    });
    changes
        .chain(left)
        .chain(moves)
        .chain(sheet.carried.iter().map(carried))
        .map(|object| format!("{}\n", Value::Object(object)))
}

/// The name as it is shown, and its bytes where those differ.
pub(super) fn name(path: &RelPath) -> Map<String, Value> {
    let shown = path.to_string();
    let mut object = Map::new();
    if shown.as_bytes() != path.as_bytes() {
        object.insert("path_hex".into(), hex(path.as_bytes()).into());
    }
    object.insert("path".into(), shown.into());
    object
}

fn carried(carried: &Carried) -> Map<String, Value> {
    let mut object = name(&carried.path);
    object.insert("carried_by".into(), carried.within.as_str().into());
    object.insert("removes".into(), carried.removes.into());
    object.insert("sensitive".into(), carried.sensitive.into());
    let labels: Vec<_> = carried.labels.iter().map(|label| label.name()).collect();
    object.insert("labels".into(), json!(labels));
    object
}

fn change(sheet: &Sheet<'_>, change: &Shown) -> Map<String, Value> {
    let mut object = name(&change.path);
    object.insert("action".into(), change.action.word().into());
    object.insert("old".into(), state(&change.old.state));
    object.insert("new".into(), state(&change.new.state));
    object.insert("sensitive".into(), change.is_sensitive.into());
    let labels: Vec<_> = change.labels.iter().map(|label| label.name()).collect();
    object.insert("labels".into(), json!(labels));
    if let Some(from) = &change.moved_from {
        object.insert("moved_from".into(), Value::Object(name(from)));
    }
    if let Some(counts) = lines_of(sheet, change) {
        object.insert("added".into(), counts.added.into());
        object.insert("removed".into(), counts.removed.into());
    }
    object
}

fn state(state: &State) -> Value {
    match state {
        State::Absent => Value::Null,
        State::File { sha256, mode } => {
            json!({"type": "file", "mode": format!("{mode:04o}"), "sha256": sha256.to_string()})
        }
        State::Symlink { target } => {
            json!({"type": "symlink", "target": aegis_policies::path::escape(target)})
        }
        State::Directory { mode } => json!({"type": "directory", "mode": format!("{mode:04o}")}),
        State::Other => json!({"type": "special"}),
    }
}
