//! Rules about one item.

use std::os::fd::AsFd as _;

use aegis_policies::journal::NodeKind;
use aegis_policies::{Label, Labels, RelPath};
use rustix::fs::FileType;

use super::aliases;
use super::git;
use super::git::Rule;
use super::item::{Group, Item};
use super::links;
use super::names::{dot_git_depth, is_deceptive};
use super::reason::Reason;
use super::shapes;
use super::site::Site;
use super::state::State;

/// What the host has as the project's `.git`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repository {
    /// A directory: a repository of the project's own.
    Own,
    /// A file or a link: it is elsewhere.
    Elsewhere,
    /// Nothing.
    None,
}

/// Refuses what may not land and drops what says nothing. `items` are sorted by path.
pub(crate) fn apply(site: &Site<'_>, items: &mut Vec<Item>, labels: &dyn Fn(&RelPath) -> Labels) {
    let repository = repository(site);
    items.retain(|item| !is_skipped(item, repository));
    for item in items.iter_mut() {
        if let Err(reason) = judge(site, item, repository) {
            item.refuse(reason);
        }
    }
    for (number, reason) in shapes::judge(site.tree(), items) {
        if let Some(item) = items.get_mut(number) {
            item.refuse(reason);
        }
    }
    aliases::label(site.tree(), items, labels);
}

fn repository(site: &Site<'_>) -> Repository {
    let stat = rustix::fs::statat(
        site.tree().root().as_fd(),
        ".git",
        rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
    );
    match stat.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        Ok(FileType::Directory) => Repository::Own,
        Ok(_) => Repository::Elsewhere,
        Err(_) => Repository::None,
    }
}

fn is_skipped(item: &Item, repository: Repository) -> bool {
    repository == Repository::Own
        && git::inside(&item.path).is_some_and(|rest| {
            git::rule(rest, &item.base, &item.agent) == Rule::Skip
                || (item.group != Group::Files && is_directory_leftover(item))
        })
}

/// Directories inside `.git` come and go with what they hold; their modes are the host's.
fn is_directory_leftover(item: &Item) -> bool {
    item.base.is_directory() && (item.agent == State::Absent || item.agent.is_directory())
}

fn judge(site: &Site<'_>, item: &Item, repository: Repository) -> Result<(), Reason> {
    if item.path.is_root() {
        return Err(Reason::Root);
    }
    if item.makes_name() && is_deceptive(&item.path) {
        return Err(Reason::DeceptiveName);
    }
    judge_repository(item, repository)?;
    match &item.agent {
        State::File { mode, .. } if mode & 0o6000 != 0 => Err(Reason::SetId),
        State::Symlink { target } => judge_link(site, &item.path, target),
        State::Other => Err(Reason::SpecialFile),
        _ => Ok(()),
    }
}

fn judge_repository(item: &Item, repository: Repository) -> Result<(), Reason> {
    let Some(rest) = git::inside(&item.path) else {
        return match dot_git_depth(&item.path) {
            Some(_) => Err(Reason::NestedRepository),
            // In `.git` the label is for names that redirect; elsewhere, for the whole repository.
            None if item.labels.has(Label::VcsRedirect) => Err(Reason::RepositoryElsewhere),
            None => Ok(()),
        };
    };
    match repository {
        Repository::None => Err(Reason::RepositoryMade),
        Repository::Elsewhere => Err(Reason::NestedRepository),
        Repository::Own => match git::rule(rest, &item.base, &item.agent) {
            Rule::Refuse(reason) => Err(reason),
            Rule::Land | Rule::Skip => Ok(()),
        },
    }
}

fn judge_link(site: &Site<'_>, path: &RelPath, target: &[u8]) -> Result<(), Reason> {
    links::judge(path, target)?;
    let (parent, _) = path.split_last().ok_or(Reason::Root)?;
    if site.tree().leaves(&parent, target) {
        Err(Reason::LinkLeaves)
    } else {
        Ok(())
    }
}

/// Whether the kind can carry content.
pub(crate) const fn is_file(kind: &NodeKind) -> bool {
    matches!(kind, NodeKind::File)
}
