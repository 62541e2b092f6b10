//! What is measured on every file system. Each measurement runs in a child process with a limit, so
//! that a file system that hangs costs one cell of the table and not the run.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::corpus::Corpus;
use crate::pairs::Pairs;
use crate::target::Target;
use crate::{Outcome, note};

/// Seconds that one measurement may take.
const LIMIT: &str = "300";
const SMALL_FILES: usize = 10_000;
const BLOCK: usize = 1 << 20;

/// A kind of work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Status,
    Stat,
    Search,
    Read,
    Write,
    Create,
    Build,
}

impl Operation {
    pub(crate) const ALL: [Self; 7] = [
        Self::Status,
        Self::Stat,
        Self::Search,
        Self::Read,
        Self::Write,
        Self::Create,
        Self::Build,
    ];

    /// The name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Stat => "stat",
            Self::Search => "search",
            Self::Read => "read",
            Self::Write => "write",
            Self::Create => "create",
            Self::Build => "build",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Status => "git status",
            Self::Stat => "recursive stat",
            Self::Search => "search (grep -r)",
            Self::Read => "sequential read",
            Self::Write => "sequential write",
            Self::Create => "10,000 new files",
            Self::Build => "build of a C program",
        }
    }

    /// Whether a second time on the same mount says something else than the first.
    const fn has_warm(self) -> bool {
        matches!(self, Self::Status | Self::Stat | Self::Search | Self::Read)
    }

    /// Whether it changes the tree, so that the native side needs a copy.
    const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Create | Self::Build)
    }

    fn carry_out(self, root: &Path) -> Outcome<Duration> {
        let started = Instant::now();
        match self {
            Self::Status => quiet(
                Command::new("git")
                    .args(["--no-optional-locks", "-c", "safe.directory=*", "-c"])
                    .args(["core.fsmonitor=false", "status", "--porcelain"])
                    .current_dir(root),
            )?,
            Self::Stat => drop(stat(root)?),
            Self::Search => quiet(
                Command::new("grep")
                    .args([
                        "-rlF",
                        "--exclude-dir=.git",
                        "--exclude=large.bin",
                        "NEEDLE",
                    ])
                    .current_dir(root),
            )?,
            Self::Read => read(&root.join("large.bin"))?,
            Self::Write => write(&root.join("written.bin"), &root.join("large.bin"))?,
            Self::Create => create(&root.join("created"))?,
            Self::Build => {
                quiet(
                    Command::new("make")
                        .arg("-s")
                        .current_dir(root.join("program")),
                )?;
            }
        }
        Ok(started.elapsed())
    }
}

/// The rows of an operation: the first time on a fresh mount, and again where that differs.
pub(crate) fn rows(
    operation: Operation,
    targets: &[Target],
    corpus: &Corpus,
    rounds: usize,
) -> Vec<(String, Vec<Pairs>)> {
    note(operation.title());
    let mut cold = vec![Pairs::default(); targets.len()];
    let mut warm = cold.clone();
    for _ in 0..rounds {
        for ((target, cold), warm) in targets.iter().zip(&mut cold).zip(&mut warm) {
            if let Err(error) = pair(operation, *target, corpus, cold, warm) {
                note(&format!(
                    "{} on {}: {error}",
                    operation.title(),
                    target.name()
                ));
            }
        }
    }
    if operation.has_warm() {
        let title = operation.title();
        vec![
            (format!("{title}, first time"), cold),
            (format!("{title}, again"), warm),
        ]
    } else {
        vec![(operation.title().to_owned(), cold)]
    }
}

fn pair(
    operation: Operation,
    target: Target,
    corpus: &Corpus,
    cold: &mut Pairs,
    warm: &mut Pairs,
) -> Outcome<()> {
    let scratch = corpus.scratch()?;
    let native = if operation.writes() {
        native_copy(corpus, &scratch)?
    } else {
        corpus.project()
    };
    let mounted = target.mount(&corpus.project(), &scratch)?;
    cold.add(
        in_child(operation, &native)?,
        in_child(operation, mounted.path())?,
    );
    if operation.has_warm() {
        warm.add(
            in_child(operation, &native)?,
            in_child(operation, mounted.path())?,
        );
    }
    drop(mounted);
    Ok(fs::remove_dir_all(scratch)?)
}

/// What the writing operations need of the project, on the same disk.
fn native_copy(corpus: &Corpus, scratch: &Path) -> Outcome<std::path::PathBuf> {
    let native = scratch.join("native");
    fs::create_dir_all(native.join("program"))?;
    for entry in fs::read_dir(corpus.project().join("program"))? {
        let entry = entry?;
        fs::copy(entry.path(), native.join("program").join(entry.file_name()))?;
    }
    std::os::unix::fs::symlink(corpus.project().join("large.bin"), native.join("large.bin"))?;
    Ok(native)
}

fn in_child(operation: Operation, root: &Path) -> Outcome<Duration> {
    let output = Command::new("timeout")
        .args(["-k", "5", LIMIT])
        .arg(std::env::current_exe()?)
        .args(["operation", operation.name()])
        .arg(root)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("{} ended with {}", operation.name(), output.status).into());
    }
    Ok(Duration::from_nanos(
        String::from_utf8(output.stdout)?.trim().parse()?,
    ))
}

/// The child's side: carries out one operation and prints how long it took, in nanoseconds.
pub(crate) fn child(arguments: &[String]) -> Outcome<()> {
    let [_, name, root] = arguments else {
        return Err("usage: aegis-benches operation NAME FOLDER".into());
    };
    let operation = Operation::ALL
        .into_iter()
        .find(|operation| operation.name() == name);
    let operation = operation.ok_or_else(|| format!("there is no operation `{name}`"))?;
    println!("{}", operation.carry_out(Path::new(root))?.as_nanos());
    Ok(())
}

fn quiet(command: &mut Command) -> Outcome<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
    }
}

fn stat(folder: &Path) -> Outcome<u64> {
    let mut seen = 0;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let facts = fs::symlink_metadata(&path)?;
        seen += 1;
        if facts.is_dir() {
            seen += stat(&path)?;
        }
    }
    Ok(seen)
}

fn read(path: &Path) -> Outcome<()> {
    let mut file = File::open(path)?;
    let mut block = vec![0; BLOCK];
    while file.read(&mut block)? > 0 {}
    Ok(())
}

/// Writes a file as large as `like`.
fn write(path: &Path, like: &Path) -> Outcome<()> {
    let blocks = fs::metadata(like)?.len() / BLOCK as u64;
    let block = vec![0x33; BLOCK];
    let mut file = File::create(path)?;
    for _ in 0..blocks {
        file.write_all(&block)?;
    }
    Ok(())
}

fn create(folder: &Path) -> Outcome<()> {
    for number in 0..SMALL_FILES {
        let inside = folder.join((number / 100).to_string());
        if number % 100 == 0 {
            fs::create_dir_all(&inside)?;
        }
        fs::write(inside.join(format!("f{number}")), "a small file\n")?;
    }
    Ok(())
}
