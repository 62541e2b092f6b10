//! One change of the host's tree, as data: enough to do it, to check it and to take it back.

use aegis_policies::RelPath;
use serde::{Deserialize, Serialize};

use super::super::item::Group;
use super::super::state::State;

/// How a step is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Act {
    /// Removes what a directory takes the place of.
    Clear,
    /// Makes a directory.
    MakeDirectory,
    /// Changes permission bits in place, so that links to the file stay links.
    Chmod,
    /// Exchanges a file or link for another.
    Replace,
    /// Makes a file or link.
    Create,
    /// Removes a file or link.
    Remove,
    /// Gives a file of the host's another name.
    Move {
        /// The name it has.
        from: RelPath,
    },
    /// Removes an empty directory.
    RemoveDirectory,
    /// Makes a file or link in the place of a directory.
    Fill,
}

/// Where new content comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Source {
    /// The stage, by hash; also for what has no content.
    Stage,
    /// What a step of an earlier landing displaced.
    Displaced {
        /// The landing.
        landing: String,
        /// The step's number.
        step: usize,
    },
}

/// One change of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// The number of the item that it is a part of.
    pub(crate) item: usize,
    pub(crate) path: RelPath,
    pub(crate) act: Act,
    pub(crate) group: Group,
    /// What the host has before.
    pub(crate) old: State,
    /// What the host has after.
    pub(crate) new: State,
    pub(crate) source: Source,
    /// The directory of the temporary name: it outlives the landing.
    pub(crate) shelter: RelPath,
    /// The step whose new file this name is another link to.
    pub(crate) link_of: Option<usize>,
    /// The items that land what the step takes away under other names: without one of them it is
    /// not taken away.
    #[serde(default)]
    pub(crate) carried_by: Vec<usize>,
}

/// When a step is done, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Directories that have to let their owner in first.
    Open,
    /// Files that make place for directories.
    Clear,
    /// New directories.
    Directories,
    /// Objects of the repository; a pack before the index by which git finds it.
    Objects,
    /// Indexes of packs.
    Packs,
    /// Files of the project.
    Files,
    /// References, logs and notes of the repository.
    References,
    /// The repository's index and HEAD.
    Heads,
    /// Directories that go, and old names of what has another one by now.
    Gone,
    /// Files in the place of directories.
    Fill,
    /// Permission bits of directories.
    Seal,
}

impl Step {
    /// A step with no temporary name yet.
    pub(crate) fn new(item: usize, path: RelPath, act: Act, old: State, new: State) -> Self {
        let shelter = path
            .split_last()
            .map_or_else(RelPath::root, |(parent, _)| parent);
        let group = super::super::git::group(&path);
        Self {
            item,
            path,
            act,
            group,
            old,
            new,
            source: Source::Stage,
            shelter,
            link_of: None,
            carried_by: Vec::new(),
        }
    }

    /// The steps that turn what `path` holds from `old` to `new`; none when there is nothing to do.
    pub(crate) fn between(item: usize, path: &RelPath, old: &State, new: &State) -> Vec<Self> {
        let step = |act, old: &State, new: &State| {
            Self::new(item, path.clone(), act, old.clone(), new.clone())
        };
        let absent = &State::Absent;
        match (old, new) {
            (old, new) if old == new => Vec::new(),
            (State::Directory { .. }, State::Directory { .. }) => vec![step(Act::Chmod, old, new)],
            (State::Absent, State::Directory { mode }) => Self::directory(item, path, *mode),
            (State::Directory { .. }, State::Absent) => vec![step(Act::RemoveDirectory, old, new)],
            (State::Directory { .. }, _) => {
                vec![
                    step(Act::RemoveDirectory, old, absent),
                    step(Act::Fill, absent, new),
                ]
            }
            (_, State::Directory { mode }) => {
                let mut steps = vec![step(Act::Clear, old, absent)];
                steps.extend(Self::directory(item, path, *mode));
                steps
            }
            (State::Absent, _) => vec![step(Act::Create, old, new)],
            (_, State::Absent) => vec![step(Act::Remove, old, new)],
            (State::File { .. }, State::File { .. }) if old.sha256() == new.sha256() => {
                vec![step(Act::Chmod, old, new)]
            }
            _ => vec![step(Act::Replace, old, new)],
        }
    }

    /// A new directory is open to its owner until everything in it is there.
    fn directory(item: usize, path: &RelPath, mode: u32) -> Vec<Self> {
        let open = State::Directory { mode: mode | 0o700 };
        let sealed = State::Directory { mode };
        let make = Self::new(
            item,
            path.clone(),
            Act::MakeDirectory,
            State::Absent,
            open.clone(),
        );
        if open == sealed {
            return vec![make];
        }
        vec![
            make,
            Self::new(item, path.clone(), Act::Chmod, open, sealed),
        ]
    }

    /// When the step is done.
    pub(crate) fn phase(&self) -> Phase {
        match (&self.act, self.group) {
            (Act::Clear, _) => Phase::Clear,
            (Act::MakeDirectory, _) => Phase::Directories,
            (Act::RemoveDirectory, _) => Phase::Gone,
            (Act::Remove, Group::Files) if !self.carried_by.is_empty() => Phase::Gone,
            (Act::Fill, _) => Phase::Fill,
            (Act::Chmod, _) if self.old.is_directory() => {
                if self.new.lets_owner_in() && !self.old.lets_owner_in() {
                    Phase::Open
                } else {
                    Phase::Seal
                }
            }
            (_, Group::Objects) if self.path.as_bytes().ends_with(b".idx") => Phase::Packs,
            (_, Group::Objects) => Phase::Objects,
            (_, Group::Git) if matches!(self.path.as_bytes(), b".git/index" | b".git/HEAD") => {
                Phase::Heads
            }
            (_, Group::Git) => Phase::References,
            (_, Group::Files) => Phase::Files,
        }
    }

    /// Whether the step makes a new file or link under a temporary name first.
    pub(crate) const fn has_temporary(&self) -> bool {
        matches!(self.act, Act::Replace | Act::Create | Act::Fill)
    }

    /// Whether what was there lies under the temporary name once the step is done.
    pub(crate) const fn displaces(&self) -> bool {
        matches!(
            self.act,
            Act::Replace | Act::Clear | Act::Remove | Act::RemoveDirectory
        )
    }
}

/// Sorts steps into the order in which they are done, and places their temporary names where no
/// removed directory takes them along, and what was displaced where no permission bits lock it in.
pub(crate) fn arrange(steps: &mut [Step]) {
    let gone: std::collections::BTreeSet<RelPath> = steps
        .iter()
        .filter(|step| step.act == Act::RemoveDirectory)
        .map(|step| step.path.clone())
        .collect();
    let closed: std::collections::BTreeSet<RelPath> = steps
        .iter()
        .filter(|step| step.phase() == Phase::Seal && !step.new.lets_owner_in())
        .map(|step| step.path.clone())
        .collect();
    for step in steps.iter_mut() {
        let displaces = step.displaces();
        while (gone.contains(&step.shelter) || displaces && closed.contains(&step.shelter))
            && let Some((parent, _)) = step.shelter.split_last()
        {
            step.shelter = parent;
        }
    }
    steps.sort_by(|one, other| {
        let backwards = matches!(one.phase(), Phase::Gone | Phase::Seal);
        let by_path = one.path.cmp(&other.path);
        one.phase().cmp(&other.phase()).then(if backwards {
            by_path.reverse()
        } else {
            by_path
        })
    });
}
