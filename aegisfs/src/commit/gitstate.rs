//! Freezing the project's own `.git`: objects by themselves, everything else together or not at
//! all.

use std::path::{Path, PathBuf};

use aegis_policies::RelPath;

use super::error::{CommitError, Doing as _};
use super::freeze::{Freezer, entry};
use super::frozen::{Entry, Left};
use super::git::{self, Advance, Bench};
use super::gitview::{self, View};
use super::item::{Group, Item};
use super::reason::Reason;
use super::settle::{Verdict, decide};
use super::state::{Digest, State};

/// Settles the items inside `.git`.
pub(crate) fn freeze(freezer: &mut Freezer<'_>, items: Vec<Item>) -> Result<(), CommitError> {
    if items.is_empty() {
        return Ok(());
    }
    let bench = Bench::new(freezer.stage.bench().join("objects"))?;
    let (objects, rest): (Vec<_>, Vec<_>) = items
        .into_iter()
        .partition(|item| item.group == Group::Objects);
    freeze_objects(freezer, &bench, objects)?;
    let mut drafts = Vec::new();
    for mut item in rest {
        let settled = match item.refusal.take() {
            Some(reason) => Err(reason),
            None => settle(freezer, &item),
        };
        match settled {
            Ok(Some((entry, Verdict::Same))) => freezer.same.push(entry),
            Ok(Some((entry, _))) => drafts.push(entry),
            Ok(None) => {}
            Err(reason) => freezer.leave(&item, reason),
        }
    }
    hold_together(freezer, drafts);
    Ok(())
}

/// Adds the drafts when nothing stands against any of them; else all of them are left alone.
fn hold_together(freezer: &mut Freezer<'_>, drafts: Vec<Entry>) {
    let busy = drafts
        .iter()
        .find_map(|entry| lock_of(freezer, &entry.path));
    let held = freezer
        .left
        .iter()
        .find(|left| left.group != Group::Files && left.reason.holds_back_git())
        .map(|left| Reason::GitTogether(format!("`{}`: {}", left.path, left.reason)));
    match busy.map(Reason::GitBusy).or(held) {
        None => freezer.entries.extend(drafts),
        Some(reason) => {
            let left = drafts.iter().map(|entry| Left::of(entry, reason.clone()));
            freezer.left.extend(left);
        }
    }
}

/// Looks at what the repository's records bring; when that can not be told, none of them land.
pub(crate) fn look(freezer: &mut Freezer<'_>) -> View {
    let reason = match gitview::look(freezer) {
        Ok(view) => return view,
        Err(reason) => reason,
    };
    let (records, others): (Vec<_>, Vec<_>) = std::mem::take(&mut freezer.entries)
        .into_iter()
        .partition(|entry| entry.group == Group::Git);
    freezer.entries = others;
    let text = reason.to_string();
    let is_about = |entry: &Entry| text.contains(&format!("`{}`", entry.path));
    let culprit = records.iter().position(is_about).unwrap_or_default();
    for (number, entry) in records.into_iter().enumerate() {
        let why = if number == culprit {
            reason.clone()
        } else {
            Reason::GitTogether(text.clone())
        };
        freezer.left.push(Left::of(&entry, why));
    }
    View::default()
}

/// The lock that git on the host holds while it changes this name (or the index, for any).
fn lock_of(freezer: &Freezer<'_>, path: &RelPath) -> Option<String> {
    let mut own = path.as_bytes().to_vec();
    own.extend_from_slice(b".lock");
    let locks = [b".git/index.lock".to_vec(), b".git/HEAD.lock".to_vec(), own];
    locks
        .iter()
        .filter_map(|lock| RelPath::parse(lock).ok())
        .find_map(|lock| {
            let there = freezer
                .observe(&lock)
                .is_ok_and(|state| state != State::Absent);
            there.then(|| lock.to_string())
        })
}

fn freeze_objects(
    freezer: &mut Freezer<'_>,
    bench: &Bench,
    items: Vec<Item>,
) -> Result<(), CommitError> {
    let mut added = Vec::new();
    for mut item in items {
        let settled = match item.refusal.take() {
            Some(reason) => Err(reason),
            None => settle_object(freezer, &item),
        };
        match settled {
            Ok((entry, true)) => {
                if let (Some(name), Some(sha256)) = (object_name(&item), item.agent.sha256()) {
                    let staged = super::site::open_private(&freezer.stage.path(sha256));
                    bench.add(name, staged.doing("open", &item.path)?)?;
                }
                added.push((item, entry));
            }
            Ok((entry, false)) => freezer.same.push(entry),
            Err(reason) => freezer.leave(&item, reason),
        }
    }
    for (item, entry) in added {
        let verdict = match (object_name(&item), &item.agent) {
            (Some(name), State::File { .. }) => bench.check(name),
            _ => Ok(()),
        };
        match verdict {
            Ok(()) => freezer.entries.push(entry),
            Err(reason) => freezer.leave(&item, reason),
        }
    }
    Ok(())
}

