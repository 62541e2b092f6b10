//! The gate: what it lets pass, what it writes, and what it keeps.

use std::sync::Arc;

use aegis_policies::journal::{self, Event, Outcome};
use aegis_policies::{Actor, Effect, Gate, Journal, Kind, RelPath};

fn actor() -> Actor {
    Actor {
        agent: "claude".into(),
        pid: 0,
    }
}

fn shadow(gate: &Gate, kind: Kind, path: &str) -> Effect {
    let path = RelPath::parse(path.as_bytes()).unwrap();
    let labels = gate.labels(&path);
    Effect::shadow(kind, path, labels)
}

#[test]
fn permits_and_refuses_and_records() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Arc::new(Journal::create(directory.path()).unwrap());
    let gate = Gate::with_defaults(Arc::clone(&journal), None).unwrap();
    gate.judge(&actor(), shadow(&gate, Kind::FsWrite, "src/main.rs"))
        .unwrap();
    let refusal = gate
        .judge(&actor(), shadow(&gate, Kind::FsRead, ".env"))
        .unwrap_err();
    assert_eq!(refusal.policies.as_ref(), ["shadow.secret".to_owned()]);
    assert!(!refusal.askable);
    let entries: Vec<_> = journal::read(directory.path())
        .unwrap()
        .map(|item| item.unwrap().1.event)
        .collect();
    assert_eq!(entries.len(), 3, "{entries:?}");
    assert!(matches!(
        &entries[0],
        Event::Verdict {
            outcome: Outcome::Allow,
            ..
        }
    ));
    assert!(matches!(
        &entries[1],
        Event::Verdict {
            outcome: Outcome::Deny,
            ..
        }
    ));
    assert!(matches!(&entries[2], Event::Refused { .. }));
}
