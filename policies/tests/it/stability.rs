//! Numbers that journals on disk hold: an old journal must read the same for ever.

use aegis_policies::journal::{Event, NodeKind};
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

fn events() -> [Event; 5] {
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
    ]
}
