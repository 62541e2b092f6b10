//! `git` and `aos` inside the sandbox.
//!
//! The launcher's program is started under these names from `/aegis/bin`, which is first on the
//! sandbox's `PATH`. `git` becomes the real git with settings that keep it from running what the
//! repository names; `aos` tells what can be known inside.

#![forbid(unsafe_code)]

mod aos;
mod git;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;

/// Whether a program started as `argv0` is the shim: its last component is `git` or `aos`.
#[must_use]
pub fn is_shim(argv0: &OsStr) -> bool {
    matches!(name(argv0).to_str(), Some("git" | "aos"))
}

/// Runs the shim; never returns. Git's own exit status and signals are those of git, because this
/// process becomes git.
pub fn main(argv0: &OsStr, arguments: &[OsString]) -> ! {
    let status = if name(argv0) == "aos" {
        aos::main(arguments)
    } else {
        git::main(arguments)
    };
    std::process::exit(status)
}

fn name(argv0: &OsStr) -> &OsStr {
    Path::new(argv0).file_name().unwrap_or(argv0)
}

/// Writes a line to standard error, which may be closed; the exit status says it too.
fn complain(words: &str) {
    let _closed = writeln!(io::stderr(), "{words}");
}
