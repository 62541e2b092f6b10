//! The state alone: no host, no mount.

use std::collections::BTreeSet;

use aegis_policies::RelPath;
use aegis_policies::journal::{
    Baseline, Displaced, Entry, Event, FirstTouch, LowerFile, NodeId, NodeKind, ShadowOp,
    SnapshotCause, VerdictId,
};
use proptest::prelude::*;

use super::{Child, ContentKey, FolderKey, Place, Shadow};

fn path(text: &str) -> RelPath {
    RelPath::parse(text.as_bytes()).unwrap()
}

fn lower(text: &str, ino: u64, kind: NodeKind) -> (LowerFile, Baseline) {
    let lower = LowerFile {
        path: path(text),
        dev: 1,
        ino,
        links: 1,
    };
    let baseline = Baseline {
        kind,
        mode: 0o644,
        uid: 0,
        gid: 0,
        size: 0,
        mtime: 0,
        ctime: 0,
        dev: 1,
        ino,
        sha256: None,
    };
    (lower, baseline)
}

fn apply(shadow: &mut Shadow, operation: ShadowOp) {
    let prepared = shadow.prepare(operation).unwrap();
    if let Some(orphan) = shadow.commit(prepared, 1) {
        shadow.drop_orphan(orphan);
    }
    check(shadow);
}

fn rename(from: &str, to: &str, node: u64, first_touch: FirstTouch) -> ShadowOp {
    ShadowOp::Rename {
        from: path(from),
        to: path(to),
        node: NodeId(node),
        first_touch,
        displaced: None,
        exchange: false,
    }
}

fn create(at: &str, node: u64, kind: NodeKind) -> ShadowOp {
    ShadowOp::Create {
        path: path(at),
        node: NodeId(node),
        kind,
        mode: 0o644,
        uid: 0,
        gid: 0,
    }
}

fn remove(at: &str, node: u64, first_touch: FirstTouch) -> ShadowOp {
    ShadowOp::Remove {
        path: path(at),
        node: NodeId(node),
        first_touch,
    }
}

#[test]
fn a_moved_directory_takes_its_untouched_children_along() {
    let mut shadow = Shadow::new();
    apply(
        &mut shadow,
        rename("d", "e", 5, Some(lower("d", 5, NodeKind::Directory))),
    );
    assert_eq!(
        shadow.folder_at(&path("e/sub")),
        Some(FolderKey::Lower(path("d/sub")))
    );
    assert_eq!(shadow.shown(&path("d/sub/x")), Some(path("e/sub/x")));
    assert_eq!(shadow.folder_at(&path("d")), None);
    // A new directory under the old name shows nothing of the host.
    apply(&mut shadow, create("d", 1 << 63 | 9, NodeKind::Directory));
    assert_eq!(shadow.folder_at(&path("d/sub")), None);
    assert_eq!(shadow.first_free(), NodeId(1 << 63 | 10));
}

#[test]
fn a_whiteout_is_only_where_the_host_had_something() {
    let mut shadow = Shadow::new();
    let root = FolderKey::Lower(RelPath::root());
    apply(&mut shadow, create("own", 1 << 63 | 9, NodeKind::File));
    apply(&mut shadow, remove("own", 1 << 63 | 9, None));
    assert_eq!(shadow.child(&root, b"own"), None);
    apply(
        &mut shadow,
        remove("x", 5, Some(lower("x", 5, NodeKind::File))),
    );
    assert_eq!(shadow.child(&root, b"x"), Some(Child::Hidden));
    apply(&mut shadow, create("x", 1 << 63 | 10, NodeKind::File));
    apply(&mut shadow, remove("x", 1 << 63 | 10, None));
    assert_eq!(shadow.child(&root, b"x"), Some(Child::Hidden));
}

#[test]
fn what_comes_home_is_not_missing() {
    let mut shadow = Shadow::new();
    apply(
        &mut shadow,
        rename("x", "d/y", 5, Some(lower("x", 5, NodeKind::File))),
    );
    assert_eq!(shadow.removed().count(), 1);
    apply(&mut shadow, rename("d/y", "x", 5, None));
    assert_eq!(shadow.removed().count(), 0);
    assert_eq!(shadow.child(&FolderKey::Lower(path("d")), b"y"), None);
}

#[test]
fn a_number_that_the_host_uses_again_is_a_new_node() {
    let mut shadow = Shadow::new();
    apply(
        &mut shadow,
        remove("x", 5, Some(lower("x", 5, NodeKind::File))),
    );
    apply(
        &mut shadow,
        rename("y", "z", 5, Some(lower("y", 5, NodeKind::File))),
    );
    assert!(shadow.node(NodeId(5)).is_some());
}

