//! What a review shows, whether it comes from a plan or from what is frozen.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};

use aegis_policies::{Labels, RelPath};
use aegisfs::commit::{Action, Advance, Entry, Frozen, Group, Item, Plan, Reason, Site, State};
use aegisfs::merge::Tier;

/// The largest content that is compared line by line, in bytes.
pub(super) const MOST: u64 = 1 << 20;

/// Everything that a review shows.
#[derive(Debug, Default)]
pub struct Sheet {
    /// What lands, sorted by name, without the repository's own records.
    pub(super) changes: Vec<Shown>,
    /// What does not land.
    pub(super) left: Vec<(RelPath, Action, Reason)>,
    /// How branches move.
    pub(super) advances: Vec<Advance>,
    /// How many records and objects of the repository change.
    pub(super) records: usize,
}

/// One change.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) path: RelPath,
    pub(super) action: Action,
    pub(super) old: Side,
    pub(super) new: Side,
    pub(super) moved_from: Option<RelPath>,
    pub(super) labels: Labels,
    pub(super) is_sensitive: bool,
    pub(super) note: Option<&'static str>,
}

/// One side of a change.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) state: State,
    pub(super) content: Content,
}

/// The bytes of a side.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// It has none.
    None,
    /// All of them.
    Bytes(Vec<u8>),
    /// Too many to be shown.
    Large(u64),
    /// They can not be read.
    Unreadable(String),
}

/// What `diff` shows: against what the agent started from where the host's own version differs.
#[must_use]
pub fn of_plan(site: &Site<'_>, plan: &Plan) -> Sheet {
    let mut sheet = Sheet::default();
    let items = plan.items().iter();
    let gone = items.filter(|item| item.agent == State::Absent);
    let gone = gone.map(|item| &item.path).collect();
    for item in plan.items() {
        if let Some(reason) = &item.refusal {
            sheet
                .left
                .push((item.path.clone(), item.action, reason.clone()));
        } else if item.group == Group::Files {
            sheet.changes.push(planned(site, &gone, item));
        } else {
            sheet.records += 1;
        }
    }
    sheet.hide_old_names();
    sheet
}

/// What `review` and `land` show: exactly what would land.
#[must_use]
pub fn of_frozen(site: &Site<'_>, frozen: &Frozen) -> Sheet {
    let (files, records): (Vec<_>, Vec<_>) = frozen
        .entries()
        .iter()
        .partition(|entry| entry.group == Group::Files);
    let gone = frozen.entries().iter();
    let gone = gone.filter(|entry| entry.new == State::Absent);
    let gone = gone.map(|entry| &entry.path).collect();
    let left = frozen.left().iter();
    let mut sheet = Sheet {
        changes: files
            .into_iter()
            .map(|entry| landing(site, frozen, &gone, entry))
            .collect(),
        left: left
            .map(|left| (left.path.clone(), left.action, left.reason.clone()))
            .collect(),
        advances: frozen.advances().to_vec(),
        records: records.len(),
    };
    sheet.hide_old_names();
    sheet
}

impl Sheet {
    /// Whether there is nothing to land and nothing to say.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.left.is_empty() && self.records == 0
    }

    /// How many names would change.
    #[must_use]
    pub fn count(&self) -> usize {
        self.changes.len() + self.records
    }

    /// A moved name is shown once, with its new name.
    fn hide_old_names(&mut self) {
        let moved: BTreeSet<RelPath> = self
            .changes
            .iter()
            .filter_map(|change| change.moved_from.clone())
            .collect();
        self.changes
            .retain(|change| change.new.state != State::Absent || !moved.contains(&change.path));
    }
}

/// The names that go away.
type Gone<'a> = BTreeSet<&'a RelPath>;

/// The name that goes away as this one comes; a further name of a file that stays is no move.
fn moved<'a>(from: Option<&'a RelPath>, old: &State, gone: &Gone<'_>) -> Option<&'a RelPath> {
    from.filter(|from| *old == State::Absent && gone.contains(from))
}

fn planned(site: &Site<'_>, gone: &Gone<'_>, item: &Item) -> Shown {
    let from = moved(item.moved_from.as_ref(), &item.base, gone);
    let base = || {
        let content = item.base.sha256().map(|sha256| {
            let host = site.host_file(&item.path);
            site.base_file(sha256).or(host)
        });
        Side::new(item.base.clone(), content)
    };
    let new = item
        .content
        .as_ref()
        .map(|content| site.agent_file(content));
    Shown {
        path: item.path.clone(),
        action: item.action,
        old: from.map_or_else(base, |from| Side::of_host(site, from)),
        new: Side::new(item.agent.clone(), new),
        moved_from: from.cloned(),
        labels: item.labels,
        is_sensitive: item.is_sensitive(),
        note: None,
    }
}

fn landing(site: &Site<'_>, frozen: &Frozen, gone: &Gone<'_>, entry: &Entry) -> Shown {
    let from = moved(entry.moved_from.as_ref(), &entry.old, gone);
    let here = || {
        let content = entry.old.sha256().map(|_| site.host_file(&entry.path));
        Side::new(entry.old.clone(), content)
    };
    let new = entry.new.sha256().map(|sha256| {
        let host = || site.host_file(from.unwrap_or(&entry.path));
        frozen.file(sha256).or_else(|_| host())
    });
    Shown {
        path: entry.path.clone(),
        action: entry.action,
        old: from.map_or_else(here, |from| Side::of_host(site, from)),
        new: Side::new(entry.new.clone(), new),
        moved_from: from.cloned(),
        labels: entry.labels,
        is_sensitive: entry.sensitive,
        note: match entry.tier {
            Some(Tier::Lines) => Some("merged with what the host changed"),
            Some(Tier::Side) => Some("the host changed another side of it"),
            None => None,
        },
    }
}

impl Side {
    /// What the host has under the old name of what is moved.
    fn of_host(site: &Site<'_>, path: &RelPath) -> Self {
        let state = site.host_state(path).unwrap_or(State::Absent);
        let content = state.sha256().map(|_| site.host_file(path));
        Self::new(state, content)
    }

    pub(super) fn new(state: State, content: Option<io::Result<File>>) -> Self {
        let content = match content {
            None => Content::None,
            Some(file) => file
                .and_then(read)
                .unwrap_or_else(|error| Content::Unreadable(error.to_string())),
        };
        Self { state, content }
    }
}

fn read(file: File) -> io::Result<Content> {
    let size = file.metadata()?.len();
    if size > MOST {
        return Ok(Content::Large(size));
    }
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes)?;
    Ok(Content::Bytes(bytes))
}
