//! Entries of every kind, made up at random.

use aegis_policies::journal::{
    Baseline, Event, Generation, LowerFile, NodeId, NodeKind, Outcome, ShadowOp, SnapshotCause,
    VerdictId,
};
use aegis_policies::{Effect, Kind, Label, Labels, RelPath, Reversibility, Scope};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

pub fn path() -> impl Strategy<Value = RelPath> {
    let byte = any::<u8>().prop_filter("not a separator", |byte| !matches!(byte, 0 | b'/'));
    let component =
        vec(byte, 1..12).prop_filter("leads nowhere", |name| name != b"." && name != b"..");
    vec(component, 0..5).prop_map(|names| RelPath::parse(&names.join(&b'/')).unwrap())
}

pub fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        vec(vec(any::<u8>(), 0..20), 0..4).prop_map(|command| Event::Started { command }),
        any::<i32>().prop_map(|status| Event::Ended { status }),
        vec(any::<u8>(), 0..30).prop_map(|exe| Event::Process { exe }),
        verdict(),
        operation().prop_map(Event::Shadow),
        path().prop_map(|path| Event::Read { path }),
        (path(), any::<u64>(), any::<u64>()).prop_map(|(path, bytes, size)| Event::Written {
            path,
            bytes,
            size
        }),
        effect().prop_map(|effect| Event::Refused { effect }),
        (".*", any::<u16>(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
            |(host, port, sent, received, millis)| Event::Tunnel {
                host,
                port,
                sent,
                received,
                millis
            }
        ),
        (".*", ".*", ".*", any::<u16>()).prop_map(|(upstream, method, path, status)| {
            Event::Request {
                upstream,
                method,
                path,
                status,
                sent: 1,
                received: 2,
                millis: 3,
            }
        }),
        (".*", ".*", any::<u64>(), any::<bool>()).prop_map(|(landing, manifest, paths, undo)| {
            Event::Landed {
                landing,
                manifest,
                paths,
                undo,
            }
        }),
        (
            option::of(".*"),
            proptest::sample::select(SnapshotCause::ALL.to_vec())
        )
            .prop_map(|(name, cause)| Event::Snapshot { name, cause }),
        any::<u64>().prop_map(|to| Event::Rewound { to }),
    ]
}

fn verdict() -> impl Strategy<Value = Event> {
    let outcome = prop_oneof![
        Just(Outcome::Allow),
        Just(Outcome::Ask),
        Just(Outcome::Deny)
    ];
    (
        any::<u32>(),
        kind(),
        ".*",
        labels(),
        outcome,
        vec(".*", 0..3),
    )
        .prop_map(
            |(id, kind, class, labels, outcome, policies)| Event::Verdict {
                id: VerdictId(id),
                kind,
                class,
                labels,
                outcome,
                policies,
            },
        )
}

fn effect() -> impl Strategy<Value = Effect> {
    let scope = prop_oneof![
        (path(), labels()).prop_map(|(path, labels)| Scope::Shadow { path, labels }),
        (path(), labels()).prop_map(|(path, labels)| Scope::Project { path, labels }),
        (".*", any::<u16>(), any::<bool>()).prop_map(|(host, port, listed)| Scope::Endpoint {
            host,
            port,
            listed
        }),
        (".*", ".*", ".*").prop_map(|(upstream, method, path)| Scope::Request {
            upstream,
            method,
            path
        }),
    ];
    (kind(), scope).prop_map(|(kind, scope)| Effect {
        kind,
        scope,
        reversibility: Reversibility::Compensable,
    })
}

fn kind() -> impl Strategy<Value = Kind> {
    proptest::sample::select(Kind::ALL.to_vec())
}

fn labels() -> impl Strategy<Value = Labels> {
    vec(proptest::sample::select(Label::ALL.to_vec()), 0..4)
        .prop_map(|labels| labels.into_iter().fold(Labels::NONE, Labels::with))
}

fn operation() -> impl Strategy<Value = ShadowOp> {
    let node = || any::<u64>().prop_map(NodeId);
    prop_oneof![
        (path(), node(), lower(), baseline()).prop_map(|(path, node, lower, baseline)| {
            ShadowOp::CopyUp {
                path,
                node,
                lower,
                baseline,
            }
        }),
        (path(), node(), node_kind(), any::<u32>()).prop_map(|(path, node, kind, mode)| {
            ShadowOp::Create {
                path,
                node,
                kind,
                mode,
                uid: 1,
                gid: 2,
            }
        }),
        (path(), node(), option::of((lower(), baseline()))).prop_map(
            |(path, node, first_touch)| ShadowOp::Remove {
                path,
                node,
                first_touch
            }
        ),
        (
            path(),
            node(),
            vec(any::<u8>(), 0..9),
            option::of(vec(any::<u8>(), 0..40))
        )
            .prop_map(|(path, node, name, value)| {
                ShadowOp::SetXattr {
                    path,
                    node,
                    first_touch: None,
                    name,
                    value,
                }
            }),
        (path(), node(), any::<u64>()).prop_map(|(path, node, generation)| ShadowOp::Fork {
            path,
            node,
            generation: Generation(generation),
        }),
    ]
}

fn node_kind() -> impl Strategy<Value = NodeKind> {
    prop_oneof![
        Just(NodeKind::File),
        Just(NodeKind::Directory),
        vec(any::<u8>(), 0..30).prop_map(NodeKind::Symlink),
        Just(NodeKind::Fifo),
        Just(NodeKind::Socket),
        any::<u64>().prop_map(NodeKind::Character),
        any::<u64>().prop_map(NodeKind::Block),
    ]
}

fn lower() -> impl Strategy<Value = LowerFile> {
    (path(), any::<u64>(), any::<u64>()).prop_map(|(path, dev, ino)| LowerFile {
        path,
        dev,
        ino,
        links: 1,
    })
}

fn baseline() -> impl Strategy<Value = Baseline> {
    (
        node_kind(),
        any::<u32>(),
        any::<u64>(),
        any::<i64>(),
        option::of(any::<[u8; 32]>()),
    )
        .prop_map(|(kind, mode, size, mtime, sha256)| Baseline {
            kind,
            mode,
            uid: 1000,
            gid: 1000,
            size,
            mtime,
            ctime: mtime,
            dev: 1,
            ino: 2,
            sha256,
        })
}
