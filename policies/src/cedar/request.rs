//! An effect as the question that Cedar answers.

use std::collections::{HashMap, HashSet};

use cedar_policy::{
    Context, Entities, Entity, EntityId, EntityTypeName, EntityUid, Request, RestrictedExpression,
    Schema,
};

use crate::effect::{Actor, Effect, Scope};
use crate::label::Labels;
use crate::path::RelPath;

/// The request and the entities it speaks of; the message says what the schema does not have.
pub(super) fn build(
    schema: &Schema,
    actor: &Actor,
    effect: &Effect,
) -> Result<(Request, Entities), String> {
    let principal = uid("Agent", &actor.agent)?;
    let action = uid("Action", effect.kind.name())?;
    let resource = resource(&effect.scope)?;
    let context = Context::from_pairs([(
        "reversibility".to_owned(),
        RestrictedExpression::new_string(effect.reversibility.name().to_owned()),
    )])
    .map_err(text)?;
    let request = Request::new(
        principal.clone(),
        action,
        resource.uid(),
        context,
        Some(schema),
    )
    .map_err(text)?;
    let labels = effect.scope.labels();
    let mut entities = vec![Entity::with_uid(principal), resource];
    for label in label_uids(labels)? {
        entities.push(Entity::with_uid(label));
    }
    let entities = Entities::from_entities(entities, Some(schema)).map_err(text)?;
    Ok((request, entities))
}

fn resource(scope: &Scope) -> Result<Entity, String> {
    let text = |value: &str| RestrictedExpression::new_string(value.to_owned());
    match scope {
        Scope::Shadow { path, labels } => named("ShadowPath", path, *labels),
        Scope::Project { path, labels } => named("ProjectPath", path, *labels),
        Scope::Endpoint { host, port, listed } => entity(
            uid("Endpoint", &format!("{host}:{port}"))?,
            [
                ("host", text(host)),
                ("port", RestrictedExpression::new_long(i64::from(*port))),
                ("listed", RestrictedExpression::new_bool(*listed)),
            ],
            HashSet::new(),
        ),
        Scope::Request {
            upstream,
            method,
            path,
        } => entity(
            uid("Request", &format!("{method} {upstream}{path}"))?,
            [
                ("upstream", text(upstream)),
                ("method", text(method)),
                ("path", text(path)),
            ],
            HashSet::new(),
        ),
    }
}

fn named(kind: &str, path: &RelPath, labels: Labels) -> Result<Entity, String> {
    let shown = String::from_utf8_lossy(path.as_bytes()).into_owned();
    let parents = label_uids(labels)?.collect();
    entity(
        uid(kind, &shown)?,
        [("path", RestrictedExpression::new_string(shown))],
        parents,
    )
}

fn entity<const N: usize>(
    uid: EntityUid,
    attributes: [(&str, RestrictedExpression); N],
    parents: HashSet<EntityUid>,
) -> Result<Entity, String> {
    let attributes: HashMap<String, RestrictedExpression> = attributes
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    Entity::new(uid, attributes, parents).map_err(text)
}

fn label_uids(labels: Labels) -> Result<impl Iterator<Item = EntityUid>, String> {
    let uids: Result<Vec<_>, _> = labels
        .iter()
        .map(|label| uid("Label", label.name()))
        .collect();
    Ok(uids?.into_iter())
}

fn uid(kind: &str, id: &str) -> Result<EntityUid, String> {
    let kind: EntityTypeName = kind.parse().map_err(text)?;
    Ok(EntityUid::from_type_name_and_id(kind, EntityId::new(id)))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
