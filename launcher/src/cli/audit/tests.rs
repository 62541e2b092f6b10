//! The two forms of the journal, over one entry of every kind.

use aegis_policies::journal::{
    Baseline, Event, Generation, Journal, LowerFile, NodeId, NodeKind, Options, ShadowOp,
    SnapshotCause, VerdictId,
};
use aegis_policies::{Actor, Effect, Gate, Kind, RelPath, Reversibility, Scope};
use serde_json::Value;
use std::sync::Arc;

use super::*;

const HOSTILE: &[u8] = b"na\x1b]52;c;x\x07me\xff";

fn path(bytes: &[u8]) -> RelPath {
    RelPath::parse(bytes).unwrap()
}

fn baseline() -> Baseline {
    Baseline {
        kind: NodeKind::File,
        mode: 0o644,
        uid: 1000,
        gid: 1000,
        size: 12,
        mtime: 5,
        ctime: 6,
        dev: 7,
        ino: 8,
        sha256: Some([0xab; 32]),
    }
}

fn operations() -> Vec<ShadowOp> {
    let node = NodeId(8);
    let lower = || LowerFile {
        path: path(b"a"),
        dev: 7,
        ino: 8,
        links: 1,
    };
    vec![
        ShadowOp::CopyUp {
            path: path(b"a"),
            node,
            lower: lower(),
            baseline: baseline(),
        },
        ShadowOp::Create {
            path: path(HOSTILE),
            node: NodeId(9),
            kind: NodeKind::Symlink(b"\xff".to_vec()),
            mode: 0o777,
            uid: 1000,
            gid: 1000,
        },
        ShadowOp::Link {
            from: path(b"a"),
            path: path(b"b"),
            node,
            first_touch: None,
        },
        ShadowOp::Rename {
            from: path(b"b"),
            to: path(b"c"),
            node,
            first_touch: None,
            displaced: None,
            exchange: false,
        },
        ShadowOp::SetXattr {
            path: path(b"c"),
            node,
            first_touch: None,
            name: b"user.x".to_vec(),
            value: Some(b"\x80".to_vec()),
        },
        ShadowOp::Fork {
            path: path(b"c"),
            node,
            generation: Generation(1),
        },
        ShadowOp::Name {
            path: path(b"n"),
            node: NodeId(9),
            mode: 0o640,
            uid: 1000,
            gid: 100,
            generation: Generation(1),
            xattrs: vec![(b"user.x".to_vec(), b"\x80".to_vec())],
        },
        ShadowOp::Remove {
            path: path(b"c"),
            node,
            first_touch: Some((lower(), baseline())),
        },
    ]
}

fn leaving() -> Effect {
    Effect {
        kind: Kind::NetConnect,
        scope: Scope::Endpoint {
            host: "x.example".into(),
            port: 443,
            listed: true,
        },
        reversibility: Reversibility::Irreversible,
    }
}

fn events() -> Vec<Event> {
    let mut events = vec![
        Event::Started {
            command: vec![b"claude".to_vec(), b"-p".to_vec(), HOSTILE.to_vec()],
        },
        Event::Read {
            path: path("a\u{202e}b".as_bytes()),
        },
    ];
    events.extend(operations().into_iter().map(Event::Shadow));
    events.extend([
        Event::Written {
            path: path(b"a"),
            bytes: 3,
            size: 15,
        },
        Event::Tunnel {
            host: "x.example".into(),
            port: 443,
            sent: 1,
            received: 2,
            millis: 3,
        },
        Event::Request {
            upstream: "anthropic".into(),
            method: "POST".into(),
            path: "/v1/messages".into(),
            status: 200,
            sent: 10,
            received: 20,
            millis: 30,
        },
        Event::Landed {
            landing: "1".into(),
            manifest: "ab".into(),
            paths: 2,
            undo: false,
        },
        Event::Begun { effect: leaving() },
        Event::Blocked {
            effect: leaving(),
            reason: "it resolves to\u{1b} 10.0.0.1".into(),
        },
        Event::Snapshot {
            name: Some("be\u{1b}fore".into()),
            cause: SnapshotCause::Requested,
        },
        Event::Snapshot {
            name: None,
            cause: SnapshotCause::Quiet,
        },
        Event::Rewound { to: 3 },
        Event::Ended { status: 130 },
    ]);
    events
}

