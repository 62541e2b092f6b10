//! What a plan must not be asked for.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use aegis_policies::path::escape;

use super::facts::{HostFacts, Shown};
use super::place::{OWN, SHIMS};
use super::{Request, SandboxError};

/// Places where a project would take the sandbox's own workings away.
const RESERVED: [&str; 4] = ["/proc", "/sys", "/dev", OWN];

/// Whether there is a command that can be found.
pub(super) fn command(request: &Request, facts: &HostFacts) -> Result<(), SandboxError> {
    let name = request.command.first().ok_or(SandboxError::NoCommand)?;
    // A path may exist in the session's own view only; the stage looks there.
    let is_path = name.as_bytes().contains(&b'/');
    let is_ours = SHIMS.iter().any(|shim| name == shim);
    if facts.programs.is_empty() && !is_path && !is_ours {
        return Err(SandboxError::CommandNotFound(words(name)));
    }
    Ok(())
}

/// Whether project and shown paths leave hidden what has to be.
pub(super) fn places(request: &Request, facts: &HostFacts) -> Result<(), SandboxError> {
    let project = &request.project;
    let refuse = |path: &Path, reason| {
        Err(SandboxError::Path {
            path: path.to_owned(),
            reason,
        })
    };
    if !project.is_absolute() || !request.directory.starts_with(project) {
        return refuse(project, "the command must start inside the project");
    }
    if facts.user.real_home.starts_with(project) {
        return refuse(project, "the project would show the whole home directory");
    }
    if RESERVED
        .iter()
        .any(|reserved| project.starts_with(reserved))
    {
        return refuse(project, "the sandbox needs that place for itself");
    }
    if request.hidden.iter().any(|hidden| overlap(hidden, project)) {
        return refuse(
            project,
            "the project and the folder of sessions lie in one another",
        );
    }
    let shows_secrets = |shown: &&Shown| {
        let kept = request.hidden.iter().chain([&facts.user.real_home]);
        kept.into_iter().any(|place| place.starts_with(&shown.real))
            || request
                .hidden
                .iter()
                .any(|hidden| shown.real.starts_with(hidden))
    };
    match facts.read_only.iter().find(shows_secrets) {
        Some(shown) => refuse(
            &shown.at,
            "it would show the home directory or other sessions",
        ),
        None => Ok(()),
    }
}

/// Whether one of two paths holds the other.
pub(super) fn overlap(left: &Path, right: &Path) -> bool {
    left.starts_with(right) || right.starts_with(left)
}

/// A name for a message.
pub(super) fn words(text: &OsStr) -> String {
    escape(text.as_bytes())
}
