//! Which session is meant.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Session;
use super::error::SessionError;
use super::home::AegisHome;
use super::id::SessionId;
use super::pending::Pending;
use super::stale::unmount_leftovers;
use crate::cli::talk;

/// All sessions of the user.
#[derive(Debug, Default)]
pub struct Listing {
    /// Those that can be read, newest first.
    pub sessions: Vec<Session>,
    /// Those whose record can not be understood.
    pub damaged: Vec<SessionId>,
}

/// As [`look_up`]; says so when nobody named a session, the newest one has nothing to land and another
/// one of the same project has.
///
/// # Errors
/// As there.
pub fn find(given: Option<&str>) -> Result<Session, SessionError> {
    let session = look_up(given)?;
    if given.is_none() {
        point_out(&session)?;
    }
    Ok(session)
}

/// The session whose id starts with `given`, or else the newest one of the project that the current
/// directory is in.
///
/// # Errors
/// When there is no such session, or more than one.
pub fn look_up(given: Option<&str>) -> Result<Session, SessionError> {
    let Some(home) = AegisHome::open()? else {
        return Err(given.map_or_else(none_here, unknown));
    };
    let listing = list()?;
    match given {
        Some(prefix) => Session::open(&home, &find_id(&home, prefix)?),
        None => newest_here(listing),
    }
}

/// Every session, newest first; mounts that killed servers left behind are taken away.
///
/// # Errors
/// When the folder of sessions is not safe or can not be read.
pub fn list() -> Result<Listing, SessionError> {
    AegisHome::open()?.map_or_else(|| Ok(Listing::default()), |home| list_in(&home))
}

/// As [`list`], of the sessions in `home`.
///
/// # Errors
/// As there.
pub fn list_in(home: &AegisHome) -> Result<Listing, SessionError> {
    let mut listing = Listing::default();
    for id in home.ids()? {
        match Session::open(home, &id) {
            Ok(session) => listing.sessions.push(session),
            Err(SessionError::Damaged { .. }) => listing.damaged.push(id),
            // Removed by another process between the look and the opening.
            Err(_gone) => {}
        }
    }
    listing
        .sessions
        .sort_by_key(|session| std::cmp::Reverse(session.record.created));
    unmount_leftovers(&listing);
    Ok(listing)
}

/// The one id that starts with `prefix`; damaged sessions are found too.
///
/// # Errors
/// When there is none, or more than one.
pub fn find_id(home: &AegisHome, prefix: &str) -> Result<SessionId, SessionError> {
    let mut ids = home.ids()?;
    ids.retain(|id| id.as_str().starts_with(prefix));
    match ids.as_slice() {
        [] => Err(unknown(prefix)),
        [id] => Ok(id.clone()),
        several => Err(SessionError::Ambiguous {
            given: prefix.to_owned(),
            ids: several.iter().map(ToString::to_string).collect(),
        }),
    }
}

/// Names another session of the same project when `newest` has nothing to land and that one has.
fn point_out(newest: &Session) -> Result<(), SessionError> {
    let is_other =
        |other: &Session| other.id() != newest.id() && other.project() == newest.project();
    let others: Vec<_> = list()?.sessions.into_iter().filter(is_other).collect();
    if others.is_empty() || is_open(newest) != Some(false) {
        return Ok(());
    }
    let mut others = others.iter().take(LOOKED_AT);
    if let Some(other) = others.find(|other| is_open(other) == Some(true)) {
        let (used, id) = (newest.id(), other.id());
        talk::say(&format!(
            "aegis-os: this is about session `{used}`, the newest one; session `{id}` has changes \
             that have not landed: `aegis-os diff --session {id}`"
        ));
    }
    Ok(())
}

fn is_open(session: &Session) -> Option<bool> {
    Pending::of(session.id(), PATIENCE).map(Pending::is_open)
}

/// How long a look at one session may take.
const PATIENCE: Duration = Duration::from_millis(500);
/// How many of the other sessions are looked at.
const LOOKED_AT: usize = 8;

fn newest_here(listing: Listing) -> Result<Session, SessionError> {
    let here = current_directory();
    let mut sessions = listing.sessions.into_iter();
    sessions
        .find(|session| here.starts_with(session.project()))
        .ok_or_else(none_here)
}

fn none_here() -> SessionError {
    SessionError::NoneHere {
        project: current_directory(),
    }
}

fn unknown(given: &str) -> SessionError {
    SessionError::Unknown {
        given: given.to_owned(),
    }
}

/// The current directory; `.` when it was removed, which is the start of no project's path.
fn current_directory() -> PathBuf {
    env::current_dir().unwrap_or_else(|_| Path::new(".").to_owned())
}
