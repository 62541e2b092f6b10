//! The pieces of work. Each runs in a child process with a limit, so that a file system that hangs
//! costs one cell of the table and not the run.

mod content;
mod names;
mod tools;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::Outcome;
use crate::corpus::Corpus;
use crate::person::Person;

/// Seconds that one piece of work may take.
const LIMIT: &str = "300";

/// A piece of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    Walk,
    Status,
    Search,
    Read,
    ReadRandomly,
    ReadMapped,
    OpenClose,
    StatOne,
    StatMissing,
    Create,
    Unpack,
    RemoveAll,
    Write,
    WriteSmall,
    WriteMapped,
    WriteRandomly,
    SqliteDelete,
    SqliteWal,
    Poke,
    Rename,
    UnlinkRenamed,
    Unlink,
    Make,
    Cargo,
    GitRead,
    GitCommit,
}

/// How long it took, and what must be the same on every file system.
pub(crate) struct Done {
    pub(crate) nanoseconds: u64,
    pub(crate) sum: u64,
}

impl Work {
    const ALL: [Self; 26] = [
        Self::Walk,
        Self::Status,
        Self::Search,
        Self::Read,
        Self::ReadRandomly,
        Self::ReadMapped,
        Self::OpenClose,
        Self::StatOne,
        Self::StatMissing,
        Self::Create,
        Self::Unpack,
        Self::RemoveAll,
        Self::Write,
        Self::WriteSmall,
        Self::WriteMapped,
        Self::WriteRandomly,
        Self::SqliteDelete,
        Self::SqliteWal,
        Self::Poke,
        Self::Rename,
        Self::UnlinkRenamed,
        Self::Unlink,
        Self::Make,
        Self::Cargo,
        Self::GitRead,
        Self::GitCommit,
    ];

    fn name(self) -> String {
        format!("{self:?}")
    }

    /// Does it in the folder `at`; returns what must be the same on every file system.
    fn carry_out(self, at: &Path, archive: &Path) -> Outcome<u64> {
        match self {
            Self::Walk => names::walk(at),
            Self::OpenClose => names::open_close(&at.join("d000/f00001")),
            Self::StatOne => names::stat_one(&at.join("d000/f00001")),
            Self::StatMissing => names::stat_missing(&at.join("d000")),
            Self::Create => names::create(&at.join("created")),
            Self::RemoveAll => tools::remove_all(&at.join("unpacked")),
            Self::Rename => names::rename(at),
            Self::UnlinkRenamed => names::unlink(at, 'r'),
            Self::Unlink => names::unlink(at, 'f'),
            Self::Read => content::read(&at.join("large")),
            Self::ReadRandomly => content::read_randomly(&at.join("large")),
            Self::ReadMapped => content::read_mapped(&at.join("large")),
            Self::Write => content::write(&at.join("written"), 1 << 20, 1024, true),
            Self::WriteSmall => content::write(&at.join("small"), 4096, 16384, false),
            Self::WriteMapped => content::write_mapped(&at.join("mapped")),
            Self::WriteRandomly => content::write_randomly(&at.join("large")),
            Self::Poke => content::poke(&at.join("large")),
            Self::Status => tools::status(at),
            Self::Search => tools::search(at),
            Self::Unpack => tools::unpack(archive, &at.join("unpacked")),
            Self::SqliteDelete => tools::sqlite(&at.join("delete.db"), "delete"),
            Self::SqliteWal => tools::sqlite(&at.join("wal.db"), "wal"),
            Self::Make => tools::make(at),
            Self::Cargo => tools::cargo(at),
            Self::GitRead => tools::git_read(at),
            Self::GitCommit => tools::git_commit(at),
        }
    }
}

/// Lets a child do `work` in the folder `at`, as `person` unless that is root.
pub(crate) fn in_child(
    work: Work,
    at: &Path,
    corpus: &Corpus,
    person: impl Into<Option<Person>>,
) -> Outcome<Done> {
    let mut command = Command::new("timeout");
    command
        .args(["-k", "5", LIMIT])
        .arg(std::env::current_exe()?)
        .args(["work", &work.name()])
        .arg(at)
        .arg(corpus.archive())
        .env("HOME", corpus.home())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    if let Some(person) = person.into() {
        person.takes(&mut command);
    }
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("{} ended with {}", work.name(), output.status).into());
    }
    let text = String::from_utf8(output.stdout)?;
    let (nanoseconds, sum) = text
        .trim()
        .split_once(' ')
        .ok_or("the child said nothing")?;
    Ok(Done {
        nanoseconds: nanoseconds.parse()?,
        sum: sum.parse()?,
    })
}

/// The child's side: does one piece of work and prints its time in nanoseconds and its sum.
pub(crate) fn child(arguments: &[String]) -> Outcome<()> {
    let [_, name, at, archive] = arguments else {
        return Err("usage: aegis-benches work NAME FOLDER ARCHIVE".into());
    };
    let work = Work::ALL.into_iter().find(|work| work.name() == *name);
    let work = work.ok_or_else(|| format!("there is no work `{name}`"))?;
    let started = Instant::now();
    let sum = work.carry_out(Path::new(at), Path::new(archive))?;
    println!("{} {sum}", started.elapsed().as_nanos());
    Ok(())
}
