//! `aegis-os snapshot`: keep what a session's tree is now.

use std::process::ExitCode;

use aegis_policies::journal::SnapshotCause;
use aegis_policies::path::escape;
use aegisfs::overlay::SnapshotName;

use super::{Outcome, talk};
use crate::error::CommandError;
use crate::review::{Desk, Looking};
use crate::session::control::{self, Answer, Ask};
use crate::session::serve::ServeError;
use crate::session::{Session, SessionError};

/// Keeps what a session's tree is now, also while its command runs.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Nothing is copied: what is written later is written elsewhere. `aegis-os \
                       rewind` goes back to it, `aegis-os diff --since` shows what has changed \
                       since, and `aegis-os cat` prints a file of it. What is asked for is kept as \
                       long as the session; of those that are taken without asking the newest 32 \
                       of each kind (at the start and the end of a run, before a landing, before a \
                       rewind), and the newest 16 after commits and after quiet periods each, with \
                       16 older ones spread over the time since the first."
)]
pub struct Args {
    /// What it is to be called.
    name: Option<String>,
    /// The session, or the first letters of its id.
    #[arg(long, short)]
    session: Option<String>,
}

/// Takes the snapshot, and prints the number of its entry.
///
/// # Errors
/// When the session can not be read, or the name is taken.
pub fn run(args: &Args) -> Outcome {
    let name = args.name.as_deref().map(parse).transpose()?;
    let looking = Looking::at(args.session.as_deref())?;
    let seq = if looking.session().is_live() {
        let name = name.map(|name| name.to_string());
        ask(looking.session(), &Ask::Snapshot { name })?
    } else {
        let desk = Desk::of(looking)?;
        let guard = desk.tree()?;
        let taken = guard.overlay().snapshot(name, SnapshotCause::Requested);
        taken.map_err(ServeError::from)?.seq
    };
    talk::print(&format!("{seq}\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn parse(name: &str) -> Result<SnapshotName, CommandError> {
    SnapshotName::parse(name).map_err(|error| {
        let what = format!("a snapshot can not be called `{}`", escape(name.as_bytes()));
        CommandError::told(&what, error, "choose another name")
    })
}

const WITHOUT_ASKING: &str = "try again when the session's command has ended: no other process \
    has to be asked then";

/// Asks the process that serves a live session; gives the entry of the snapshot that it took.
pub(super) fn ask(session: &Session, ask: &Ask) -> Result<u64, CommandError> {
    let id = session.id();
    match control::ask(session.directory(), ask) {
        Ok(Answer::Done { snapshot }) => Ok(snapshot),
        Ok(Answer::Refused { why, next }) => {
            let what = format!("session `{id}` refused");
            let next = next.as_deref().unwrap_or(WITHOUT_ASKING);
            let (why, next) = (escape(why.as_bytes()), escape(next.as_bytes()));
            Err(CommandError::told(&what, why, &next))
        }
        // Another command has the session, and nobody serves it.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(SessionError::Busy {
            id: id.to_string(),
            server: None,
        }
        .into()),
        Err(error) => Err(CommandError::io(
            &format!("asking the process that serves session `{id}`"),
            error,
        )),
    }
}
