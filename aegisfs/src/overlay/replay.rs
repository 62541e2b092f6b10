//! The shadow of a session at a position of its journal: one function for everybody who needs it.
//!
//! It starts at the newest checkpoint before the position, and takes time in proportion to the
//! entries after that. What a rewind goes back to is kept on the way there, until the last rewind
//! that needs it; only what lies before the checkpoint is replayed apart.

use std::collections::BTreeMap;

use aegis_policies::journal::{self, Event, Position, Seq};

use super::checkpoint::{self, Checkpoint, Dismissed};
use super::error::OverlayError;
use super::relocations::Relocations;
use super::shadow::Shadow;
use crate::layout::SessionDir;

/// How much of a journal is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upto {
    /// All of it.
    End,
    /// The entries before this one.
    Entry(Seq),
}

/// What a replay gives.
#[derive(Debug)]
pub(crate) struct Replayed {
    /// The state.
    pub(crate) shadow: Shadow,
    /// Behind the last entry that made it.
    pub(crate) position: Position,
    /// Bytes of the journal before the checkpoint that it began with; 0 without one.
    pub(crate) begun: u64,
    /// The checkpoints that could not be used.
    pub(crate) dismissed: Vec<Dismissed>,
}

/// The shadow of a session at a position of its journal; `relocations` is what landings of the
/// session have made of the project. It reads, and changes nothing.
///
/// # Errors
/// [`OverlayError::Journal`] when an entry can not be read, [`OverlayError::Replay`] when one does
/// not follow from those before it.
pub(crate) fn replay(
    session: &SessionDir,
    relocations: &Relocations,
    upto: Upto,
) -> Result<Replayed, OverlayError> {
    let from = |limit| checkpoint::newest(session, relocations, limit);
    replay_from(session, relocations, upto, from)
}

/// [`replay`] up to and with the entry `last`.
///
/// # Errors
/// As there, and [`OverlayError::Replay`] when there is no such entry.
pub(crate) fn replay_to(
    session: &SessionDir,
    relocations: &Relocations,
    last: Seq,
) -> Result<Replayed, OverlayError> {
    let next = last.saturating_add(1);
    let replayed = replay(session, relocations, Upto::Entry(next))?;
    if replayed.position.next() == next {
        return Ok(replayed);
    }
    let (seq, reason) = (last, "there is no such entry");
    Err(OverlayError::Replay { seq, reason })
}

/// [`replay`] from entry 0, whatever checkpoints there are.
///
/// # Errors
/// As there.
pub(crate) fn replay_whole(
    session: &SessionDir,
    relocations: &Relocations,
    upto: Upto,
) -> Result<Replayed, OverlayError> {
    replay_from(session, relocations, upto, |_| {
        checkpoint::Search::default()
    })
}

/// As much of the state as can be had: up to the first entry that can not be read or does not
/// follow, which is told with it. `base` gives the checkpoint to begin with, as often as asked.
pub(crate) fn replay_sound(
    session: &SessionDir,
    relocations: &Relocations,
    base: impl Fn() -> Option<Checkpoint>,
) -> (Replayed, Option<OverlayError>) {
    let mut targets = Targets::default();
    loop {
        let mut pass = Pass::new(session, relocations, base());
        let stopped = pass.run(Upto::End, &mut targets);
        if !pass.again {
            return (pass.into_replayed(Vec::new()), stopped.err());
        }
    }
}

fn replay_from(
    session: &SessionDir,
    relocations: &Relocations,
    upto: Upto,
    newest: impl Fn(Seq) -> checkpoint::Search,
) -> Result<Replayed, OverlayError> {
    let mut limit = match upto {
        Upto::End => Seq::MAX,
        Upto::Entry(seq) => seq,
    };
    let mut targets = Targets::default();
    let mut dismissed = Vec::new();
    loop {
        let search = newest(limit);
        dismissed.extend(search.dismissed);
        dismissed.dedup();
        let base = search.found.as_ref().map(|found| found.position.next());
        let mut pass = Pass::new(session, relocations, search.found);
        match (pass.run(upto, &mut targets), base) {
            (Ok(()), _) if pass.again => {}
            (Ok(()), _) => return Ok(pass.into_replayed(dismissed)),
            // Entries that follow from one another do not follow from the checkpoint.
            (Err(OverlayError::Replay { seq, .. }), Some(base)) => {
                let reason = format!("entry {seq} does not follow from it");
                dismissed.push(Dismissed::new(session, base, reason));
                limit = base.saturating_sub(1);
                targets = Targets::default();
            }
            (Err(error), _) => return Err(error),
        }
    }
}

