//! One JSON object per entry, for programs. The fields are in docs/JOURNAL.md.

use std::io;

use aegis_policies::journal::{Baseline, Entry, Event, FirstTouch, NodeKind, Seq, ShadowOp};
use aegis_policies::path::{hex, is_deceptive};
use aegis_policies::{Effect, Labels, RelPath, Scope};
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use serde_json::{Map, Value, json};

use super::history::History;

type Object = Map<String, Value>;

/// The object of an entry.
pub(super) fn line(seq: Seq, entry: &Entry, history: &History) -> String {
    let mut object = Object::new();
    let mut put = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
    put("seq", seq.into());
    put("at", entry.at.into());
    put("pid", entry.pid.into());
    if let Some(executable) = history.executable(entry) {
        put("exe", bytes(executable));
    }
    if let Some(decision) = history.decision(entry) {
        put(
            "decision",
            json!({
                "id": entry.verdict.0,
                "outcome": decision.outcome.name(),
                "policies": decision.policies,
            }),
        );
    }
    put("event", entry.event.name().into());
    put("details", details(&entry.event));
    shown(&Value::Object(object))
}

fn details(event: &Event) -> Value {
    match event {
        Event::Started { command } => json!({
            "command": command.iter().map(|word| bytes(word)).collect::<Vec<_>>(),
        }),
        Event::Ended { status } => json!({ "status": status }),
        Event::Process { exe } => json!({ "exe": bytes(exe) }),
        Event::Verdict {
            id,
            kind,
            class,
            labels,
            outcome,
            policies,
        } => json!({
            "id": id.0, "kind": kind.name(), "class": class, "labels": names(*labels),
            "outcome": outcome.name(), "policies": policies,
        }),
        Event::Shadow(operation) => change(operation),
        Event::Read { path } => json!({ "path": name(path) }),
        Event::Written { path, bytes, size } => {
            json!({ "path": name(path), "bytes": bytes, "size": size })
        }
        Event::Refused { effect } | Event::Begun { effect } => wanted(effect),
        Event::Blocked { effect, reason } => {
            let mut details = wanted(effect);
            if let Value::Object(object) = &mut details {
                object.insert("reason".to_owned(), reason.as_str().into());
            }
            details
        }
        Event::Tunnel {
            host,
            port,
            sent,
            received,
            millis,
        } => json!({
            "host": host, "port": port, "sent": sent, "received": received, "millis": millis,
        }),
        Event::Request {
            upstream,
            method,
            path,
            status,
            sent,
            received,
            millis,
        } => json!({
            "upstream": upstream, "method": method, "path": path, "status": status,
            "sent": sent, "received": received, "millis": millis,
        }),
        Event::Landed {
            landing,
            manifest,
            paths,
            undo,
        } => json!({
            "landing": landing, "manifest": manifest, "paths": paths, "undo": undo,
        }),
        Event::Snapshot { name, cause } => json!({ "name": name, "cause": cause.name() }),
        Event::Rewound { to } => json!({ "to": to }),
        _ => json!({}),
    }
}

fn change(operation: &ShadowOp) -> Value {
    match operation {
        ShadowOp::CopyUp {
            path,
            node,
            baseline,
            ..
        } => json!({
            "op": "copy-up", "path": name(path), "node": node.0, "before": before(baseline),
        }),
        ShadowOp::Create {
            path,
            node,
            kind,
            mode,
            uid,
            gid,
        } => json!({
            "op": "create", "path": name(path), "node": node.0, "kind": kind_name(kind),
            "target": target(kind), "device": device(kind), "mode": mode, "uid": uid, "gid": gid,
        }),
        ShadowOp::Link {
            from,
            path,
            node,
            first_touch,
        } => json!({
            "op": "link", "from": name(from), "path": name(path), "node": node.0,
            "before": first(first_touch),
        }),
        ShadowOp::Remove {
            path,
            node,
            first_touch,
        } => json!({
            "op": "remove", "path": name(path), "node": node.0, "before": first(first_touch),
        }),
        ShadowOp::Rename {
            from,
            to,
            node,
            first_touch,
            displaced,
            exchange,
        } => json!({
            "op": "rename", "from": name(from), "path": name(to), "node": node.0,
            "before": first(first_touch), "exchange": exchange,
            "displaced": displaced.as_ref().map(|displaced| displaced.node.0),
        }),
        ShadowOp::SetAttr {
            path,
            node,
            first_touch,
            mode,
            uid,
            gid,
            atime,
            mtime,
            size,
        } => json!({
            "op": "set-attr", "path": name(path), "node": node.0, "before": first(first_touch),
            "mode": mode, "uid": uid, "gid": gid, "atime": atime, "mtime": mtime, "size": size,
        }),
        ShadowOp::SetXattr {
            path,
            node,
            first_touch,
            name: attribute,
            value,
        } => json!({
            "op": "set-xattr", "path": name(path), "node": node.0, "before": first(first_touch),
            "name": bytes(attribute), "value": value.as_deref().map(bytes),
        }),
        ShadowOp::Fork {
            path,
            node,
            generation,
        } => json!({
            "op": "fork", "path": name(path), "node": node.0, "generation": generation.0,
        }),
        ShadowOp::Name {
            path,
            node,
            mode,
            uid,
            gid,
            generation,
            xattrs,
        } => json!({
            "op": "name", "path": name(path), "node": node.0, "mode": mode, "uid": uid, "gid": gid,
            "generation": generation.0,
            "xattrs": xattrs.iter().map(|(name, value)| json!([bytes(name), bytes(value)]))
                .collect::<Vec<_>>(),
        }),
        other => json!({ "op": "unknown", "path": name(other.path()) }),
    }
}

