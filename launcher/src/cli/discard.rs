//! `aegis-os discard`: throw a session away.

use std::process::ExitCode;

use super::{Outcome, talk};
use crate::review;
use crate::session::{self, AegisHome, Project, Session, SessionError, SessionId};

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
    #[arg(long)]
    yes: bool,
}

/// Removes the session.
///
/// # Errors
/// When the session is running, or can not be removed.
pub fn run(args: &Args) -> Outcome {
    let id = wanted(args.session.as_deref())?;
    let home = AegisHome::open()?.ok_or_else(|| SessionError::Unknown {
        given: id.to_string(),
    })?;
    let Some(held) = session::claim(&home, &id)? else {
        return Err(SessionError::Busy {
            id: id.to_string(),
            server: None,
        }
        .into());
    };
    let question = format!("Throw session `{id}` away with all that did not land");
    if !args.yes && !review::ask(&question, &format!("throwing session `{id}` away"))? {
        talk::say("nothing was removed");
        return Ok(ExitCode::FAILURE);
    }
    // What can not be opened any more has nothing that could be put right.
    if let Ok(session) = Session::open(&home, &id)
        && let Ok(project) = Project::of(&session)
    {
        review::settle(&session, &project)?;
    }
    session::remove(&home, &id, held)?;
    talk::say(&format!("session `{id}` is gone"));
    Ok(ExitCode::SUCCESS)
}

/// The session that is meant. A damaged one can not be opened, only named.
fn wanted(given: Option<&str>) -> Result<SessionId, SessionError> {
    let unknown = |prefix: &str| SessionError::Unknown {
        given: prefix.to_owned(),
    };
    match given {
        // Looking at the list takes away what a killed server left mounted in the session.
        Some(prefix) => session::list().and_then(|_| {
            let home = AegisHome::open()?.ok_or_else(|| unknown(prefix))?;
            session::find_id(&home, prefix)
        }),
        None => session::look_up(None).map(|session| session.id().clone()),
    }
}
