//! What earlier landings of a session mean for the next one.
//!
//! The shadow stays as the agent left it, so a name that has landed still differs from what the
//! agent first saw. What has landed is therefore what both sides start from next time: a name that
//! neither side touched since is no change, and one that both touched is merged from there.

use std::collections::HashMap;

use aegis_policies::RelPath;

use super::error::CommitError;
use super::landing::{self, COMMITTED, Committed, INTENT, Intent, Landing, Purpose, Settled};
use super::state::State;
use super::transaction::{Act, Step};
use crate::layout::SessionDir;

/// What landings have made of names.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// By name, the landings that are in force, oldest first, with what they landed.
    landed: HashMap<RelPath, Vec<(String, State)>>,
    /// By name, what the host was once seen to have, by a landing that was taken back.
    seen: HashMap<RelPath, State>,
    /// The host's files that landings have moved, oldest move first.
    moves: Vec<(RelPath, RelPath)>,
}

impl Past {
    /// Reads the records of all landings of the session.
    pub(crate) fn read(session: &SessionDir) -> Result<Self, CommitError> {
        let mut past = Self::default();
        for id in landing::identifiers(session)? {
            let landing = Landing::open(session, &id)?;
            if let (Some(intent), Some(committed)) = (
                landing.read::<Intent>(INTENT)?,
                landing.read::<Committed>(COMMITTED)?,
            ) {
                past.add_moves(intent.steps, &committed.done);
                past.add(&id, &intent.purpose, committed.settled);
            }
        }
        Ok(past)
    }

    /// What the last landing in force left under a name.
    pub(crate) fn landed(&self, path: &RelPath) -> Option<&State> {
        self.landed.get(path)?.last().map(|(_, state)| state)
    }

    /// What the host had under a name before a landing that was taken back.
    pub(crate) fn seen(&self, path: &RelPath) -> Option<&State> {
        self.seen.get(path)
    }

    /// Where a file of the host's is now that had this name when the agent first saw it.
    pub(crate) fn relocate(&self, path: &RelPath) -> RelPath {
        let moved =
            |path, (from, to): &(RelPath, RelPath)| if path == *from { to.clone() } else { path };
        self.moves.iter().fold(path.clone(), moved)
    }

    fn add_moves(&mut self, steps: Vec<Step>, done: &[bool]) {
        let done = steps.into_iter().zip(done).filter(|(_, done)| **done);
        self.moves
            .extend(done.filter_map(|(step, _)| match step.act {
                Act::Move { from } => Some((from, step.path)),
                _ => None,
            }));
    }

    fn add(&mut self, id: &str, purpose: &Purpose, settled: Vec<Settled>) {
        for settled in settled {
            match purpose {
                Purpose::Land => {
                    self.seen
                        .entry(settled.path.clone())
                        .or_insert(settled.base);
                    self.landed
                        .entry(settled.path)
                        .or_default()
                        .push((id.to_owned(), settled.agent));
                }
                Purpose::Undo(of) => {
                    if let Some(states) = self.landed.get_mut(&settled.path) {
                        states.retain(|(landing, _)| landing != of);
                    }
                }
            }
        }
    }
}

/// Where the host's files are now that landings have moved: the old name and the new one, oldest
/// move first. The overlay finds the bytes of a moved file there when the session goes on.
///
/// # Errors
/// [`CommitError`] when a record can not be read.
pub fn moves(session: &SessionDir) -> Result<Vec<(RelPath, RelPath)>, CommitError> {
    Past::read(session).map(|past| past.moves)
}