fn wanted(effect: &Effect) -> Value {
    let scope = match &effect.scope {
        Scope::Shadow { path, labels } | Scope::Project { path, labels } => {
            json!({ "path": name(path), "labels": names(*labels) })
        }
        Scope::Endpoint { host, port, listed } => {
            json!({ "host": host, "port": port, "listed": listed })
        }
        Scope::Request {
            upstream,
            method,
            path,
        } => {
            json!({ "upstream": upstream, "method": method, "path": path })
        }
        _ => json!({}),
    };
    json!({
        "kind": effect.kind.name(), "class": effect.scope.class(), "scope": scope,
        "reversibility": effect.reversibility.name(),
    })
}

fn first(touch: &FirstTouch) -> Option<Value> {
    touch.as_ref().map(|(_, baseline)| before(baseline))
}

/// What the host had.
fn before(baseline: &Baseline) -> Value {
    let sha256 = baseline.sha256.map(|digest| hex(&digest));
    json!({
        "kind": kind_name(&baseline.kind), "target": target(&baseline.kind), "device": device(&baseline.kind),
        "mode": baseline.mode, "uid": baseline.uid, "gid": baseline.gid, "size": baseline.size,
        "mtime": baseline.mtime, "ctime": baseline.ctime, "dev": baseline.dev,
        "ino": baseline.ino, "sha256": sha256,
    })
}

const fn kind_name(kind: &NodeKind) -> &'static str {
    match kind {
        NodeKind::File => "file",
        NodeKind::Directory => "directory",
        NodeKind::Symlink(_) => "symlink",
        NodeKind::Fifo => "fifo",
        NodeKind::Socket => "socket",
        NodeKind::Character(_) => "character device",
        NodeKind::Block(_) => "block device",
    }
}

fn target(kind: &NodeKind) -> Option<Value> {
    match kind {
        NodeKind::Symlink(target) => Some(bytes(target)),
        _ => None,
    }
}

/// The number of a device.
const fn device(kind: &NodeKind) -> Option<u64> {
    match kind {
        NodeKind::Character(number) | NodeKind::Block(number) => Some(*number),
        _ => None,
    }
}

fn names(labels: Labels) -> Vec<&'static str> {
    labels.iter().map(aegis_policies::Label::name).collect()
}

fn name(path: &RelPath) -> Value {
    bytes(path.as_bytes())
}

/// Bytes without loss: a string where they are UTF-8, else an array of numbers.
fn bytes(bytes: &[u8]) -> Value {
    std::str::from_utf8(bytes).map_or_else(|_| json!(bytes), Value::from)
}

/// The JSON text, in which nothing can act on the terminal that shows it.
fn shown(value: &Value) -> String {
    let mut text = Vec::new();
    let written = value.serialize(&mut Serializer::with_formatter(&mut text, TerminalSafe));
    // A value in memory, written to memory, fails in no way.
    written.map_or_else(
        |_| String::new(),
        |()| String::from_utf8(text).unwrap_or_default(),
    )
}

/// Writes characters that move the cursor, reorder text or show nothing as `\uXXXX`; JSON itself
/// demands that only of U+0000 to U+001F.
struct TerminalSafe;

impl Formatter for TerminalSafe {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let mut units = [0; 2];
        for character in fragment.chars() {
            if is_deceptive(character) {
                for unit in character.encode_utf16(&mut units) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            } else {
                write!(writer, "{character}")?;
            }
        }
        Ok(())
    }
}
