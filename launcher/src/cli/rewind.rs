//! `aegis-os rewind`: make a session's tree what it was.

use std::process::ExitCode;

use aegisfs::overlay::{Kept, Loss, Rewind};

use super::snapshot::ask;
use super::{Outcome, talk};
use crate::error::CommandError;
use crate::review::{Desk, Looking};
use crate::session::control::Ask;
use crate::session::serve::ServeError;
use crate::session::{Session, positions};

/// Makes a session's tree what it was, also while its command runs.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "What runs in the session sees it at once. The tree as it is now is kept as \
                       a snapshot first, so a rewind can be taken back by another. Files that the \
                       session has not touched are those of the project, as they are now; what has \
                       landed in the project stays there.\n\nOf an entry between two snapshots, \
                       names and attributes are known, and content as far as it is kept; which \
                       files would not be what they were is said before anything is done."
)]
pub struct Args {
    /// The name of a snapshot, or the number of an entry.
    #[arg(value_name = "SNAPSHOT|ENTRY")]
    to: String,
    /// The session, or the first letters of its id.
    #[arg(long, short)]
    session: Option<String>,
    /// Also when some files are not kept as they were.
    #[arg(long)]
    yes: bool,
}

/// Rewinds.
///
/// # Errors
/// When there is no such snapshot, or files would not be what they were and nobody agreed.
pub fn run(args: &Args) -> Outcome {
    let looking = Looking::at(args.session.as_deref())?;
    let to = positions::entry(looking.session(), &args.to)?;
    let rewind = plan(looking.session(), to)?;
    check(rewind.losses(), args.yes)?;
    let landings = positions::landings_since(looking.session(), to)?;
    let id = looking.session().id().clone();
    let before = if looking.session().is_live() {
        let approximate = args.yes;
        ask(looking.session(), &Ask::Rewind { to, approximate })?
    } else {
        let desk = Desk::of(looking)?;
        let rewound = desk.tree()?.rewind(rewind);
        rewound.map_err(ServeError::from)?.seq
    };
    talk::say(&format!(
        "session `{id}` is what it was after entry {to}; `aegis-os rewind {before} --session {id}` \
         takes that back"
    ));
    if landings > 0 {
        talk::say(&format!(
            "{landings} landed since: that stays in the project, and `aegis-os diff` shows what \
             differs from it"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn plan(session: &Session, to: u64) -> Result<Rewind, CommandError> {
    let relocations = positions::relocations(session)?;
    let planned = Rewind::plan(session.dir(), &relocations, to);
    planned.map_err(|error| ServeError::from(error).into())
}

/// Says what would not be what it was; that takes a person's word.
fn check(losses: &[Loss], agreed: bool) -> Result<(), CommandError> {
    for loss in losses.iter().take(SHOWN) {
        talk::say(&format!("  {}: {}", loss.path, kept(loss.kept)));
    }
    if let Some(more @ 1..) = losses.len().checked_sub(SHOWN) {
        talk::say(&format!("  and {more} more"));
    }
    if losses.is_empty() || agreed {
        return Ok(());
    }
    Err(CommandError::told(
        "nothing was rewound",
        format!("{} files would not be what they were", losses.len()),
        "add `--yes` to agree to that, or choose a snapshot: `aegis-os snapshots` lists them",
    ))
}

/// How many files are named.
const SHOWN: usize = 40;

const fn kept(kept: Kept) -> &'static str {
    match kept {
        Kept::Later => "what was written to it later, before the next snapshot, would be in it",
        Kept::Other(_) => "only its content of another moment is kept",
        Kept::Nothing => "its content is not kept, so it would be gone",
    }
}
