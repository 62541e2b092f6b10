//! Policy in Cedar: loaded against a schema, asked about one effect at a time.
//!
//! Nothing of Cedar's interface leaves this module.

mod dependence;
mod diagnose;
mod request;

use std::sync::Arc;

use cedar_policy::ffi::DetailedError;
use cedar_policy::{
    Authorizer, Decision, ParseErrors, PolicyId, PolicySet, Response, Schema, ValidationMode,
    Validator,
};

use crate::effect::{Actor, Effect, Kind};
use crate::journal::Outcome;

const SCHEMA: &str = include_str!("../../cedar/aegis.cedarschema");
/// How the ids of a person's own policies start.
const USER: &str = "user.";
const DEFAULT: &str = include_str!("../../cedar/default.cedar");

/// Why policies could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The text is not Cedar, or names what the schema does not have.
    #[error("{source_name}:{line}:{column}: {message}")]
    Invalid {
        /// Which text.
        source_name: String,
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
        /// What is wrong, and what may help.
        message: String,
    },
    /// Two policies of one text have the same `@id`.
    #[error("{source_name}: two policies have the id `{id}`")]
    Duplicate {
        /// Which text.
        source_name: String,
        /// The id.
        id: String,
    },
}

/// A set of policies that has been checked against the schema.
#[derive(Debug)]
pub struct Policy {
    set: PolicySet,
    schema: Schema,
    authorizer: Authorizer,
    named: dependence::Dependence,
}

/// What a policy says about an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judgement {
    pub(crate) outcome: Outcome,
    /// The ids of the policies that decided, sorted.
    pub(crate) policies: Arc<[String]>,
    /// The reason in words.
    pub(crate) reason: Arc<str>,
}

impl Policy {
    /// The built-in policy alone.
    ///
    /// # Errors
    /// [`PolicyError`] when the built-in texts are not valid, which a test excludes.
    pub fn builtin() -> Result<Self, PolicyError> {
        let schema = parse_schema()?;
        let mut set = PolicySet::new();
        add(&mut set, &schema, "default.cedar", "", DEFAULT)?;
        Ok(Self::new(set, schema))
    }

    /// The built-in policy and a person's own, whose ids start with `user.`.
    ///
    /// The person's policies add: they can not take a built-in one away, and Cedar lets a `forbid`
    /// win over any `permit`.
    ///
    /// # Errors
    /// [`PolicyError`] with the line and column of the first mistake.
    pub fn with_user(source_name: &str, source: &str) -> Result<Self, PolicyError> {
        let Self {
            mut set, schema, ..
        } = Self::builtin()?;
        add(&mut set, &schema, source_name, USER, source)?;
        Ok(Self::new(set, schema))
    }

    fn new(set: PolicySet, schema: Schema) -> Self {
        let named = dependence::Dependence::of(&set, &schema);
        Self {
            set,
            schema,
            authorizer: Authorizer::new(),
            named,
        }
    }

    /// Whether the answer for this kind may depend on the name itself rather than its class.
    pub(crate) const fn looks_at_names(&self, kind: Kind) -> bool {
        self.named.has(kind)
    }

    /// Asks the policies about one effect. An error in any policy refuses: Cedar leaves a policy
    /// out that fails, and a `forbid` left out would permit.
    pub(crate) fn judge(&self, actor: &Actor, effect: &Effect) -> Judgement {
        let (request, entities) = match request::build(&self.schema, actor, effect) {
            Ok(parts) => parts,
            Err(message) => return Judgement::failed(&message),
        };
        let response = self
            .authorizer
            .is_authorized(&request, &self.set, &entities);
        if let Some(error) = response.diagnostics().errors().next() {
            return Judgement::failed(&error.to_string());
        }
        self.explain(&response, effect)
    }

    fn explain(&self, response: &Response, effect: &Effect) -> Judgement {
        let mut decided: Vec<&PolicyId> = response.diagnostics().reason().collect();
        decided.sort_unstable_by_key(|id| AsRef::<str>::as_ref(*id));
        let outcome = match response.decision() {
            Decision::Allow => Outcome::Allow,
            Decision::Deny if decided.is_empty() => Outcome::Deny,
            Decision::Deny
                if decided
                    .iter()
                    .all(|id| self.set.annotation(id, "ask").is_some()) =>
            {
                Outcome::Ask
            }
            Decision::Deny => Outcome::Deny,
        };
        let policies = decided.iter().map(ToString::to_string).collect();
        Judgement {
            outcome,
            policies,
            reason: self.reason(&decided, outcome, effect).into(),
        }
    }

    /// The words of the first policy that explains the outcome.
    fn reason(&self, decided: &[&PolicyId], outcome: Outcome, effect: &Effect) -> String {
        let of = |key: &str| decided.iter().find_map(|id| self.set.annotation(id, key));
        let words = match outcome {
            Outcome::Allow => of("reason"),
            Outcome::Ask => of("ask")
                .filter(|why| !why.is_empty())
                .or_else(|| of("reason")),
            // A question that something forbids as well is no reason.
            Outcome::Deny => decided
                .iter()
                .filter(|id| self.set.annotation(id, "ask").is_none())
                .find_map(|id| self.set.annotation(id, "reason")),
        };
        match (words, decided.first()) {
            (Some(words), _) => words.to_owned(),
            (None, Some(id)) => format!("policy `{id}` decided"),
            (None, None) => format!("no policy permits `{}` here", effect.kind.name()),
        }
    }
}

