//! `aegis-os run`: a command in a sandbox of its own.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use aegis_policies::path::escape;

use super::{Outcome, talk};
use crate::keeper::{self, Lifeline};
use crate::session::config::Config;
use crate::session::home::shown;
use crate::session::launch::{Finished, Launch};
use crate::session::project::{Project, current_directory};
use crate::session::{AegisHome, summary};

/// Runs a command in a sandbox, on a copy-on-write view of the project.
///
/// The project is the nearest folder above the current one that holds `.git`, or else the current
/// folder. The command sees it at its usual place and may change everything in it except names that
/// git would execute and the settings of agents; what usually holds credentials it can not read. The
/// changes stay in the session. Of the rest of the machine only the system's own directories and
/// toolchains are shown, read-only; further places with `--ro`. The only way to the network is a
/// proxy that refuses every host you did not allow.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// What the session calls the agent; the base name of the command when not given.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// A host that may be connected to, as HOST or HOST:PORT (ports 80 and 443 when none is
    /// given); `.HOST` means every name below it as well.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub allow: Vec<String>,
    /// A file or folder outside the project that the command may read.
    #[arg(long, value_name = "PATH")]
    pub ro: Vec<PathBuf>,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  aegis-os run -- claude
  aegis-os run --allow registry.example.org -- npm install
  aegis-os run --ro ../shared-docs -- codex exec 'write the tests'
  aegis-os run -- sh -c 'make && make test'

The exit status is the command's; 128+n when signal n ended it; 125 when the session could not be
started, 126 when the command can not be executed, 127 when it was not found.
A port of this machine that you allow (`--allow localhost:5432`) is reached through the proxy alone;
programs that leave the proxy out for such names have to be told: `curl --noproxy ''`.
A key in ANTHROPIC_API_KEY or OPENAI_API_KEY is not visible inside; the proxy adds it to requests.";

/// Starts a session and waits for its command.
///
/// # Errors
/// When the session could not be started; nothing of it is then left behind.
pub fn run(args: &Args) -> Outcome {
    keeper::keep(|lifeline| launch(args, lifeline))
}

fn launch(args: &Args, lifeline: Lifeline) -> Outcome {
    let directory = current_directory()?;
    let project = Project::around(&directory)?;
    project.check_apart(&AegisHome::place()?)?;
    let home = AegisHome::create()?;
    let mut config = Config::load(&home)?;
    config.allow.extend(args.allow.iter().cloned());
    config
        .read_only
        .extend(args.ro.iter().map(|path| directory.join(path)));
    let agent = args.name.clone().unwrap_or_else(|| agent_of(&args.command));
    talk::say(&format!(
        "aegis-os: working on a view of `{}`",
        shown(project.path())
    ));
    let launch = Launch {
        home,
        project,
        directory,
        command: args.command.clone(),
        config,
        tell: talk::say,
        lifeline,
    };
    let finished = launch.begin(agent)?;
    Ok(report(finished))
}

/// Says what the run did and gives the command's exit status back.
#[must_use]
pub fn report(finished: Finished) -> ExitCode {
    let status = finished.status;
    for lapse in &finished.lapses {
        talk::say(&format!(
            "aegis-os: the end of the session is not on record: {lapse}"
        ));
    }
    match summary::of_run(finished) {
        Ok(text) => talk::say(&text),
        Err(error) => talk::say(&format!(
            "aegis-os: what the session did can not be shown: {error}"
        )),
    }
    ExitCode::from(status)
}

/// What an agent is called that the person gave no name: the base name of its command.
fn agent_of(command: &[OsString]) -> String {
    let name = command.first().map(Path::new).and_then(Path::file_name);
    name.map_or_else(|| "agent".to_owned(), |name| escape(name.as_bytes()))
}