/// The entries that rewinds go back to, and the last rewind to each.
#[derive(Debug, Default)]
struct Targets(BTreeMap<Seq, Seq>);

/// One way through the journal.
struct Pass<'a> {
    session: &'a SessionDir,
    relocations: &'a Relocations,
    shadow: Shadow,
    /// Where it begins; `None` for entry 0.
    start: Option<Position>,
    position: Position,
    /// Whether a rewind goes back to a state that was not kept. It is known now, for another pass.
    again: bool,
    /// The states after the entries that rewinds go back to.
    kept: BTreeMap<Seq, Shadow>,
}

impl<'a> Pass<'a> {
    fn new(
        session: &'a SessionDir,
        relocations: &'a Relocations,
        base: Option<Checkpoint>,
    ) -> Self {
        let (shadow, start) = match base {
            Some(base) => (base.shadow, Some(base.position)),
            None => (Shadow::over(relocations.clone()), None),
        };
        Self {
            session,
            relocations,
            shadow,
            start,
            position: Position::START,
            again: false,
            kept: BTreeMap::new(),
        }
    }

    /// Goes as far as it is asked to, or can; the position is then behind the last entry whose
    /// change was made.
    fn run(&mut self, upto: Upto, targets: &mut Targets) -> Result<(), OverlayError> {
        let directory = self.session.journal();
        let mut entries = match &self.start {
            // It has been found to fit.
            Some(start) => journal::read_behind(&directory, start)?,
            None => journal::read(&directory)?,
        };
        let first = entries.position().next();
        while upto != Upto::Entry(entries.position().next()) {
            self.position = entries.position().clone();
            let Some(item) = entries.next() else {
                break;
            };
            let (seq, entry) = item?;
            if let Event::Rewound { to } = entry.event {
                self.again |= targets.note(seq, to) && to >= first;
            }
            if !self.again {
                self.apply(seq, entry, targets)?;
            }
        }
        self.position = entries.position().clone();
        Ok(())
    }

    fn apply(
        &mut self,
        seq: Seq,
        entry: journal::Entry,
        targets: &Targets,
    ) -> Result<(), OverlayError> {
        let past = match entry.event {
            Event::Rewound { to } if to < seq => Some(self.past(seq, to, targets)?),
            _ => None,
        };
        let replayed = self.shadow.replay(seq, entry, |_| past);
        replayed.map_err(|misfit| OverlayError::Replay {
            seq,
            reason: misfit.0,
        })?;
        if targets.0.contains_key(&seq) {
            self.kept.insert(seq, self.shadow.clone());
        }
        Ok(())
    }

    /// The state after entry `to`, for the rewind that is entry `seq`.
    fn past(&mut self, seq: Seq, to: Seq, targets: &Targets) -> Result<Shadow, OverlayError> {
        let kept = if targets.0.get(&to) == Some(&seq) {
            self.kept.remove(&to)
        } else {
            self.kept.get(&to).cloned()
        };
        match kept {
            Some(kept) => Ok(kept),
            None => Ok(replay(self.session, self.relocations, Upto::Entry(to + 1))?.shadow),
        }
    }

    fn into_replayed(self, dismissed: Vec<Dismissed>) -> Replayed {
        let begun = self.start.as_ref().map_or(0, Position::bytes);
        Replayed {
            shadow: self.shadow,
            position: self.position,
            begun,
            dismissed,
        }
    }
}

impl Targets {
    /// Notes a rewind; tells whether what it goes back to was not known.
    fn note(&mut self, seq: Seq, to: Seq) -> bool {
        let known = self.0.get(&to).copied();
        self.0.insert(to, known.map_or(seq, |last| last.max(seq)));
        known.is_none()
    }
}
