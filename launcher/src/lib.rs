//! The aegis-os command: sessions, sandbox, review.
//!
//! This room wires the others together and owns no rule: what may happen is judged by the gate of
//! aegis-policies, and what a session may see is the data of the sandbox tables.

pub mod cli;
pub mod doctor;
pub mod error;
pub mod keeper;
pub mod review;
pub mod sandbox;
pub mod session;
mod sys;
pub mod terminal;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

pub use error::CommandError;

/// What the process was started as, and what follows from it.
///
/// The shim for git and the first process of a sandbox are tried first: they run inside, often, and
/// need nothing of the rest.
#[must_use]
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let [name, rest @ ..] = arguments.as_slice() {
        if aegis_gitshim::is_shim(name) {
            aegis_gitshim::main(name, rest);
        }
        if cli::mount::helper::is_asked(&arguments) {
            return cli::mount::helper::main(&arguments);
        }
        match rest
            .split_first()
            .map(|(first, more)| (first.as_bytes(), more))
        {
            Some((b"__stage", more)) => return sandbox::stage::main(more),
            Some((b"__probe", more)) => return doctor::child(more),
            _ => {}
        }
    }
    cli::main(arguments)
}
