//! The gate: what it lets pass, what it writes, and what it keeps.

use std::path::Path;
use std::sync::Arc;

use aegis_policies::journal::{self, Entry, Event, Outcome, VerdictId};
use aegis_policies::{Actor, Effect, Gate, Journal, Kind, RelPath, Reversibility, Scope};
use tempfile::TempDir;

fn actor() -> Actor {
    Actor {
        agent: "claude".into(),
        pid: 0,
    }
}

fn gate(user_policy: Option<&str>) -> (TempDir, Gate) {
    let directory = tempfile::tempdir().unwrap();
    let journal = Arc::new(Journal::create(directory.path()).unwrap());
    (
        directory,
        Gate::with_defaults(journal, user_policy).unwrap(),
    )
}

fn shadow(gate: &Gate, kind: Kind, path: &str) -> Effect {
    let path = RelPath::parse(path.as_bytes()).unwrap();
    let labels = gate.labels(&path);
    Effect::shadow(kind, path, labels)
}

fn connect(host: &str, listed: bool) -> Effect {
    let scope = Scope::Endpoint {
        host: host.to_owned(),
        port: 443,
        listed,
    };
    Effect {
        kind: Kind::NetConnect,
        scope,
        reversibility: Reversibility::Irreversible,
    }
}

fn entries(directory: &Path) -> Vec<Entry> {
    journal::read(directory)
        .unwrap()
        .map(|item| item.unwrap().1)
        .collect()
}

fn verdict_ids(directory: &Path) -> Vec<u32> {
    let ids = entries(directory)
        .into_iter()
        .filter_map(|entry| match entry.event {
            Event::Verdict { id, .. } => Some(id.0),
            _ => None,
        });
    ids.collect()
}

#[test]
fn permits_and_refuses_and_records() {
    let (directory, gate) = gate(None);
    let permit = gate
        .judge(&actor(), shadow(&gate, Kind::FsWrite, "src/main.rs"))
        .unwrap();
    let refusal = gate
        .judge(&actor(), shadow(&gate, Kind::FsRead, ".env"))
        .unwrap_err();
    assert_eq!(refusal.policies.as_ref(), ["shadow.secret".to_owned()]);
    assert_eq!(
        refusal.to_string(),
        "the name is one that usually holds credentials"
    );
    assert!(!refusal.askable);
    gate.record(&permit, Event::Ended { status: 0 }).unwrap();
    let entries = entries(directory.path());
    let events: Vec<_> = entries.iter().map(|entry| &entry.event).collect();
    assert!(matches!(
        events[0],
        Event::Verdict {
            outcome: Outcome::Allow,
            ..
        }
    ));
    assert!(matches!(
        events[1],
        Event::Verdict {
            outcome: Outcome::Deny,
            ..
        }
    ));
    assert!(matches!(events[2], Event::Refused { .. }));
    assert_eq!(entries[2].verdict, VerdictId(2));
    assert_eq!(entries[3].verdict, VerdictId(1));
}

#[test]
fn a_class_is_judged_and_recorded_once() {
    let (directory, gate) = gate(None);
    for number in 0..2000 {
        gate.judge(
            &actor(),
            shadow(&gate, Kind::FsWrite, &format!("src/{number}.txt")),
        )
        .unwrap();
        gate.judge(&actor(), connect("example.com", true)).unwrap();
    }
    assert_eq!(verdict_ids(directory.path()), [1, 2]);
    assert_eq!(entries(directory.path()).len(), 2);
}

