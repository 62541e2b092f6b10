//! What of a session has not landed yet.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use aegis_policies::Labels;
use aegisfs::commit::{Plan, Site};
use aegisfs::overlay::changes::Change;

use super::summary::Counts;
use super::{AegisHome, Project, Session, SessionId, changes};
use crate::error::CommandError;
use crate::review::failed;

/// How much of a session is still to land.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// So many names, git's own records not counted.
    Names(usize),
    /// Git's own records only.
    Records,
    /// Nothing any more: the project has what the session changed.
    Landed,
    /// The session changed nothing.
    Nothing,
    /// It can not be told: the record of the session is damaged.
    Damaged,
}

impl Pending {
    /// Looks at the session `id`; `None` when it runs, can not be read, or takes longer than
    /// `patience`.
    #[must_use]
    pub fn of(id: &SessionId, patience: Duration) -> Option<Self> {
        let id = id.clone();
        within(patience, move || look(&id)).flatten()
    }

    /// Whether there is something to land.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Names(_) | Self::Records)
    }

    /// As `3 to land`.
    #[must_use]
    pub fn shown(self) -> String {
        match self {
            Self::Names(count) => format!("{count} to land"),
            Self::Records => "git's records".to_owned(),
            Self::Landed => "landed".to_owned(),
            Self::Nothing => "none".to_owned(),
            Self::Damaged => "damaged".to_owned(),
        }
    }
}

fn look(id: &SessionId) -> Option<Pending> {
    let session = Session::open(&AegisHome::open().ok()??, id).ok()?;
    if session.is_live() {
        return None;
    }
    let changed = match changes(&session) {
        Err(error) if error.is_damage() => return Some(Pending::Damaged),
        changed => changed.ok()?,
    };
    let has_changed = !changed.is_empty();
    let left = unlanded(&session, changed).ok()?;
    Some(match (Counts::of(&left).names(), left.is_empty()) {
        (0, true) if has_changed => Pending::Landed,
        (0, true) => Pending::Nothing,
        (0, false) => Pending::Records,
        (count, _) => Pending::Names(count),
    })
}

/// Those of the `changes` that the project does not have yet, as a review would find them.
///
/// # Errors
/// When the project, or the record of an earlier landing, can not be read.
pub fn unlanded(session: &Session, changes: Vec<Change>) -> Result<Vec<Change>, CommandError> {
    let project = Project::of(session)?;
    let site = Site::new(session.dir(), project.directory());
    // Labels decide how something lands, and not whether it is there to land.
    let plan = Plan::new(&site, changes.clone(), &[], &|_| Labels::NONE).map_err(failed)?;
    let left: BTreeSet<_> = plan.items().iter().map(|item| &item.path).collect();
    let is_left = |change: &Change| left.contains(&change.path);
    Ok(changes.into_iter().filter(is_left).collect())
}

/// What `work` gives, unless it takes longer than `patience`; it is then left to itself, and ends with
/// the process.
pub(super) fn within<T: Send + 'static>(
    patience: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, waiting) = mpsc::channel();
    // Nobody waits any more where this fails.
    thread::spawn(move || done.send(work()));
    waiting.recv_timeout(patience).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_long_is_not_waited_for() {
        let (never, waiting) = mpsc::channel::<()>();
        assert_eq!(within(Duration::ZERO, move || waiting.recv()), None);
        assert_eq!(within(Duration::MAX, || 1), Some(1));
        drop(never);
    }
}