impl Judgement {
    fn failed(message: &str) -> Self {
        Self {
            outcome: Outcome::Deny,
            policies: Arc::default(),
            reason: format!("policy could not be evaluated: {message}").into(),
        }
    }
}

/// The first of a person's policies that is about nothing that is ever judged.
fn idle(set: &PolicySet, schema: &Schema, source_name: &str, source: &str) -> Option<PolicyError> {
    let found = set.policies().filter_map(|policy| {
        let kinds = dependence::kinds(policy, schema);
        if kinds.is_empty() || kinds.iter().any(|kind| kind.is_judged()) {
            return None;
        }
        let names = kinds.iter().map(|kind| format!("`{}`", kind.name()));
        let names = names.collect::<Vec<_>>().join(" or ");
        let offset = policy.to_cedar().and_then(|text| source.find(&text));
        Some((offset.unwrap_or(0), names))
    });
    let (offset, names) = found.min()?;
    let message = format!("nothing is judged as {names} yet");
    Some(diagnose::at(source_name, source, offset, message))
}

fn parse_schema() -> Result<Schema, PolicyError> {
    let (schema, _warnings) = Schema::from_cedarschema_str(SCHEMA)
        .map_err(|error| diagnose::error("aegis.cedarschema", SCHEMA, &(&error).into()))?;
    Ok(schema)
}

/// Parses a text, names its policies by their `@id`, checks them, and adds them to `set`.
fn add(
    set: &mut PolicySet,
    schema: &Schema,
    source_name: &str,
    prefix: &str,
    source: &str,
) -> Result<(), PolicyError> {
    let parsed: PolicySet = source
        .parse()
        .map_err(|error: ParseErrors| diagnose::error(source_name, source, &(&error).into()))?;
    let checked = Validator::new(schema.clone()).validate(&parsed, ValidationMode::Strict);
    let errors = checked.validation_errors().map(DetailedError::from);
    // Cedar warns of a rule that can never apply, and of text that shows as other than it is. A
    // person who wrote such a rule relies on it.
    let warnings = checked.validation_warnings().map(DetailedError::from);
    if let Some(first) = errors.chain(warnings).min_by_key(diagnose::offset) {
        return Err(diagnose::error(source_name, source, &first));
    }
    if let Some(template) = parsed.templates().next() {
        let message = format!("`{}` is a template, which nothing links", template.id());
        return Err(diagnose::plain(source_name, message));
    }
    if prefix == USER
        && let Some(error) = idle(&parsed, schema, source_name, source)
    {
        return Err(error);
    }
    for policy in parsed.policies() {
        let name = policy
            .annotation("id")
            .unwrap_or_else(|| policy.id().as_ref());
        let id = format!("{prefix}{name}");
        let policy = policy.new_id(PolicyId::new(&id));
        let duplicate = |_| PolicyError::Duplicate {
            source_name: source_name.to_owned(),
            id,
        };
        set.add(policy).map_err(duplicate)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_schema_has_every_kind_and_no_other() {
        let schema = parse_schema().unwrap();
        let groups: BTreeSet<String> = schema.action_groups().map(ToString::to_string).collect();
        let actions = schema
            .actions()
            .map(ToString::to_string)
            .filter(|id| !groups.contains(id));
        let kinds = Kind::ALL.map(|kind| format!("Action::\"{}\"", kind.name()));
        let named = BTreeSet::from(kinds);
        let unused = BTreeSet::from(
            ["fs.any", "fs.change", "workspace.land"].map(|group| format!("Action::\"{group}\"")),
        );
        let leaves: BTreeSet<String> = actions.filter(|id| !unused.contains(id)).collect();
        assert_eq!(leaves, named);
    }

    #[test]
    fn every_builtin_policy_has_an_id_and_a_reason() {
        for policy in Policy::builtin().unwrap().set.policies() {
            assert_eq!(
                policy.annotation("id"),
                Some(policy.id().to_string().as_str())
            );
            assert!(
                policy
                    .annotation("reason")
                    .is_some_and(|reason| !reason.is_empty())
            );
        }
    }

    #[test]
    fn a_rule_about_what_nothing_judges_is_told_with_its_place() {
        let told = |source: &str| match Policy::with_user("test", source) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        let first = "permit(principal, action in Action::\"fs.any\", resource);";
        let idle = "\n  forbid(principal, action == Action::\"exec\", resource);";
        assert_eq!(
            told(&format!("{first}{idle}{idle}")),
            "test:2:3: nothing is judged as `exec` yet"
        );
        let both = |other: &str| {
            told(&format!(
                "permit(principal, action in [Action::\"dns.query\", Action::\"{other}\"], resource);"
            ))
        };
        assert_eq!(
            both("coord.claim"),
            "test:1:1: nothing is judged as `dns.query` or `coord.claim` yet"
        );
        assert_eq!(both("net.connect"), "");
        assert_eq!(told("permit(principal, action, resource);"), "");
    }

    #[test]
    fn the_schema_has_every_label_and_no_other() {
        for label in crate::Label::ALL {
            let source = format!(
                "permit(principal, action, resource in Label::\"{}\");",
                label.name()
            );
            assert!(Policy::with_user("test", &source).is_ok(), "{source}");
        }
        let (_, rest) = SCHEMA.split_once("entity Label enum [").unwrap();
        let (labels, _) = rest.split_once(']').unwrap();
        assert_eq!(labels.matches(',').count() + 1, crate::Label::ALL.len());
    }
}