/// The entry for an object, and whether the host lacks it.
fn settle_object(freezer: &Freezer<'_>, item: &Item) -> Result<(Entry, bool), Reason> {
    let old = freezer.observe(&item.path)?;
    if old != State::Absent {
        return Ok((entry(item, old.clone(), old, None), false));
    }
    freezer.stage_content(item)?;
    let new = with_mode_of_git(&item.agent, &old, 0o444);
    Ok((entry(item, old, new, None), true))
}

/// Modes inside `.git` say nothing about a commit, and a wrong one locks git out or others in: they
/// stay as they were, or are what git gives.
fn with_mode_of_git(agent: &State, known: &State, file: u32) -> State {
    let new = if agent.is_directory() { 0o755 } else { file };
    let kept = known
        .mode()
        .filter(|_| known.is_directory() == agent.is_directory());
    agent.with_mode(kept.unwrap_or(new))
}

fn object_name(item: &Item) -> Option<&[u8]> {
    git::inside(&item.path)?.strip_prefix(b"objects/")
}

fn settle(freezer: &Freezer<'_>, item: &Item) -> Result<Option<(Entry, Verdict)>, Reason> {
    let rest = git::inside(&item.path).unwrap_or_default();
    if rest == b"index" {
        return settle_index(freezer, item);
    }
    let old = freezer.observe(&item.path)?;
    let known = if item.base.mode().is_some() {
        &item.base
    } else {
        &old
    };
    let agent = with_mode_of_git(&item.agent, known, 0o644);
    let verdict = decide(&item.base, &old, &agent);
    let new = match &verdict {
        Verdict::Nothing => return Ok(None),
        Verdict::Same => old.clone(),
        Verdict::Take(new) => new.clone(),
        Verdict::Merge { .. } | Verdict::Left(_) if git::is_volatile(rest) => return Ok(None),
        Verdict::Merge { .. } => return Err(Reason::ChangedByGit),
        Verdict::Left(reason) => return Err(reason.clone()),
    };
    if let (State::File { sha256, .. }, false) = (&new, verdict == Verdict::Same) {
        freezer.stage_content(item)?;
        git::check_reference(rest, &read(&freezer.stage.path(*sha256))?)?;
    }
    Ok(Some((entry(item, old, new, None), verdict)))
}

/// The index counts by what it says, not by what it remembers about times: git on the host writes
/// it anew whenever it looks at the tree.
fn settle_index(freezer: &Freezer<'_>, item: &Item) -> Result<Option<(Entry, Verdict)>, Reason> {
    let old = freezer.observe(&item.path)?;
    freezer.stage_content(item)?;
    let agent = freezer
        .stage
        .path(item.agent.sha256().unwrap_or(Digest::new([0; 32])));
    let bench = freezer.stage.bench();
    let host = copy_of_host(freezer, item, &bench.join("host-index"))?;
    let base = item
        .base
        .sha256()
        .map(|sha256| freezer.site.session().base().join(sha256.to_string()));
    if let Some(host) = &host {
        if git::same_entries(&agent, host) {
            return Ok(None);
        }
        let unchanged = old.sha256() == item.base.sha256()
            || base.is_some_and(|base| git::same_entries(&base, host));
        if !unchanged {
            return Err(Reason::ChangedByGit);
        }
    } else if item.base != State::Absent {
        return Err(Reason::HostRemoved);
    }
    let clean = bench.join("clean-index");
    git::sanitize(&agent, host.as_deref(), &clean)?;
    let staged = freezer.stage.add_bytes(&read(&clean)?);
    let sha256 = staged.map_err(|error| freezer.give_up(item, error))?;
    let mode = old.mode().unwrap_or(0o644);
    let new = State::File { sha256, mode };
    Ok(Some((
        entry(item, old, new.clone(), None),
        Verdict::Take(new),
    )))
}

fn copy_of_host(freezer: &Freezer<'_>, item: &Item, to: &Path) -> Result<Option<PathBuf>, Reason> {
    match freezer.site.tree().file(&item.path) {
        Ok(file) => {
            let mut copy = std::fs::File::create(to)?;
            std::io::copy(&mut std::fs::File::from(file), &mut copy)?;
            Ok(Some(to.to_owned()))
        }
        Err(error) if super::beneath::is_absence(&error) => Ok(None),
        Err(error) => Err(Reason::unreadable(error)),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Reason> {
    Ok(std::fs::read(path)?)
}

/// How the branches move. Words for the review only: what can not be read is not told.
pub(crate) fn advances(freezer: &Freezer<'_>, view: &View) -> Vec<Advance> {
    let stores = gitview::stores(freezer);
    let stores = stores.each_ref().map(PathBuf::as_path);
    let told = view.tips.iter().map(|tip| {
        // A new branch counts only what is new.
        git::advances(&stores, &tip.name, tip.old, tip.new, view.head.as_slice())
    });
    told.filter_map(Result::ok).collect()
}