#[test]
fn what_does_not_follow_is_refused() {
    let mut shadow = Shadow::new();
    apply(&mut shadow, create("f", 1 << 63 | 9, NodeKind::File));
    for operation in [
        create("f", 1 << 63 | 10, NodeKind::File),
        create("g", 1 << 63 | 9, NodeKind::File),
        create("f/g", 1 << 63 | 10, NodeKind::File),
        remove("g", 7, None),
        remove("f", 7, Some(lower("f", 7, NodeKind::File))),
        remove("", 7, Some(lower("", 7, NodeKind::Directory))),
        rename("f", "g", 7, None),
        rename("f", "g", 1 << 63 | 9, Some(lower("f", 7, NodeKind::File))),
    ] {
        let before = shadow.clone();
        assert!(shadow.prepare(operation.clone()).is_err(), "{operation:?}");
        assert_eq!(shadow, before);
    }
}

#[test]
fn a_directory_removed_by_the_host_is_kept_while_it_holds_something() {
    let mut shadow = Shadow::new();
    assert!(!shadow.holds_own(&path("d")));
    apply(&mut shadow, create("d-x", 1 << 63 | 8, NodeKind::File));
    assert!(!shadow.holds_own(&path("d")));
    apply(
        &mut shadow,
        create("d/sub/own", 1 << 63 | 9, NodeKind::File),
    );
    assert!(shadow.holds_own(&path("d")) && shadow.holds_own(&path("d/sub")));
    assert_eq!(shadow.folders_below(&path("d")).len(), 1);
    apply(&mut shadow, remove("d/sub/own", 1 << 63 | 9, None));
    assert!(!shadow.holds_own(&path("d")));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Whatever the order: what is refused changes nothing, what is done leaves the state sound,
    /// and the record of what was done replays to it.
    #[test]
    fn any_operations_leave_a_sound_state(
        operations in proptest::collection::vec(operation(), 0..60),
    ) {
        let mut shadow = Shadow::new();
        let mut record = Vec::new();
        for (at, operation) in operations.into_iter().enumerate() {
            let before = shadow.clone();
            let Ok(prepared) = shadow.prepare(operation.clone()) else {
                prop_assert_eq!(&shadow, &before);
                continue;
            };
            if let Some(orphan) = shadow.commit(prepared, at as i64) {
                shadow.drop_orphan(orphan);
            }
            drop(shadow.take_freed());
            check(&shadow);
            let event = Event::Shadow(operation);
            record.push(Entry { at: at as u64, pid: 0, verdict: VerdictId(0), event });
        }
        let mut replayed = Shadow::new();
        for (seq, entry) in (0..).zip(record) {
            replayed.replay(seq, entry, |_| None).unwrap();
        }
        prop_assert_eq!(replayed, shadow);
    }

    /// Whatever is put aside and gone back to: each snapshot that is kept can be gone back to, its
    /// content is never given up, that of the tree never is, and nothing else is kept for ever.
    #[test]
    fn what_is_put_aside_is_kept(steps in proptest::collection::vec(step(), 0..150)) {
        let mut shadow = Shadow::new();
        let mut past: Vec<(Shadow, Event)> = Vec::new();
        let mut files: BTreeSet<ContentKey> = BTreeSet::new();
        for (seq, step) in (0..).zip(steps) {
            let Some(event) = shadow.event(step, past.len()) else {
                past.push((shadow.clone(), Event::Ended { status: 0 }));
                continue;
            };
            match event.clone() {
                Event::Shadow(operation) => {
                    let prepared = shadow.prepare(operation).unwrap();
                    if let Some(orphan) = shadow.commit(prepared, seq as i64) {
                        shadow.drop_orphan(orphan);
                    }
                }
                Event::Snapshot { name, cause } => drop(shadow.snapshot(seq, seq, name, cause)),
                Event::Rewound { to } => drop(shadow.rewind(past[to as usize].0.clone())),
                _ => {}
            }
            check(&shadow);
            files.extend(shadow.content());
            for key in shadow.take_freed() {
                prop_assert!(files.remove(&key), "{:?} is given up twice", key);
            }
            past.push((shadow.clone(), event));
            let mut needed: BTreeSet<ContentKey> = shadow.content().collect();
            for snapshot in shadow.history().snapshots() {
                needed.extend(past[snapshot.seq as usize].0.content());
            }
            prop_assert_eq!(&files, &needed);
        }
    }
}