#[test]
fn a_repeated_refusal_does_not_fill_the_disk() {
    let (directory, gate) = gate(None);
    for _ in 0..1000 {
        gate.judge(&actor(), shadow(&gate, Kind::FsRead, ".env"))
            .unwrap_err();
        gate.judge(&actor(), connect("a.example", false))
            .unwrap_err();
    }
    let refused = entries(directory.path());
    let refused = refused
        .iter()
        .filter(|entry| matches!(entry.event, Event::Refused { .. }));
    assert_eq!(refused.count(), 2);
    let other = Actor {
        pid: std::process::id(),
        ..actor()
    };
    gate.judge(&other, connect("a.example", false)).unwrap_err();
    assert!(matches!(
        entries(directory.path()).last().unwrap().event,
        Event::Refused { .. }
    ));
}

#[test]
fn ids_of_verdicts_go_on_after_a_resume() {
    let (directory, gate) = gate(None);
    gate.judge(&actor(), shadow(&gate, Kind::FsRead, "a"))
        .unwrap();
    gate.judge(&actor(), shadow(&gate, Kind::FsWrite, "a"))
        .unwrap();
    drop(gate);
    let journal = Arc::new(Journal::resume(directory.path()).unwrap());
    let gate = Gate::with_defaults(journal, None).unwrap();
    gate.judge(&actor(), shadow(&gate, Kind::FsRead, "a"))
        .unwrap();
    assert_eq!(verdict_ids(directory.path()), [1, 2, 3]);
}

#[test]
fn what_can_not_be_recorded_is_refused() {
    let (_directory, gate) = gate(None);
    let long = "x".repeat(9 << 20);
    let refusal = gate.judge(&actor(), connect(&long, false)).unwrap_err();
    assert!(
        refusal.reason.starts_with("it can not be put on record"),
        "{}",
        refusal.reason
    );
}

#[test]
fn a_policy_that_looks_at_names_is_asked_for_each() {
    let forbid = r#"
        @reason("made by the schema compiler")
        forbid(principal, action == Action::"fs.write", resource is ShadowPath)
        when { resource.path like "gen/*" };"#;
    let (directory, gate) = gate(Some(forbid));
    for _ in 0..3 {
        gate.judge(&actor(), shadow(&gate, Kind::FsWrite, "src/a"))
            .unwrap();
        let refusal = gate
            .judge(&actor(), shadow(&gate, Kind::FsWrite, "gen/a"))
            .unwrap_err();
        assert_eq!(refusal.reason, "made by the schema compiler");
        assert_eq!(refusal.policies.as_ref(), ["user.policy0".to_owned()]);
        gate.judge(&actor(), shadow(&gate, Kind::FsWrite, "src/b"))
            .unwrap();
    }
    assert_eq!(
        verdict_ids(directory.path()),
        [1, 2],
        "one entry for each outcome"
    );
}

#[test]
fn a_persons_policy_adds_and_takes_nothing_away() {
    let permits = r#"
        @id("all") permit(principal, action, resource);
        @id("friend")
        permit(principal, action == Action::"net.connect", resource)
        when { resource.host == "friend.example" };"#;
    let (_directory, gate) = gate(Some(permits));
    gate.judge(&actor(), connect("friend.example", false))
        .unwrap();
    let refusal = gate
        .judge(&actor(), shadow(&gate, Kind::FsWrite, ".git/config"))
        .unwrap_err();
    assert_eq!(refusal.policies.as_ref(), ["vcs.locked".to_owned()]);
}

#[test]
fn a_forbid_that_fails_refuses() {
    let overflow = r#"
        forbid(principal, action == Action::"net.connect", resource)
        when { resource.port * 9223372036854775807 < 0 };"#;
    let (_directory, gate) = gate(Some(overflow));
    let refusal = gate
        .judge(&actor(), connect("example.com", true))
        .unwrap_err();
    assert!(
        refusal.reason.starts_with("policy could not be evaluated"),
        "{}",
        refusal.reason
    );
}

