//! Which kinds of effects have a policy that looks at the name itself.
//!
//! A verdict may be kept for a whole class of names only when no policy can tell two names of the
//! class apart. What is not recognised as harmless counts as looking.

use cedar_policy::{Entities, EntityId, EntityTypeName, EntityUid, Policy, PolicySet, Schema};
use serde_json::Value;

use crate::effect::Kind;

/// The kinds, as bits by their place in [`Kind::ALL`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dependence(u32);

impl Dependence {
    pub(super) fn of(set: &PolicySet, schema: &Schema) -> Self {
        let actions = action_entities(schema);
        let mut found = Self::default();
        for policy in set.policies() {
            let Ok(json) = policy.to_json() else {
                return Self(u32::MAX);
            };
            if looks_at_name(&json) {
                let kinds = Kind::ALL
                    .into_iter()
                    .filter(|kind| applies(&json, *kind, &actions));
                found = kinds.fold(found, |found, kind| Self(found.0 | 1 << kind as u8));
            }
        }
        found
    }

    pub(super) const fn has(self, kind: Kind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }
}

/// The kinds that the action scope of a policy takes in; all, when it can not be read.
pub(super) fn kinds(policy: &Policy, schema: &Schema) -> Vec<Kind> {
    let Ok(json) = policy.to_json() else {
        return Kind::ALL.to_vec();
    };
    let actions = action_entities(schema);
    Kind::ALL
        .into_iter()
        .filter(|kind| applies(&json, *kind, &actions))
        .collect()
}

fn action_entities(schema: &Schema) -> Entities {
    schema
        .action_entities()
        .unwrap_or_else(|_| Entities::empty())
}

fn looks_at_name(policy: &Value) -> bool {
    let scope = policy
        .get("resource")
        .is_none_or(|scope| !is_harmless_scope(scope));
    let conditions = policy.get("conditions").and_then(Value::as_array);
    scope || conditions.is_none_or(|conditions| conditions.iter().any(mentions_name))
}

/// All, a type, or membership in a label.
fn is_harmless_scope(scope: &Value) -> bool {
    let in_label = |value: &Value| value.get("entity").is_some_and(is_label);
    match scope.get("op").and_then(Value::as_str) {
        Some("All") => true,
        Some("in") => in_label(scope),
        Some("is") => scope.get("in").is_none_or(in_label),
        _ => false,
    }
}

/// Whether an expression uses `resource` other than in `resource in Label::"..."`,
/// `resource is Type` or `resource.listed`.
fn mentions_name(expression: &Value) -> bool {
    match expression {
        Value::Object(map) => map
            .iter()
            .any(|(operator, operands)| match operator.as_str() {
                "Var" => operands == "resource",
                "in" if is_resource(operands.get("left")) => operands
                    .get("right")
                    .is_none_or(|right| !is_label_literal(right)),
                "is" if is_resource(operands.get("left")) => operands
                    .get("in")
                    .is_some_and(|right| !is_label_literal(right)),
                "." if is_resource(operands.get("left")) => operands
                    .get("attr")
                    .is_none_or(|attribute| attribute != "listed"),
                _ => mentions_name(operands),
            }),
        Value::Array(items) => items.iter().any(mentions_name),
        _ => false,
    }
}

fn is_resource(expression: Option<&Value>) -> bool {
    expression
        .and_then(|value| value.get("Var"))
        .is_some_and(|name| name == "resource")
}

/// A label, or a set of labels.
fn is_label_literal(expression: &Value) -> bool {
    if let Some(items) = expression.get("Set").and_then(Value::as_array) {
        return items.iter().all(is_label_literal);
    }
    let literal = expression.get("Value");
    literal
        .and_then(|literal| literal.get("__entity"))
        .is_some_and(is_label)
}

fn is_label(entity: &Value) -> bool {
    entity.get("type").is_some_and(|kind| kind == "Label")
}

/// Whether the policy's action scope takes in `kind`.
fn applies(policy: &Value, kind: Kind, actions: &Entities) -> bool {
    let Some(scope) = policy.get("action") else {
        return true;
    };
    let one = scope.get("entity").into_iter();
    let many = scope
        .get("entities")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let mut named = one.chain(many).peekable();
    if named.peek().is_none() {
        return scope.get("op").is_none_or(|operator| operator != "in");
    }
    named.any(|entity| {
        let id = entity.get("id").and_then(Value::as_str);
        id.is_none_or(|id| is_in_group(kind.name(), id, actions))
    })
}

fn is_in_group(kind: &str, group: &str, actions: &Entities) -> bool {
    let Ok(action) = "Action".parse::<EntityTypeName>() else {
        return true;
    };
    let uid = |id: &str| EntityUid::from_type_name_and_id(action.clone(), EntityId::new(id));
    actions.is_ancestor_of(&uid(group), &uid(kind)) || kind == group
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cedar::Policy;

    fn looks(kind: Kind, source: &str) -> bool {
        Policy::with_user("test.cedar", source)
            .unwrap()
            .looks_at_names(kind)
    }

    #[test]
    fn the_builtin_policy_looks_at_no_name() {
        let policy = Policy::builtin().unwrap();
        assert!(
            Kind::ALL
                .into_iter()
                .all(|kind| !policy.looks_at_names(kind))
        );
    }

    #[test]
    fn classes_are_not_names() {
        for source in [
            r#"permit(principal, action, resource);"#,
            r#"permit(principal, action, resource is ShadowPath in Label::"ci");"#,
            r#"permit(principal, action, resource) when { resource in Label::"ci" };"#,
            r#"permit(principal, action, resource) unless { resource in [Label::"ci", Label::"vcs"] };"#,
            r#"permit(principal, action, resource) when { context.reversibility == "reversible" };"#,
            r#"permit(principal, action == Action::"net.connect", resource) when { !resource.listed };"#,
            r#"permit(principal, action, resource) when { resource is Endpoint && resource.listed };"#,
        ] {
            let any = Kind::ALL.into_iter().any(|kind| looks(kind, source));
            assert!(!any, "{source}");
        }
    }

    #[test]
    fn names_are_names_however_they_are_looked_at() {
        for source in [
            r#"permit(principal, action == Action::"fs.read", resource == ShadowPath::"a");"#,
            r#"permit(principal, action == Action::"fs.read", resource) when { resource.path == "a" };"#,
            r#"permit(principal, action == Action::"fs.read", resource) when { ["a"].contains(resource.path) };"#,
            r#"permit(principal, action == Action::"fs.read", resource) when { {x: resource}.x.path like "a*" };"#,
            r#"permit(principal, action == Action::"fs.read", resource) when { resource == ShadowPath::"a" };"#,
            r#"permit(principal, action == Action::"fs.read", resource) when { if resource has path then resource.path == "a" else false };"#,
            r#"permit(principal, action in Action::"fs.any", resource) when { resource.path == "a" };"#,
        ] {
            assert!(looks(Kind::FsRead, source), "{source}");
            assert!(!looks(Kind::NetConnect, source), "{source}");
        }
    }

    #[test]
    fn groups_of_actions_are_followed() {
        let source = r#"permit(principal, action in [Action::"fs.change"], resource) when { resource.path == "a" };"#;
        assert!(looks(Kind::FsWrite, source) && looks(Kind::FsMeta, source));
        assert!(!looks(Kind::FsRead, source) && !looks(Kind::WorkspaceCommit, source));
    }
}
