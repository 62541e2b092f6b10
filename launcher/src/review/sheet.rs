//! What a review shows, whether it comes from a plan or from what is frozen.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};

use aegis_policies::{Labels, RelPath};
use aegisfs::commit::{
    Action, Advance, Carried, Digest, Entry, Frozen, Group, Item, Move, Plan, Reason, Site, State,
};
use aegisfs::merge::Tier;
use aegisfs::overlay::changes;
use aegisfs::overlay::past::Difference;

/// The largest content that is compared line by line, in bytes.
pub(super) const MOST: u64 = 1 << 20;

/// Everything that a review shows. Contents are opened one change at a time: a session may hold a
/// build's worth of them.
#[derive(Debug)]
pub struct Sheet<'a> {
    site: Site<'a>,
    frozen: Option<&'a Frozen>,
    /// What lands, sorted by name, without the repository's own records.
    pub(super) changes: Vec<Shown>,
    /// What does not land.
    pub(super) left: Vec<(RelPath, Action, Reason)>,
    /// How branches move.
    pub(super) advances: Vec<Advance>,
    /// How references and HEAD move, where that has been looked at.
    pub(super) moves: Vec<Move>,
    /// What commits and the index bring that does not lie in the work tree.
    pub(super) carried: Vec<Carried>,
    /// The repository's references and HEAD that change.
    pub(super) references: Vec<(RelPath, Action)>,
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
    source: Source,
}

/// Where the bytes of a side are.
#[derive(Debug)]
enum Source {
    /// It has none.
    None,
    /// With the host.
    Host(RelPath),
    /// Kept when the agent first touched the name, or else still with the host.
    Base(Digest, RelPath),
    /// With the agent.
    Agent(changes::Content),
    /// Frozen, or else with the host already.
    Frozen(Digest, RelPath),
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
pub fn of_plan<'a>(site: &Site<'a>, plan: &Plan) -> Sheet<'a> {
    let gone = plan.items().iter();
    let gone = gone.filter(|item| item.agent == State::Absent);
    let gone = gone.map(|item| &item.path).collect();
    let (left, landing): (Vec<_>, Vec<_>) =
        plan.items().iter().partition(|item| item.refusal.is_some());
    let (files, records): (Vec<_>, Vec<_>) = landing
        .into_iter()
        .partition(|item| item.group == Group::Files);
    let left = left
        .into_iter()
        .filter_map(|item| Some((item.path.clone(), item.action, item.refusal.clone()?)));
    let mut sheet = Sheet {
        site: *site,
        frozen: None,
        changes: files
            .into_iter()
            .map(|item| planned(site, &gone, item))
            .collect(),
        left: left.collect(),
        advances: Vec::new(),
        moves: Vec::new(),
        carried: Vec::new(),
        references: references(records.iter().map(|item| (&item.path, item.action))),
        records: records.len(),
    };
    sheet.hide_old_names();
    sheet
}

/// What `diff --since` shows: two trees of one session. What is hashed here is not hashed again.
#[must_use]
pub fn of_differences<'a>(site: &Site<'a>, differences: &[Difference]) -> Sheet<'a> {
    let gone = differences.iter().filter(|one| one.after.is_none());
    let gone = gone.filter_map(|one| Some((one.before.as_ref()?.node, one)));
    let gone = gone.collect();
    let mut sheet = Sheet {
        site: *site,
        frozen: None,
        changes: differences
            .iter()
            .map(|one| differing(site, &gone, one))
            .collect(),
        left: Vec::new(),
        advances: Vec::new(),
        moves: Vec::new(),
        carried: Vec::new(),
        references: Vec::new(),
        records: 0,
    };
    sheet.hide_old_names();
    sheet
}

/// What `review` and `land` show: exactly what would land.
#[must_use]
pub fn of_frozen<'a>(site: &Site<'a>, frozen: &'a Frozen) -> Sheet<'a> {
    let (files, records): (Vec<_>, Vec<_>) = frozen
        .entries()
        .iter()
        .partition(|entry| entry.group == Group::Files);
    let gone = frozen.entries().iter();
    let gone = gone.filter(|entry| entry.new == State::Absent);
    let gone = gone.map(|entry| &entry.path).collect();
    let left = frozen.left().iter();
    let left = left.map(|left| (left.path.clone(), left.action, left.reason.clone()));
    let mut sheet = Sheet {
        site: *site,
        frozen: Some(frozen),
        changes: files
            .into_iter()
            .map(|entry| landing(site, &gone, entry))
            .collect(),
        left: left.collect(),
        advances: frozen.advances().to_vec(),
        moves: frozen.moves().to_vec(),
        carried: frozen.carried().to_vec(),
        references: references(records.iter().map(|entry| (&entry.path, entry.action))),
        records: records.len(),
    };
    sheet.hide_old_names();
    sheet
}

