//! `git` and `aos` inside the sandbox.
#![forbid(unsafe_code)]

use std::ffi::{OsStr, OsString};

/// Whether a program started as `argv0` is the shim: its last component is `git` or `aos`.
#[must_use]
pub fn is_shim(argv0: &OsStr) -> bool {
    matches!(name(argv0).to_str(), Some("git" | "aos"))
}

/// Runs the shim; never returns.
pub fn main(_argv0: &OsStr, _arguments: &[OsString]) -> ! {
    std::process::exit(127)
}

fn name(argv0: &OsStr) -> &OsStr {
    std::path::Path::new(argv0).file_name().unwrap_or(argv0)
}
