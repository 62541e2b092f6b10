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
use crate::layout::SessionDir;
use crate::overlay::Relocations;

/// What landings have made of names.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// By name, the landings that are in force, oldest first, with what they landed.
    landed: HashMap<RelPath, Vec<(String, State)>>,
    /// By name, what the host was once seen to have, by a landing that was taken back.
    seen: HashMap<RelPath, State>,
    /// Landings that moved something of the host's, oldest first, with the old and the new names.
    moves: Vec<(String, Vec<(RelPath, RelPath)>)>,
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
                match intent.purpose {
                    Purpose::Land => past.land(&id, committed.settled),
                    Purpose::Undo(of) => past.undo(&of, &committed.settled),
                }
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

    /// Where what the agent moved is on the host, and what landings put there.
    pub(crate) fn relocations(&self) -> Relocations {
        Relocations::new(self.moves.iter().map(|(_, moves)| moves.clone()).collect()).with_landed(
            self.landed.iter().filter_map(|(path, states)| {
                let (id, state) = states.last()?;
                (*state != State::Absent).then(|| (path.clone(), landing::moment(id)))
            }),
        )
    }

    fn land(&mut self, id: &str, settled: Vec<Settled>) {
        let gone = |path: &RelPath| {
            let mut settled = settled.iter();
            settled.any(|one| one.path == *path && one.agent == State::Absent)
        };
        // What an earlier landing moved leaves the name that it has had since.
        let earlier = self.relocations();
        let moves: Vec<_> = settled
            .iter()
            .filter_map(|one| {
                Some((
                    earlier.locate(one.moved_from.as_ref()?).into_owned(),
                    one.path.clone(),
                ))
            })
            .filter(|(from, _)| gone(from))
            .collect();
        self.moves.push((id.to_owned(), moves));
        for one in settled {
            self.seen.entry(one.path.clone()).or_insert(one.base);
            let states = self.landed.entry(one.path).or_default();
            states.push((id.to_owned(), one.agent));
        }
    }

    fn undo(&mut self, of: &str, settled: &[Settled]) {
        for one in settled {
            if let Some(states) = self.landed.get_mut(&one.path) {
                states.retain(|(landing, _)| landing != of);
            }
            for (landing, moves) in &mut self.moves {
                moves.retain(|(_, to)| landing != of || *to != one.path);
            }
        }
    }
}