/// A journal with one entry of every kind, and its two forms without the times.
fn printed() -> (String, String) {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        executable: |_| Some(b"/usr/bin/git".to_vec()),
        ..Options::default()
    };
    let journal = Arc::new(Journal::create_with(directory.path(), options).unwrap());
    let gate = Gate::with_defaults(Arc::clone(&journal), None).unwrap();
    let actor = Actor {
        agent: "claude".into(),
        pid: 42,
    };
    let judged = |kind, name: &[u8]| {
        gate.judge(
            &actor,
            Effect::shadow(kind, path(name), gate.labels(&path(name))),
        )
    };
    drop(judged(Kind::FsWrite, b"a").unwrap());
    judged(Kind::FsRead, b".env").unwrap_err();
    let scope = Scope::Endpoint {
        host: "evil\u{1b}.example".into(),
        port: 53,
        listed: false,
    };
    let reversibility = Reversibility::Irreversible;
    gate.judge(
        &actor,
        Effect {
            kind: Kind::DnsQuery,
            scope,
            reversibility,
        },
    )
    .unwrap_err();
    for event in events() {
        journal.append(42, VerdictId(1), event).unwrap();
    }
    journal
        .append(0, VerdictId(0), Event::Ended { status: 0 })
        .unwrap();
    let form = |json| {
        let mut output = Vec::new();
        print(directory.path(), json, &mut output).unwrap();
        String::from_utf8(output).unwrap()
    };
    (form(false), form(true))
}

#[test]
fn text_is_one_harmless_line_for_each_effect() {
    let (text, _) = printed();
    let without_times: Vec<_> = text.lines().map(|line| line.split_at(25).1).collect();
    insta::assert_snapshot!(without_times.join("\n"));
    assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']));
}

#[test]
fn json_has_every_entry_and_every_byte() {
    let (_, json) = printed();
    assert!(
        json.chars()
            .all(|character| character == '\n' || !is_deceptive(character))
    );
    let mut objects: Vec<Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (seq, object) in objects.iter_mut().enumerate() {
        assert_eq!(object["seq"], seq);
        assert!(object["at"].take().as_u64().unwrap() > 0);
    }
    let created = objects
        .iter()
        .find(|object| object["details"]["op"] == "create")
        .unwrap();
    let bytes: Vec<u8> = serde_json::from_value(created["details"]["path"].clone()).unwrap();
    assert_eq!(bytes, HOSTILE);
    let read = objects
        .iter()
        .find(|object| object["event"] == "read")
        .unwrap();
    assert_eq!(read["details"]["path"], "a\u{202e}b");
    let lines: Vec<_> = json.lines().map(without_time).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

fn without_time(line: &str) -> String {
    let (before, rest) = line.split_once(r#""at":"#).unwrap();
    let (_, after) = rest.split_once(',').unwrap();
    format!("{before}{after}")
}

#[test]
fn a_reader_that_went_away_is_no_error() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::create(directory.path()).unwrap();
    journal
        .append(0, VerdictId(0), Event::Ended { status: 0 })
        .unwrap();
    print(directory.path(), false, &mut Closed).unwrap();
    assert!(print(&directory.path().join("absent"), false, &mut Closed).is_err());
}

#[test]
fn what_lies_before_damage_is_shown_and_the_damage_named() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::create(directory.path()).unwrap();
    for status in 0..3 {
        journal
            .append(0, VerdictId(0), Event::Ended { status })
            .unwrap();
    }
    let segment = directory.path().join("00000000.aej");
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.len() - 60;
    bytes[middle] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let mut output = Vec::new();
    let error = print(directory.path(), false, &mut output).unwrap_err();
    assert!(error.to_string().contains("entry 1"), "{error}");
    assert!(
        String::from_utf8(output)
            .unwrap()
            .ends_with("with status 0\n")
    );
}

fn is_deceptive(character: char) -> bool {
    aegis_policies::path::is_deceptive(character)
}
