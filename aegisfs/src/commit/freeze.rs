//! Freeze: copy what the agent left to the stage, settle it with what the host has now, and put
//! one hash over the result.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::os::fd::OwnedFd;

use aegis_policies::RelPath;

use super::error::CommitError;
use super::frozen::{Entry, Frozen, Left, manifest};
use super::gitstate;
use super::item::{Action, Group, Item};
use super::moves::Moves;
use super::plan::Plan;
use super::reason::Reason;
use super::settle::{Verdict, decide};
use super::site::Site;
use super::stage::Stage;
use super::state::{Digest, State};
use crate::merge::{Limits, Tier, merge_lines};

/// A freeze under way.
pub(crate) struct Freezer<'a> {
    pub(crate) site: Site<'a>,
    pub(crate) stage: Stage,
    pub(crate) entries: Vec<Entry>,
    pub(crate) same: Vec<Entry>,
    pub(crate) left: Vec<Left>,
    moves: Moves,
    /// What keeps the whole freeze from coming to an end, such as a full disk.
    fault: OnceCell<CommitError>,
}

impl Plan {
    /// Copies every content to the session's stage and settles each item with what the host has
    /// now: taken, merged, or left alone with the reason.
    ///
    /// # Errors
    /// [`CommitError`] when the stage can not be used or another landing of the session is under
    /// way.
    pub fn freeze(self, site: &Site<'_>) -> Result<Frozen, CommitError> {
        let stage = Stage::take(site.session())?;
        let (items, moves) = self.into_parts();
        let mut freezer = Freezer {
            site: *site,
            stage,
            entries: Vec::new(),
            same: Vec::new(),
            left: Vec::new(),
            moves,
            fault: OnceCell::new(),
        };
        let (files, git): (Vec<_>, Vec<_>) = items
            .into_iter()
            .partition(|item| item.group == Group::Files);
        files.into_iter().for_each(|item| freezer.freeze(item));
        gitstate::freeze(&mut freezer, git)?;
        freezer.finish()
    }
}

