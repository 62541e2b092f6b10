//! `aos`: what a program inside the sandbox can know about it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};

/// Wrong usage, as for most programs.
const USAGE: i32 = 2;

const HELP: &str = "\
aos tells what this sandbox is.

  aos status   the session, the project, and what leaves the sandbox how

You work on a copy-on-write view of the project. Nothing you change reaches the real files until
the person lands it, outside, with `aegis-os land`; they see it with `aegis-os diff`.
";

/// Runs `aos`; returns the exit status.
pub(crate) fn main(arguments: &[OsString]) -> i32 {
    let words: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
    match words.as_slice() {
        [] => show(&status()),
        [word] if *word == "status" => show(&status()),
        [word] if *word == "help" || *word == "--help" || *word == "-h" => show(HELP),
        _ => {
            super::complain("aos: this is not a command of `aos`; `aos help` lists them");
            USAGE
        }
    }
}

fn status() -> String {
    let session = variable("AEGIS_SESSION");
    let project = variable("AEGIS_PROJECT");
    let files = "the list of changed files is for the person: aegis-os diff";
    format!(
        "session  {session}\n\
         project  {project}\n\
         changes  kept in this session; {files} --session {session}\n\
         real     /aegis/host/project (read-only)\n\
         network  through the proxy in HTTPS_PROXY, to the hosts that the person allowed\n\
         to ask   say in your answer what you need: a host (aegis-os run --allow HOST), a file\n         \
         outside the project (--ro PATH), or a landing (aegis-os review --session {session})\n"
    )
}

fn variable(name: &str) -> String {
    // Control characters would act on the terminal that shows this.
    let value = env::var_os(name).unwrap_or_else(|| "(unknown)".into());
    value
        .to_string_lossy()
        .chars()
        .map(|char| if char.is_control() { '?' } else { char })
        .collect()
}

fn show(text: &str) -> i32 {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}
