//! `aegis-os cat`: a file as it was.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use aegis_policies::RelPath;
use aegis_policies::journal::NodeKind;
use aegisfs::overlay::changes::After;

use super::{Outcome, talk};
use crate::error::CommandError;
use crate::review::Looking;
use crate::session::positions;
use crate::session::serve::ServeError;

/// Prints a file as it was in a snapshot of a session.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file and the snapshot (its name, or the number of an entry), with a `@` between them; the
    /// last one counts.
    #[arg(value_name = "PATH@SNAPSHOT")]
    what: String,
    /// The session, or the first letters of its id.
    #[arg(long, short)]
    session: Option<String>,
}

/// Prints the bytes.
///
/// # Errors
/// When there is no such snapshot, or no such file in it.
pub fn run(args: &Args) -> Outcome {
    let Some((path, snapshot)) = args.what.rsplit_once('@') else {
        return Err(CommandError::told(
            "it is not said which snapshot is meant",
            "there is no `@` in what was given",
            "write it as PATH@SNAPSHOT; `aegis-os snapshots` lists them",
        ));
    };
    let looking = Looking::at(args.session.as_deref())?;
    let path = looking.name(&PathBuf::from(path))?;
    let seq = positions::entry(looking.session(), snapshot)?;
    let past = positions::open(looking.session(), looking.project(), Some(seq))?;
    let found = past.find(&path).map_err(ServeError::from)?;
    let after = found.ok_or_else(|| unreadable(&path, "there was no such name", OTHER_SNAPSHOT))?;
    let Some(content) = &after.content else {
        let (why, next) = noun(&after);
        return Err(unreadable(&path, why, next));
    };
    let opened = past.open_content(content);
    let (mut file, may_differ) =
        opened.map_err(|error| unreadable(&path, error, OTHER_SNAPSHOT))?;
    if may_differ {
        talk::say(&format!(
            "aegis-os: the session had not touched `{path}`; this is what the project has now, and \
             it has changed since"
        ));
    }
    let mut output = io::stdout().lock();
    match io::copy(&mut file, &mut output).and_then(|_| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CommandError::io("printing the file", error))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

const OTHER_SNAPSHOT: &str = "`aegis-os snapshots` lists the others, which may have it; \
    `aegis-os diff --since SNAPSHOT` shows what has changed since one";

fn unreadable(path: &RelPath, why: impl ToString, next: &str) -> CommandError {
    CommandError::told(&format!("`{path}` can not be printed"), why, next)
}

/// What it was instead of a file, and what to name.
const fn noun(other: &After) -> (&'static str, &'static str) {
    match other.kind {
        NodeKind::Directory => ("it was a directory", "name a file in it"),
        NodeKind::Symlink(_) => ("it was a symbolic link", "name the file that it led to"),
        _ => (
            "it was no regular file",
            "name a regular file; nothing else holds content",
        ),
    }
}
