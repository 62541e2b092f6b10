//! The command line: one file per command.

pub mod audit;
pub mod cat;
pub mod diff;
pub mod discard;
pub mod doctor;
pub mod du;
pub mod land;
pub mod mount;
pub mod recover;
pub mod resume;
pub mod review;
pub mod rewind;
pub mod run;
pub mod sessions;
pub mod snapshot;
pub mod snapshots;
pub mod status;
pub mod talk;
pub mod undo;
pub mod unmount;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::{CommandError, OWN_FAILURE};

/// What a command gives back: the exit status, or why it could not do its work.
pub type Outcome = Result<ExitCode, CommandError>;

/// Runs a command, usually a coding agent, in a sandbox where it works on a copy-on-write view of
/// your project. Nothing it does reaches the project until you land it.
#[derive(Debug, Parser)]
#[command(name = "aegis-os", version, max_term_width = 100, after_long_help = EXAMPLES)]
#[command(disable_help_subcommand = true, arg_required_else_help = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  aegis-os run -- claude             start an agent on the project you are in
  aegis-os diff                      see what it changed
  aegis-os land                      bring the changes into the project
  aegis-os undo                      take the last landing back
  aegis-os discard                   throw the session away

Sessions are kept in ~/.aegis/sessions (AEGIS_HOME overrides ~/.aegis). Where a command takes a
session, the newest session of the project you are in is meant when you name none, and the first
letters of an id are enough.";

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Resume(resume::Args),
    Mount(mount::Args),
    Unmount(unmount::Args),
    Sessions(sessions::Args),
    Status(status::Args),
    Diff(diff::Args),
    Review(review::Args),
    Land(land::Args),
    Undo(undo::Args),
    Snapshot(snapshot::Args),
    Snapshots(snapshots::Args),
    Rewind(rewind::Args),
    Cat(cat::Args),
    Du(du::Args),
    Discard(discard::Args),
    Audit(audit::Args),
    Recover(recover::Args),
    Doctor(doctor::Args),
}

impl Command {
    fn run(&self) -> Outcome {
        match self {
            Self::Run(args) => run::run(args),
            Self::Resume(args) => resume::run(args),
            Self::Mount(args) => mount::run(args),
            Self::Unmount(args) => unmount::run(args),
            Self::Sessions(args) => sessions::run(args),
            Self::Status(args) => status::run(args),
            Self::Diff(args) => diff::run(args),
            Self::Review(args) => review::run(args),
            Self::Land(args) => land::run(args),
            Self::Undo(args) => undo::run(args),
            Self::Snapshot(args) => snapshot::run(args),
            Self::Snapshots(args) => snapshots::run(args),
            Self::Rewind(args) => rewind::run(args),
            Self::Cat(args) => cat::run(args),
            Self::Du(args) => du::run(args),
            Self::Discard(args) => discard::run(args),
            Self::Audit(args) => audit::run(args),
            Self::Recover(args) => recover::run(args),
            Self::Doctor(args) => doctor::run(args),
        }
    }
}

/// Parses the command line, runs the command and turns its outcome into an exit status.
#[must_use]
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    match CommandLine::try_parse_from(arguments) {
        Ok(line) => line.command.run().unwrap_or_else(|error| report(&error)),
        Err(error) => usage(&error),
    }
}

fn usage(error: &clap::Error) -> ExitCode {
    // A closed pipe on either stream changes nothing about the outcome.
    let _closed = error.print();
    if error.use_stderr() {
        ExitCode::from(OWN_FAILURE)
    } else {
        ExitCode::SUCCESS
    }
}

fn report(error: &CommandError) -> ExitCode {
    talk::say(&format!("aegis-os: {error}"));
    if let Some(next) = error.next() {
        talk::say(&format!("  what to do: {next}"));
    }
    ExitCode::from(error.status())
}