impl Sheet<'_> {
    /// Both sides of a change, opened.
    pub(super) fn open(&self, change: &Shown) -> (Content, Content) {
        (self.content(&change.old), self.content(&change.new))
    }

    fn content(&self, side: &Side) -> Content {
        let host = |path| self.site.host_file(path);
        let opened = match &side.source {
            Source::None => return Content::None,
            Source::Host(path) => host(path),
            Source::Base(sha256, path) => self.site.base_file(*sha256).or_else(|_| host(path)),
            Source::Agent(content) => {
                return shown(self.site.agent_file(content).and_then(|file| {
                    let size = file.size()?;
                    read(file, size)
                }));
            }
            Source::Frozen(sha256, path) => {
                let frozen = self.frozen.and_then(|frozen| frozen.file(*sha256).ok());
                frozen.map_or_else(|| host(path), Ok)
            }
        };
        shown(opened.and_then(|file| {
            let size = file.metadata()?.len();
            read(file, size)
        }))
    }

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

fn references<'a>(records: impl Iterator<Item = (&'a RelPath, Action)>) -> Vec<(RelPath, Action)> {
    let is_reference = |path: &RelPath| {
        let bytes = path.as_bytes();
        bytes.starts_with(b".git/refs/") || matches!(bytes, b".git/HEAD" | b".git/packed-refs")
    };
    records
        .filter(|(path, _)| is_reference(path))
        .map(|(path, action)| (path.clone(), action))
        .collect()
}

/// The names that go away.
type Gone<'a> = BTreeSet<&'a RelPath>;

/// The name that goes away as this one comes; a further name of a file that stays is no move.
fn moved<'a>(from: Option<&'a RelPath>, old: &State, gone: &Gone<'_>) -> Option<&'a RelPath> {
    from.filter(|from| *old == State::Absent && gone.contains(from))
}

fn differing(site: &Site<'_>, gone: &BTreeMap<u64, &Difference>, difference: &Difference) -> Shown {
    let side = |after: Option<&changes::After>| {
        let content = after.and_then(|after| after.content.clone());
        Side::new(site.agent_state(after), content.map(Source::Agent))
    };
    let Difference {
        path,
        before,
        after,
    } = difference;
    let node = after.as_ref().map(|after| after.node);
    let from = node.filter(|_| before.is_none());
    let from = from.and_then(|node| gone.get(&node));
    let old = side(from.map_or(before.as_ref(), |from| from.before.as_ref()));
    let new = side(after.as_ref());
    let base = if before.is_none() {
        &State::Absent
    } else {
        &old.state
    };
    Shown {
        path: path.clone(),
        action: Action::between(base, &new.state, from.is_some()),
        old,
        new,
        moved_from: from.map(|from| from.path.clone()),
        labels: Labels::NONE,
        is_sensitive: false,
        note: None,
    }
}

fn planned(site: &Site<'_>, gone: &Gone<'_>, item: &Item) -> Shown {
    let from = moved(item.moved_from.as_ref(), &item.base, gone);
    let base = |sha256| Source::Base(sha256, item.path.clone());
    let old = Side::new(item.base.clone(), item.base.sha256().map(base));
    Shown {
        path: item.path.clone(),
        action: item.action,
        old: from.map_or(old, |from| Side::of_host(site, from)),
        new: Side::new(item.agent.clone(), item.content.clone().map(Source::Agent)),
        moved_from: from.cloned(),
        labels: item.labels,
        is_sensitive: item.is_sensitive(),
        note: None,
    }
}

fn landing(site: &Site<'_>, gone: &Gone<'_>, entry: &Entry) -> Shown {
    let from = moved(entry.moved_from.as_ref(), &entry.old, gone);
    let host = |_| Source::Host(entry.path.clone());
    let frozen = |sha256| Source::Frozen(sha256, from.unwrap_or(&entry.path).clone());
    let old = Side::new(entry.old.clone(), entry.old.sha256().map(host));
    Shown {
        path: entry.path.clone(),
        action: entry.action,
        old: from.map_or(old, |from| Side::of_host(site, from)),
        new: Side::new(entry.new.clone(), entry.new.sha256().map(frozen)),
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
    fn new(state: State, source: Option<Source>) -> Self {
        Self {
            state,
            source: source.unwrap_or(Source::None),
        }
    }

    /// What the host has under the old name of what is moved.
    fn of_host(site: &Site<'_>, path: &RelPath) -> Self {
        let state = site.host_state(path).unwrap_or(State::Absent);
        let source = state.sha256().map(|_| Source::Host(path.clone()));
        Self::new(state, source)
    }
}

fn shown(content: io::Result<Content>) -> Content {
    content.unwrap_or_else(|error| Content::Unreadable(error.to_string()))
}

fn read(file: impl Read, size: u64) -> io::Result<Content> {
    if size > MOST {
        return Ok(Content::Large(size));
    }
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes)?;
    Ok(Content::Bytes(bytes))
}