/// A step of a history.
#[derive(Clone, Debug)]
enum Step {
    Do(Box<ShadowOp>),
    /// A fork of one of the nodes.
    Fork(usize),
    Snapshot(SnapshotCause),
    /// Back to one of the snapshots.
    Rewind(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let cause = prop_oneof![
        4 => Just(SnapshotCause::Quiet),
        4 => Just(SnapshotCause::Ended),
        1 => Just(SnapshotCause::Requested),
    ];
    prop_oneof![
        8 => operation().prop_map(|it| Step::Do(Box::new(it))),
        4 => any::<usize>().prop_map(Step::Fork),
        6 => cause.prop_map(Step::Snapshot),
        1 => any::<usize>().prop_map(Step::Rewind),
    ]
}

impl Shadow {
    /// What a step puts on record; `None` when it does not fit.
    fn event(&self, step: Step, seq: usize) -> Option<Event> {
        match step {
            Step::Do(operation) => {
                self.prepare((*operation).clone()).ok()?;
                // Content is taken from the host once.
                let again = matches!(&*operation, ShadowOp::CopyUp { node, .. }
                    if self.node(*node).is_some_and(|node| node.content.is_some()));
                (!again).then_some(Event::Shadow(*operation))
            }
            Step::Fork(which) => {
                let mut nodes: Vec<_> = self.nodes().collect();
                nodes.sort_by_key(|(id, _)| *id);
                let (id, node) = nodes.get(which.checked_rem(nodes.len())?)?;
                let operation = ShadowOp::Fork {
                    path: self.place_path(node.names.first()?)?,
                    node: *id,
                    generation: self.generation(),
                };
                self.prepare(operation.clone()).ok()?;
                Some(Event::Shadow(operation))
            }
            Step::Snapshot(cause) => Some(Event::Snapshot { name: None, cause }),
            Step::Rewind(which) => {
                let snapshots = self.history().snapshots();
                let snapshot = snapshots.get(which.checked_rem(snapshots.len())?)?;
                assert!((snapshot.seq as usize) < seq);
                Some(Event::Rewound { to: snapshot.seq })
            }
        }
    }
}

/// What holds between any two operations.
fn check(shadow: &Shadow) {
    for (id, node) in &shadow.nodes {
        assert!(!node.is_orphan(), "an orphan stayed");
        for place in &node.names {
            assert_eq!(
                shadow.child(&place.folder, &place.name),
                Some(Child::Node(*id))
            );
            let shown = shadow.place_path(place);
            assert_eq!(
                shown.and_then(|path| shadow.place(&path)).as_ref(),
                Some(place)
            );
        }
        if node.is_folder() {
            assert_eq!(node.names.len(), 1, "a directory has one name");
        }
    }
    for (key, folder) in &shadow.folders {
        for (name, child) in &folder.children {
            let place = Place {
                folder: key.clone(),
                name: name.clone(),
            };
            let removed = place
                .lower()
                .is_some_and(|lower| shadow.removed.contains_key(&lower));
            match child {
                Child::Hidden => assert!(removed, "a whiteout over nothing"),
                Child::Node(id) => assert!(shadow.nodes[id].names.contains(&place)),
            }
        }
    }
}

/// Operations on a few files; most do not follow from what was before.
pub(crate) fn operation() -> impl Strategy<Value = ShadowOp> {
    let name = || {
        prop_oneof![
            Just("a"),
            Just("b"),
            Just("d/a"),
            Just("d/b"),
            Just("d/e/a")
        ]
        .prop_map(path)
    };
    let file = || prop_oneof![1..6_u64, (1..6_u64).prop_map(|it| 1 << 63 | it)].prop_map(NodeId);
    let touch = |node: NodeId, path: RelPath, first: bool| {
        first.then(|| {
            let (mut lower, baseline) = lower("x", node.0, NodeKind::File);
            lower.path = path;
            (lower, baseline)
        })
    };
    prop_oneof![
        3 => (name(), file()).prop_map(|(path, node)| ShadowOp::Create {
            path, node, kind: NodeKind::File, mode: 0, uid: 0, gid: 0,
        }),
        3 => (name(), file(), any::<bool>()).prop_map(move |(path, node, first)| {
            ShadowOp::Remove { first_touch: touch(node, path.clone(), first), path, node }
        }),
        2 => (name(), name(), file(), any::<bool>()).prop_map(move |(from, path, node, first)| {
            ShadowOp::Link { first_touch: touch(node, from.clone(), first), from, path, node }
        }),
        4 => (name(), name(), file(), file(), any::<[bool; 4]>()).prop_map(
            move |(from, to, node, other, [first, second, displaces, exchange])| {
                let displaced = (displaces && other != node).then(|| Displaced {
                    node: other,
                    first_touch: touch(other, to.clone(), second),
                });
                let first_touch = touch(node, from.clone(), first);
                ShadowOp::Rename { from, to, node, first_touch, displaced, exchange }
            },
        ),
        1 => (name(), file(), any::<bool>()).prop_map(move |(path, node, first)| {
            ShadowOp::SetAttr {
                first_touch: touch(node, path.clone(), first),
                path, node, mode: Some(1), uid: None, gid: None, atime: None, mtime: Some(2),
                size: None,
            }
        }),
        1 => (name(), file(), any::<bool>()).prop_map(move |(path, node, first)| {
            let (lower, baseline) = touch(node, path.clone(), true).unwrap();
            let _ = first;
            ShadowOp::CopyUp { path, node, lower, baseline }
        }),
    ]
}
