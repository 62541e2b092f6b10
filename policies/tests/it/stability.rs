//! Numbers that journals on disk hold: an old journal must read the same for ever.

use aegis_policies::journal::{Event, Generation, NodeId, NodeKind, ShadowOp, SnapshotCause};
use aegis_policies::{Kind, Label, Labels};

#[test]
fn kinds_labels_and_events_keep_their_numbers() {
    let kinds = Kind::ALL.map(|kind| format!("{} {:?}", kind.name(), encoded(&kind)));
    let labels = Label::ALL
        .map(|label| format!("{} {:?}", label.name(), encoded(&Labels::NONE.with(label))));
    let events = events().map(|event| format!("{} {:?}", event.name(), encoded(&event).first()));
    insta::assert_snapshot!([kinds.join("\n"), labels.join("\n"), events.join("\n")].join("\n\n"));
}

#[test]
fn node_kinds_keep_their_numbers() {
    let kinds = [
        (NodeKind::File, 0),
        (NodeKind::Directory, 1),
        (NodeKind::Symlink(Vec::new()), 2),
        (NodeKind::Fifo, 3),
        (NodeKind::Socket, 4),
        (NodeKind::Character(0), 5),
        (NodeKind::Block(0), 6),
    ];
    for (kind, number) in kinds {
        assert_eq!(encoded(&kind).first(), Some(&number), "{kind:?}");
    }
}

fn encoded(value: &impl serde::Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).unwrap()
}

fn events() -> [Event; 8] {
    [
        Event::Started {
            command: Vec::new(),
        },
        Event::Ended { status: 0 },
        Event::Process { exe: Vec::new() },
        Event::Read {
            path: aegis_policies::RelPath::root(),
        },
        Event::Landed {
            landing: String::new(),
            manifest: String::new(),
            paths: 0,
            undo: false,
        },
        Event::Snapshot {
            name: None,
            cause: SnapshotCause::Requested,
        },
        Event::Rewound { to: 0 },
        Event::Shadow(fork()),
    ]
}

fn fork() -> ShadowOp {
    ShadowOp::Fork {
        path: aegis_policies::RelPath::root(),
        node: NodeId(0),
        generation: Generation::FIRST,
    }
}

#[test]
fn the_first_name_keeps_its_number() {
    let name = ShadowOp::Name {
        path: aegis_policies::RelPath::root(),
        node: NodeId(0),
        mode: 0,
        uid: 0,
        gid: 0,
        generation: Generation::FIRST,
        xattrs: Vec::new(),
    };
    assert_eq!(encoded(&name).first(), Some(&8));
}

#[test]
fn causes_and_the_fork_keep_their_numbers() {
    let causes = SnapshotCause::ALL.map(|cause| encoded(&cause));
    assert_eq!(causes.concat(), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(encoded(&fork()).first(), Some(&7));
}
