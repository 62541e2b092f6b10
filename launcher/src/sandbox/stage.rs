//! The first process inside the sandbox (`aegis-os __stage FD`): it becomes the command.

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the stage; returns only when the command could not be started.
///
/// `arguments` are those after `__stage`. Exit status 127: not found; 126: not executable; 125: the
/// sandbox is not what it should be.
#[must_use]
pub fn main(_arguments: &[OsString]) -> ExitCode {
    ExitCode::from(125)
}