#[test]
fn a_question_is_askable_unless_something_forbids_as_well() {
    let ask = r#"
        @id("env") @ask("write a dotenv file")
        forbid(principal, action == Action::"fs.write", resource in Label::"secret");
        @id("git") @ask("")  @reason("git is mine")
        forbid(principal, action == Action::"fs.write", resource in Label::"vcs");"#;
    let (_directory, gate) = gate(Some(ask));
    let judge = |path: &str| {
        gate.judge(&actor(), shadow(&gate, Kind::FsWrite, path))
            .unwrap_err()
    };
    assert!(judge(".env").askable);
    assert_eq!(judge(".env").reason, "write a dotenv file");
    assert_eq!(judge(".git/index").reason, "git is mine");
    assert!(judge(".git/index").askable);
    assert!(!judge(".git/config").askable);
    assert_eq!(
        judge(".git/config").reason,
        "git executes this name or is redirected by it"
    );
}

#[test]
fn agents_are_told_apart() {
    let forbid = r#"forbid(principal == Agent::"codex", action == Action::"fs.write", resource);"#;
    let (_directory, gate) = gate(Some(forbid));
    let codex = Actor {
        agent: "codex".into(),
        pid: 0,
    };
    gate.judge(&codex, shadow(&gate, Kind::FsWrite, "a"))
        .unwrap_err();
    gate.judge(&actor(), shadow(&gate, Kind::FsWrite, "a"))
        .unwrap();
    gate.judge(&codex, shadow(&gate, Kind::FsWrite, "b"))
        .unwrap_err();
}

#[test]
fn a_mistake_is_named_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Arc::new(Journal::create(directory.path()).unwrap());
    let error = |source: &str| {
        Gate::with_defaults(Arc::clone(&journal), Some(source))
            .unwrap_err()
            .to_string()
    };
    insta::assert_snapshot!(
        [
            error("permit(principal, action, resource);\nforbit(principal, action, resource);"),
            error("permit(\n    principal,\n    action == Action::\"fs.raed\",\n    resource\n);"),
            error("forbid(principal, action, resource is ShadowPath)\nwhen { resource.size > 3 };"),
            error("permit(principal, action, resource in Label::\"secret\") when { resource.path };"),
            error("forbid(principal, action, resource in Label::\"secrets\");"),
            error("forbid(principal, action == Action::\"fs.read\", resource is Endpoint);"),
            error("permit(principal == ?principal, action, resource);"),
            error("@id(\"a\") permit(principal, action, resource);\n@id(\"a\") permit(principal, action, resource);"),
        ]
        .join("\n")
    );
}

#[test]
fn the_documented_policy_is_valid_and_does_what_it_says() {
    let document = include_str!("../../../docs/POLICY.md");
    let (_, block) = document.split_once("```cedar\n").unwrap();
    let (_directory, gate) = gate(Some(block.split_once("```").unwrap().0));
    gate.judge(&actor(), connect("tracker.example.org", false))
        .unwrap();
    gate.judge(&actor(), connect("other.example.org", false))
        .unwrap_err();
    let codex = Actor {
        agent: "codex".into(),
        pid: 0,
    };
    let refusal = gate
        .judge(&codex, shadow(&gate, Kind::FsWrite, "Makefile"))
        .unwrap_err();
    assert_eq!(refusal.reason, "build files are changed by people here");
    gate.judge(&actor(), shadow(&gate, Kind::FsWrite, "Makefile"))
        .unwrap();
}

#[test]
fn the_document_names_every_kind_and_label() {
    let document = include_str!("../../../docs/POLICY.md");
    let names = Kind::ALL
        .map(Kind::name)
        .into_iter()
        .chain(aegis_policies::Label::ALL.map(aegis_policies::Label::name));
    for name in names {
        assert!(document.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn threads_that_meet_at_a_new_class_record_it_once() {
    let (directory, gate) = gate(None);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for name in 0..50 {
                    let effect = shadow(&gate, Kind::FsWrite, &format!("src/{name}"));
                    gate.judge(&actor(), effect).unwrap();
                }
            });
        }
    });
    assert_eq!(verdict_ids(directory.path()), [1]);
}