impl Freezer<'_> {
    fn freeze(&mut self, mut item: Item) {
        if let Some(reason) = item.refusal.take() {
            return self.leave(&item, reason);
        }
        match self.settle(&item) {
            Ok(Some((entry, Verdict::Same))) => self.same.push(entry),
            Ok(Some((entry, _))) => self.entries.push(entry),
            Ok(None) => {}
            Err(reason) => self.leave(&item, reason),
        }
    }

    pub(crate) fn leave(&mut self, item: &Item, reason: Reason) {
        let path = item.path.clone();
        self.left.push(Left {
            path,
            action: item.action,
            group: item.group,
            reason,
        });
    }

    /// The entry for an item, with its content on the stage; none when there is nothing to do.
    fn settle(&self, item: &Item) -> Result<Option<(Entry, Verdict)>, Reason> {
        let old = self.observe(&item.path)?;
        let verdict = decide(&item.base, &old, &item.agent);
        let (new, tier) = match &verdict {
            Verdict::Nothing => return Ok(None),
            Verdict::Same => (old.clone(), None),
            Verdict::Take(new) => {
                let tier = (old != item.base).then_some(Tier::Side);
                (new.clone(), tier)
            }
            Verdict::Merge { mode } => {
                let sha256 = self.merge(item, &old)?;
                (
                    State::File {
                        sha256,
                        mode: *mode,
                    },
                    Some(Tier::Lines),
                )
            }
            Verdict::Left(reason) => return Err(reason.clone()),
        };
        if old.sha256() != new.sha256() && new.sha256() == item.agent.sha256() {
            self.stage_content(item)?;
        }
        Ok(Some((entry(item, old, new, tier), verdict)))
    }

    pub(crate) fn observe(&self, path: &RelPath) -> Result<State, Reason> {
        let observed = self.site.tree().observe(path);
        observed
            .map(|observed| observed.state)
            .map_err(Reason::unreadable)
    }

    /// Copies the agent's content to the stage; it has to be what the plan saw.
    pub(crate) fn stage_content(&self, item: &Item) -> Result<(), Reason> {
        let Some(content) = &item.content else {
            return Ok(());
        };
        let mut from = self
            .site
            .open_content(content)
            .map_err(Reason::unreadable)?;
        let staged = self.stage.add(&mut from);
        let staged = staged.map_err(|error| match from.is_torn() {
            true => Reason::Torn,
            false => self.give_up(item, error),
        })?;
        if Some(staged) == item.agent.sha256() {
            Ok(())
        } else {
            Err(Reason::ChangedJustNow)
        }
    }

    /// The stage can not be written: nothing is landed in part because of that.
    pub(crate) fn give_up(&self, item: &Item, source: std::io::Error) -> Reason {
        let reason = Reason::System(source.to_string());
        let name = item.path.to_string();
        // The first failure is the one to tell.
        let _later = self.fault.set(CommitError::Io {
            doing: "freeze",
            name,
            source,
        });
        reason
    }

    fn merge(&self, item: &Item, host: &State) -> Result<Digest, Reason> {
        let limits = Limits::default();
        let base = item
            .base
            .sha256()
            .and_then(|sha256| self.site.open_base(sha256).ok());
        let base = contents(base.ok_or(Reason::NoBase)?, &limits)?;
        // A power cut can leave a file with its name and without its content.
        if Some(super::beneath::hash(base.as_slice())?) != item.base.sha256() {
            return Err(Reason::NoBase);
        }
        let host_file = self.site.tree().file(&item.path)?;
        let host_bytes = contents(host_file, &limits)?;
        self.stage_content(item)?;
        let agent = item.agent.sha256().unwrap_or(Digest::new([0; 32]));
        let agent = contents(super::site::open_private(&self.stage.path(agent))?, &limits)?;
        // What was merged has to be what landing will compare with.
        let seen = super::beneath::hash(host_bytes.as_slice())?;
        if Some(seen) != host.sha256() {
            return Err(Reason::ChangedJustNow);
        }
        let merged = merge_lines(&base, &host_bytes, &agent, &limits)?;
        let staged = self.stage.add_bytes(&merged);
        staged.map_err(|error| self.give_up(item, error))
    }

    fn finish(mut self) -> Result<Frozen, CommitError> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        self.entries.sort_by(|one, other| one.path.cmp(&other.path));
        self.settle_together();
        let view = gitstate::look(&mut self);
        self.pair_moves();
        self.left.sort_by(|one, other| one.path.cmp(&other.path));
        let advances = gitstate::advances(&self, &view);
        let manifest = manifest(&self.entries);
        let Self {
            stage,
            entries,
            same,
            left,
            moves,
            ..
        } = self;
        let mut frozen = Frozen {
            entries,
            same,
            left,
            advances,
            view,
            stage,
            manifest,
            moves,
        };
        frozen.mark_records();
        Ok(frozen)
    }

    /// What is left alone can keep others from landing, and those again others.
    fn settle_together(&mut self) {
        let mut left = usize::MAX;
        while left != self.left.len() {
            left = self.left.len();
            self.require_parents();
            self.require_shapes();
            self.require_arrival();
            self.require_empty_directories();
        }
    }

    /// Leaves alone what the rules about several names refuse now that others are left.
    fn require_shapes(&mut self) {
        let mut refused = super::shapes::judge(self.site.tree(), &self.entries);
        let left = &mut self.left;
        let mut number = 0;
        self.entries.retain(|entry| {
            let reason = refused.remove(&number);
            number += 1;
            let is_kept = reason.is_none();
            left.extend(reason.map(|reason| Left::of(entry, reason)));
            is_kept
        });
    }

    /// Leaves old names alone whose content was to land under another name and does not.
    fn require_arrival(&mut self) {
        let arriving: BTreeSet<RelPath> = self
            .entries
            .iter()
            .chain(&self.same)
            .filter(|entry| entry.new != State::Absent)
            .map(|entry| entry.path.clone())
            .collect();
        let (moves, left) = (&self.moves, &mut self.left);
        self.entries.retain(|entry| {
            let goes = entry.group == Group::Files && entry.old.is_taken_away_by(&entry.new);
            let to = moves.stranded(&entry.path, &|path| arriving.contains(path));
            let Some(to) = to.filter(|_| goes) else {
                return true;
            };
            left.push(Left::of(entry, Reason::MovedAway(to.to_string())));
            false
        });
    }

    /// Leaves alone what would have no directory to lie in.
    fn require_parents(&mut self) {
        let mut there: BTreeMap<RelPath, bool> = BTreeMap::from([(RelPath::root(), true)]);
        let mut kept = Vec::with_capacity(self.entries.len());
        for entry in std::mem::take(&mut self.entries) {
            let Some((parent, _)) = entry.path.split_last() else {
                continue;
            };
            let has_parent = match there.get(&parent) {
                Some(known) => *known,
                None => self
                    .observe(&parent)
                    .is_ok_and(|state| state.is_directory()),
            };
            there.insert(parent.clone(), has_parent);
            if entry.new.is_directory() {
                there.insert(entry.path.clone(), has_parent);
            }
            if has_parent || entry.new == State::Absent {
                kept.push(entry);
            } else {
                let reason = match self.left.iter().find(|left| left.path == parent) {
                    Some(_) => Reason::Parent(parent.to_string()),
                    None => Reason::ParentGone(parent.to_string()),
                };
                self.left.push(Left::of(&entry, reason));
            }
        }
        self.entries = kept;
    }

    /// Leaves directories alone that would keep something: the deepest are looked at first.
    fn require_empty_directories(&mut self) {
        let mut going: BTreeSet<RelPath> = self
            .entries
            .iter()
            .filter(|entry| entry.old != State::Absent && entry.new == State::Absent)
            .map(|entry| entry.path.clone())
            .collect();
        let mut kept = Vec::with_capacity(self.entries.len());
        for entry in std::mem::take(&mut self.entries).into_iter().rev() {
            let closes = entry.old.is_directory() && !entry.new.is_directory();
            if closes && !self.is_emptied(&entry.path, &going) {
                going.remove(&entry.path);
                self.left.push(Left::of(&entry, Reason::NotEmpty));
            } else {
                kept.push(entry);
            }
        }
        kept.reverse();
        self.entries = kept;
    }

    fn is_emptied(&self, path: &RelPath, going: &BTreeSet<RelPath>) -> bool {
        self.site.tree().names(path).is_ok_and(|names| {
            names
                .iter()
                .all(|name| path.join(name).is_ok_and(|child| going.contains(&child)))
        })
    }

    /// Finds the files that only got another name: landing moves the host's own file.
    fn pair_moves(&mut self) {
        let numbers: BTreeMap<RelPath, usize> = self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.new == State::Absent)
            .map(|(number, entry)| (entry.path.clone(), number))
            .collect();
        for to in 0..self.entries.len() {
            let Some(entry) = self.entries.get(to) else {
                break;
            };
            let Some(from) = entry.moved_from.as_ref().and_then(|from| numbers.get(from)) else {
                continue;
            };
            let moved = matches!(entry.new, State::File { .. }) && entry.old == State::Absent;
            let new = entry.new.clone();
            if let Some(source) = self.entries.get_mut(*from)
                && moved
                && source.old == new
                && source.moved_to.is_none()
            {
                source.moved_to = Some(to);
            }
        }
    }
}

impl Left {
    pub(crate) fn of(entry: &Entry, reason: Reason) -> Self {
        Self {
            path: entry.path.clone(),
            action: entry.action,
            group: entry.group,
            reason,
        }
    }
}

/// The entry that turns what the host has into `new`.
pub(crate) fn entry(item: &Item, old: State, new: State, tier: Option<Tier>) -> Entry {
    Entry {
        path: item.path.clone(),
        action: if tier.is_some() {
            item.action
        } else {
            Action::between(&old, &new, item.moved_from.is_some())
        },
        base: item.base.clone(),
        agent: item.agent.clone(),
        old,
        new,
        tier,
        group: item.group,
        moved_from: item.moved_from.clone(),
        moved_to: None,
        node: item.node,
        labels: item.labels,
        sensitive: item.is_sensitive(),
        question: item.question.clone(),
    }
}

fn contents(file: OwnedFd, limits: &Limits) -> Result<Vec<u8>, Reason> {
    let mut bytes = Vec::new();
    // One byte more than the limit is enough for the merge to see that it is over.
    let most = u64::try_from(limits.bytes)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    std::fs::File::from(file)
        .take(most)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}
