//! `aegis-os mount`: the copy-on-write view without a sandbox.

use std::path::PathBuf;
use std::process::ExitCode;

use super::{Outcome, talk};
use crate::session::AegisHome;
use crate::session::config::Config;
use crate::session::home::shown;
use crate::session::project::Project;
use crate::session::view::View;

/// Mounts a copy-on-write view of a project for your own programs, without a sandbox.
///
/// What is written below MOUNTPOINT stays in a session that `diff`, `land` and `discard` work on.
/// Nothing is confined: a program that knows the real path can still change the real project.
/// Runs until Ctrl-C, or until something unmounts it (`fusermount3 -u MOUNTPOINT`).
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The project.
    pub project: PathBuf,
    /// An empty folder outside the project.
    pub mountpoint: PathBuf,
}

const EXAMPLES: &str = "\
Example:
  mkdir /tmp/view && aegis-os mount . /tmp/view";

/// Mounts and serves until unmounted.
///
/// # Errors
/// When the view can not be mounted; no session is then left behind.
pub fn run(args: &Args) -> Outcome {
    let project = Project::at(&args.project)?;
    project.check_apart(&AegisHome::place()?)?;
    let home = AegisHome::create()?;
    let config = Config::load(&home)?;
    let view = View::open(home, project, &args.mountpoint, &config)?;
    talk::say(&format!(
        "aegis-os: session {} is mounted on `{}`; Ctrl-C unmounts it",
        view.session().id(),
        shown(view.mountpoint())
    ));
    let session = view.attend()?;
    talk::say(&format!(
        "aegis-os: unmounted; `aegis-os diff --session {0}`, `aegis-os land --session {0}` or \
         `aegis-os discard {0}`",
        session.id()
    ));
    Ok(ExitCode::SUCCESS)
}
