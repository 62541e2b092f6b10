//! `aegis-os discard`: throw a session away.

use std::process::ExitCode;

use super::{Outcome, talk};
use crate::session::{self, AegisHome, Session, SessionError, SessionId};

/// Throws a session away with everything that was changed in it and did not land.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "What has landed in the project stays there; `aegis-os undo` can no \
                             longer take it back once the session is gone."
)]
pub struct Args {
    /// The session, or the first letters of its id.
    session: Option<String>,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
}

/// Removes the session.
///
/// # Errors
/// When the session is running, or can not be removed.
pub fn run(args: &Args) -> Outcome {
    let home = AegisHome::open()?.ok_or(SessionError::Unknown {
        given: args.session.clone().unwrap_or_default(),
    })?;
    let (id, session) = wanted(&home, args.session.as_deref())?;
    let held = session.as_ref().map(Session::claim).transpose()?;
    let question = format!("throw session `{id}` away with all that did not land");
    if !args.yes && !talk::confirm(&question)? {
        talk::say("nothing was removed");
        return Ok(ExitCode::FAILURE);
    }
    session::remove(&home, &id, held)?;
    talk::say(&format!("session `{id}` is gone"));
    Ok(ExitCode::SUCCESS)
}

/// The session that is meant; a damaged one is named by its id and has nothing to open.
fn wanted(
    home: &AegisHome,
    given: Option<&str>,
) -> Result<(SessionId, Option<Session>), SessionError> {
    let listing = session::list()?;
    let Some(prefix) = given else {
        let session = session::find(None)?;
        return Ok((session.id().clone(), Some(session)));
    };
    let id = session::find_id(home, prefix)?;
    let session = listing
        .sessions
        .into_iter()
        .find(|session| *session.id() == id);
    Ok((id, session))
}
