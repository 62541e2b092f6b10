//! `aegis-os resume`: a further command in an existing session.

use std::ffi::OsString;
use std::path::PathBuf;

use super::{Outcome, run, talk};
use crate::error::CommandError;
use crate::keeper::{self, Lifeline};
use crate::review;
use crate::session::config::Config;
use crate::session::launch::Launch;
use crate::session::project::{Project, current_directory};
use crate::session::{self, AegisHome, Session};

/// Runs a command in an existing session: it finds the project as the session left it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The session, or the first letters of its id.
    pub session: Option<String>,
    /// A host that may be connected to, as for `aegis-os run`.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub allow: Vec<String>,
    /// A file or folder outside the project that the command may read.
    #[arg(long, value_name = "PATH")]
    pub ro: Vec<PathBuf>,
    /// The command and its arguments; the session's last command when not given.
    #[arg(last = true)]
    pub command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  aegis-os resume                    the last command again, in the newest session here
  aegis-os resume -- sh              a shell in the newest session of this project
  aegis-os resume 20261129 -- sh     a shell in the session whose id starts so";

/// Starts the session again and waits for its command.
///
/// # Errors
/// When the session is running or can not be started.
pub fn run(args: &Args) -> Outcome {
    keeper::keep(|lifeline| again(args, lifeline))
}

fn again(args: &Args, lifeline: Lifeline) -> Outcome {
    let session = session::look_up(args.session.as_deref())?;
    let command = wanted(args, &session)?;
    let home = AegisHome::create()?;
    let project = Project::of(&session)?;
    project.check_apart(home.path())?;
    review::settle(&session, &project)?;
    let mut config = Config::load(&home)?;
    config.allow.extend(args.allow.iter().cloned());
    config.read_only.extend(args.ro.clone());
    let directory = current_directory()
        .ok()
        .filter(|here| here.starts_with(project.path()))
        .unwrap_or_else(|| project.path().to_owned());
    talk::say(&format!(
        "aegis-os: going on with session `{}`",
        session.id()
    ));
    let launch = Launch {
        home,
        project,
        directory,
        command,
        config,
        tell: talk::say,
        lifeline,
    };
    Ok(run::report(launch.again(session)?))
}

/// The command that was given, or else the session's last one.
fn wanted(args: &Args, session: &Session) -> Result<Vec<OsString>, CommandError> {
    if !args.command.is_empty() {
        return Ok(args.command.clone());
    }
    let last: Vec<_> = session
        .record()
        .command
        .iter()
        .map(|word| word.as_os_str().to_owned())
        .collect();
    if last.is_empty() {
        return Err(CommandError::told(
            &format!("session `{}` has no command to repeat", session.id()),
            "it was made by `aegis-os mount`",
            "name one: `aegis-os resume SESSION -- COMMAND`",
        ));
    }
    Ok(last)
}
