//! Verdicts, kept per class of effects so that policy is evaluated once for each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use dashmap::DashMap;

use crate::cedar::{Judgement, Policy};
use crate::effect::{Actor, Effect, Kind, Reversibility, Scope};
use crate::journal::{Event, Journal, JournalError, Outcome, VerdictId};
use crate::label::Labels;

/// Verdicts per single name that are kept; an agent chooses names, so their number has a bound.
const NAMED_CAPACITY: usize = 1 << 16;

/// What was decided.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub(super) id: VerdictId,
    pub(super) outcome: Outcome,
    pub(super) policies: Arc<[String]>,
    pub(super) reason: Arc<str>,
}

/// Every verdict so far.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    by_class: DashMap<Class, Verdict>,
    by_name: DashMap<(Arc<str>, Effect), Verdict>,
    /// The ids of verdicts that have an entry in the journal.
    recorded: Mutex<HashMap<Record, VerdictId>>,
}

/// Effects that no policy can tell apart unless it looks at their names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Class {
    agent: Arc<str>,
    kind: Kind,
    scope: &'static str,
    labels: Labels,
    listed: bool,
    reversibility: Reversibility,
}

/// What an [`Event::Verdict`] entry says, apart from its id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Record {
    kind: Kind,
    scope: &'static str,
    labels: Labels,
    outcome: Outcome,
    policies: Arc<[String]>,
}

impl Verdicts {
    /// The verdict on an effect, from memory or from the policy.
    ///
    /// # Errors
    /// [`JournalError`] when a new verdict could not be put on record; it is then not kept.
    pub(super) fn find(
        &self,
        policy: &Policy,
        journal: &Journal,
        actor: &Actor,
        effect: &Effect,
    ) -> Result<Verdict, JournalError> {
        if policy.looks_at_names(effect.kind) {
            return self.find_by_name(policy, journal, actor, effect);
        }
        let class = Class::of(actor, effect);
        if let Some(verdict) = self.by_class.get(&class) {
            return Ok(verdict.clone());
        }
        let verdict = self.record(journal, effect, policy.judge(actor, effect))?;
        self.by_class.insert(class, verdict.clone());
        Ok(verdict)
    }

    fn find_by_name(
        &self,
        policy: &Policy,
        journal: &Journal,
        actor: &Actor,
        effect: &Effect,
    ) -> Result<Verdict, JournalError> {
        let key = (Arc::clone(&actor.agent), effect.clone());
        if let Some(verdict) = self.by_name.get(&key) {
            return Ok(verdict.clone());
        }
        let verdict = self.record(journal, effect, policy.judge(actor, effect))?;
        if self.by_name.len() >= NAMED_CAPACITY {
            self.by_name.clear();
        }
        self.by_name.insert(key, verdict.clone());
        Ok(verdict)
    }

    /// Gives a judgement the id of its entry, writing the entry when it is the first of its like.
    fn record(
        &self,
        journal: &Journal,
        effect: &Effect,
        judgement: Judgement,
    ) -> Result<Verdict, JournalError> {
        let record = Record {
            kind: effect.kind,
            scope: effect.scope.class(),
            labels: effect.scope.labels(),
            outcome: judgement.outcome,
            policies: Arc::clone(&judgement.policies),
        };
        // Held across the write, so that two threads do not both write the first of its like.
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        let id = match recorded.get(&record) {
            Some(id) => *id,
            None => {
                let id = journal.fresh_verdict();
                journal.append(0, VerdictId::default(), record.event(id))?;
                recorded.insert(record, id);
                id
            }
        };
        let Judgement {
            outcome,
            policies,
            reason,
        } = judgement;
        Ok(Verdict {
            id,
            outcome,
            policies,
            reason,
        })
    }
}

impl Class {
    fn of(actor: &Actor, effect: &Effect) -> Self {
        Self {
            agent: Arc::clone(&actor.agent),
            kind: effect.kind,
            scope: effect.scope.class(),
            labels: effect.scope.labels(),
            listed: matches!(effect.scope, Scope::Endpoint { listed: true, .. }),
            reversibility: effect.reversibility,
        }
    }
}

impl Record {
    fn event(&self, id: VerdictId) -> Event {
        Event::Verdict {
            id,
            kind: self.kind,
            class: self.scope.to_owned(),
            labels: self.labels,
            outcome: self.outcome,
            policies: self.policies.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::label::Label;
    use crate::path::RelPath;

    /// Rules of every shape: by class, by name, by agent, by question, and one that fails.
    const POLICIES: [&str; 8] = [
        "",
        r#"forbid(principal, action in Action::"fs.change", resource in Label::"ci");"#,
        r#"forbid(principal, action, resource is ShadowPath) when { resource.path like "a*" };"#,
        r#"forbid(principal, action == Action::"fs.write", resource == ShadowPath::"b");"#,
        r#"forbid(principal == Agent::"x", action == Action::"fs.read", resource);"#,
        r#"permit(principal, action == Action::"net.connect", resource) when { resource.port == 80 };"#,
        r#"@ask("?") forbid(principal, action, resource is Endpoint) unless { resource.listed };"#,
        r#"forbid(principal, action == Action::"net.connect", resource) when { resource.port * 9223372036854775807 > 0 };"#,
    ];

    fn effect() -> impl Strategy<Value = (Arc<str>, Effect)> {
        let shadow = (
            select(vec!["a", "ab", "b", "c"]),
            any::<bool>(),
            any::<bool>(),
        )
            .prop_map(|(path, ci, secret)| Scope::Shadow {
                path: RelPath::parse(path.as_bytes()).unwrap(),
                labels: [(ci, Label::Ci), (secret, Label::Secret)]
                    .into_iter()
                    .filter(|(has, _)| *has)
                    .fold(Labels::NONE, |labels, (_, label)| labels.with(label)),
            });
        let endpoint =
            (select(vec![0, 80, 443]), any::<bool>()).prop_map(|(port, listed)| Scope::Endpoint {
                host: "h".to_owned(),
                port,
                listed,
            });
        let kinds = select(vec![Kind::FsRead, Kind::FsWrite, Kind::NetConnect]);
        let reversibility = select(vec![Reversibility::Reversible, Reversibility::Irreversible]);
        (
            select(vec!["x", "y"]),
            kinds,
            prop_oneof![shadow, endpoint],
            reversibility,
        )
            .prop_map(|(agent, kind, scope, reversibility)| {
                (
                    agent.into(),
                    Effect {
                        kind,
                        scope,
                        reversibility,
                    },
                )
            })
    }

    proptest! {
        #[test]
        fn memory_says_what_the_policy_says(
            source in select(POLICIES.to_vec()),
            effects in proptest::collection::vec(effect(), 1..40),
        ) {
            let directory = tempfile::tempdir().unwrap();
            let journal = Journal::create(directory.path()).unwrap();
            let policy = Policy::with_user("test.cedar", source).unwrap();
            let verdicts = Verdicts::default();
            for (agent, effect) in effects {
                let actor = Actor { agent, pid: 0 };
                let kept = verdicts.find(&policy, &journal, &actor, &effect).unwrap();
                let fresh = policy.judge(&actor, &effect);
                prop_assert_eq!(kept.outcome, fresh.outcome, "{:?}", effect);
                prop_assert_eq!(kept.policies, fresh.policies);
                prop_assert_eq!(kept.reason, fresh.reason);
            }
        }
    }
}
