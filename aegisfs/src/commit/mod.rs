//! The road back: what the agent changed reaches the project through types that consume each other.
//!
//! [`Plan`] says what would land and what may not. [`Plan::freeze`] copies it to the stage, settles
//! it with what the host has now and puts one hash over the result: [`Frozen`]. [`Frozen::approve`]
//! binds a yes to that hash: [`Approved`]. [`Approved::land`] carries it out, whole or not at all,
//! and leaves the record from which [`Reversal`] takes it back: [`Landed`].
//!
//! Everything on the host's side happens beneath the project's directory descriptor, and no link is
//! followed on the way. Gates that check a frozen tree before it is approved have their place
//! between [`Frozen`] and [`Approved`]; they get the frozen tree, and a tree that they reject has no
//! way on.

mod aliases;
mod approve;
mod beneath;
mod carry;
mod error;
mod freeze;
mod frozen;
mod git;
mod gitstate;
mod gitview;
mod item;
mod land;
mod landing;
mod links;
mod lock;
mod moves;
mod names;
mod past;
mod plan;
mod reason;
mod rules;
mod settle;
mod shapes;
mod site;
mod stage;
mod state;
mod transaction;
mod undo;

pub use approve::{Approval, Approved};
pub use error::CommitError;
pub use frozen::{Entry, Frozen, Left};
pub use git::Advance;
pub use gitview::{Carried, Move};
pub use item::{Action, Group, Item};
pub use land::{Done, Landed, Outcome};
pub use plan::Plan;
pub use reason::Reason;
pub use site::Site;
pub use state::{Digest, State};
pub use transaction::Recovered;
pub use undo::Reversal;

use crate::layout::SessionDir;
use crate::overlay::Relocations;

/// Reads what the landings of a session that are in force have moved on the host.
///
/// # Errors
/// [`CommitError`] when a record can not be read.
pub fn relocations(session: &SessionDir) -> Result<Relocations, CommitError> {
    past::Past::read(session).map(|past| past.relocations())
}

/// Removes frozen content that nobody waits for any more: that of a review that was broken off. The
/// caller has the session to itself.
///
/// # Errors
/// What the file system said.
pub fn clear_stage(session: &SessionDir) -> Result<(), CommitError> {
    stage::Stage::take(session)?.clear()
}

/// Takes interrupted landings of the session back, or finishes them.
///
/// # Errors
/// [`CommitError`] when a record is damaged or the host's file system refuses.
pub fn recover(site: &Site<'_>) -> Result<Recovered, CommitError> {
    let (lock, recovered) = lock::ProjectLock::acquire(site, &[], &|_| {})?;
    lock.release();
    Ok(recovered)
}

/// The same steps with a call before each change of the disk, for tests that stop there.
#[doc(hidden)]
pub mod interruptible {
    use aegis_policies::journal::Journal;

    use super::{Approved, CommitError, Landed, Recovered, Reversal, Site};

    /// [`Approved::land`].
    ///
    /// # Errors
    /// As there.
    pub fn land(
        approved: Approved,
        site: &Site<'_>,
        journal: Option<&Journal>,
        hook: &dyn Fn(&'static str),
    ) -> Result<Landed, CommitError> {
        approved.land_with(site, journal, hook)
    }

    /// [`Reversal::apply`].
    ///
    /// # Errors
    /// As there.
    pub fn undo(
        reversal: Reversal,
        site: &Site<'_>,
        hook: &dyn Fn(&'static str),
    ) -> Result<Landed, CommitError> {
        reversal.apply_with(site, None, hook)
    }

    /// [`recover`](super::recover).
    ///
    /// # Errors
    /// As there.
    pub fn recover(site: &Site<'_>, hook: &dyn Fn(&'static str)) -> Result<Recovered, CommitError> {
        let (lock, recovered) = super::lock::ProjectLock::acquire(site, &[], hook)?;
        lock.release();
        Ok(recovered)
    }
}
