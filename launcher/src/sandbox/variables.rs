//! The environment of the command: built from an allow-list, never passed on.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use aegis_policies::tables;

use super::Request;
use super::facts::HostFacts;
use super::layers::Layers;

/// Where the shims are; first on `PATH`.
const OWN_PROGRAMS: &str = "/aegis/bin";
/// What every Unix system has; for a host whose own shell is not visible inside.
const PLAIN_SHELL: &str = "/bin/sh";

/// All variables, sorted by name. Later rules win: the host's allowed ones, those of toolchains,
/// ours, and the session's.
pub(super) fn build(
    request: &Request,
    facts: &HostFacts,
    layers: &Layers,
) -> Vec<(OsString, OsString)> {
    let mut variables: BTreeMap<OsString, OsString> = BTreeMap::new();
    variables.extend(allowed(facts));
    variables.extend(toolchains(facts, layers));
    variables.insert("HOME".into(), facts.user.home.clone().into());
    variables.insert("USER".into(), facts.user.name.clone());
    variables.insert("LOGNAME".into(), facts.user.name.clone());
    variables.insert("PATH".into(), search(request, facts, layers));
    variables.insert("SHELL".into(), shell(facts, layers));
    variables.insert("AEGIS_SESSION".into(), request.session.clone().into());
    variables.insert("AEGIS_PROJECT".into(), request.project.clone().into());
    variables.extend(request.environment.iter().cloned());
    variables
        .into_iter()
        .filter(|(name, value)| is_settable(name, value))
        .collect()
}

fn allowed(facts: &HostFacts) -> Vec<(OsString, OsString)> {
    // A table that cannot be read lets nothing pass; gathering the facts has reported it before.
    let Ok(table) = tables::environment() else {
        return Vec::new();
    };
    facts
        .environment
        .iter()
        .filter(|(name, _)| table.passes(name))
        .cloned()
        .collect()
}

/// A variable that the host has already set to a place which is visible keeps that value: the
/// toolchain may be installed elsewhere.
fn toolchains(facts: &HostFacts, layers: &Layers) -> Vec<(OsString, OsString)> {
    let outside: BTreeMap<_, _> = facts.environment.iter().cloned().collect();
    let value = |name: &OsString, value: &OsString| {
        let own = outside.get(name).filter(|own| layers.shows(Path::new(own)));
        (name.clone(), own.unwrap_or(value).clone())
    };
    let found = facts.toolchains.iter().flat_map(|found| &found.environment);
    found.map(|(name, default)| value(name, default)).collect()
}

fn search(request: &Request, facts: &HostFacts, layers: &Layers) -> OsString {
    let mut entries = vec![PathBuf::from(OWN_PROGRAMS)];
    let exists = |named: &Path, real: &Path| {
        real.starts_with(&request.project)
            || layers.shows(named) && layers.shows(real)
            || layers.holds_child_of(named)
    };
    let host = facts
        .search
        .iter()
        .filter(|shown| exists(&shown.at, &shown.real));
    let found = facts.toolchains.iter().flat_map(|found| &found.search);
    let extra = found.filter(|path| layers.shows(path));
    for entry in host.map(|shown| &shown.at).chain(extra) {
        if !entries.contains(entry) {
            entries.push(entry.clone());
        }
    }
    // An entry that holds the separator was split at it before, so joining cannot fail.
    env::join_paths(entries).unwrap_or_else(|_| OWN_PROGRAMS.into())
}

fn shell(facts: &HostFacts, layers: &Layers) -> OsString {
    let own = facts
        .environment
        .iter()
        .find(|(name, _)| name == "SHELL")
        .map(|(_, value)| value);
    own.filter(|shell| Path::new(shell).is_absolute() && layers.shows(Path::new(shell)))
        .cloned()
        .unwrap_or_else(|| OsString::from(PLAIN_SHELL))
}

fn is_settable(name: &OsStr, value: &OsStr) -> bool {
    let name = name.as_bytes();
    !name.is_empty()
        && !name.contains(&b'=')
        && !name.contains(&0)
        && !value.as_bytes().contains(&0)
}
