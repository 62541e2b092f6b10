//! The built-in policy, against the table of what it is to say.

use std::sync::Arc;

use aegis_policies::journal::{self, Event, Outcome};
use aegis_policies::{Actor, Effect, Gate, Journal, Kind, RelPath, Reversibility, Scope};
use serde::Deserialize;

#[derive(Deserialize)]
struct Table {
    case: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    kind: String,
    #[serde(default)]
    scope: Option<String>,
    #[serde(default)]
    path: String,
    #[serde(default)]
    host: String,
    #[serde(default)]
    port: u16,
    #[serde(default)]
    listed: bool,
    #[serde(default)]
    upstream: String,
    #[serde(default)]
    method: String,
    expect: String,
    by: Vec<String>,
}

impl Case {
    fn effect(&self, gate: &Gate) -> Effect {
        let kind = Kind::ALL
            .into_iter()
            .find(|kind| kind.name() == self.kind)
            .unwrap();
        let path = || RelPath::parse(self.path.as_bytes()).unwrap();
        let (scope, reversibility) = match self.scope.as_deref() {
            None => return Effect::shadow(kind, path(), gate.labels(&path())),
            Some("project") => {
                let scope = Scope::Project {
                    path: path(),
                    labels: gate.labels(&path()),
                };
                (scope, Reversibility::Compensable)
            }
            Some("endpoint") => {
                let Self {
                    host, port, listed, ..
                } = self;
                let scope = Scope::Endpoint {
                    host: host.clone(),
                    port: *port,
                    listed: *listed,
                };
                (scope, Reversibility::Irreversible)
            }
            _ => {
                let (upstream, method) = (self.upstream.clone(), self.method.clone());
                let scope = Scope::Request {
                    upstream,
                    method,
                    path: self.path.clone(),
                };
                (scope, Reversibility::Irreversible)
            }
        };
        Effect {
            kind,
            scope,
            reversibility,
        }
    }
}

#[test]
fn says_what_the_table_says() {
    let table: Table = toml::from_str(include_str!("../../cedar/default.tests.toml")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let actor = Actor {
        agent: "claude".into(),
        pid: 0,
    };
    let mut wrong = Vec::new();
    for (number, case) in table.case.iter().enumerate() {
        // A gate of its own, so that the entry of the verdict is there to be compared.
        let home = directory.path().join(number.to_string());
        std::fs::create_dir(&home).unwrap();
        let journal = Arc::new(Journal::create(&home).unwrap());
        let gate = Gate::with_defaults(journal, None).unwrap();
        let said = match gate.judge(&actor, case.effect(&gate)) {
            Ok(_) => "allow",
            Err(refusal) if refusal.askable => "ask",
            Err(_) => "deny",
        };
        let (outcome, policies) = verdict(&home);
        let recorded = format!("{outcome:?}").to_lowercase();
        if (said, recorded.as_str(), &policies) != (&case.expect, &case.expect, &case.by) {
            wrong.push(format!(
                "{case:?}\n    said {said}, recorded {recorded} by {policies:?}"
            ));
        }
    }
    assert!(table.case.len() >= 60);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn verdict(journal: &std::path::Path) -> (Outcome, Vec<String>) {
    let mut entries = journal::read(journal)
        .unwrap()
        .map(|item| item.unwrap().1.event);
    let found = entries.find_map(|event| match event {
        Event::Verdict {
            outcome, policies, ..
        } => Some((outcome, policies)),
        _ => None,
    });
    found.unwrap()
}
