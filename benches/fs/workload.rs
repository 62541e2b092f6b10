//! What is measured: pieces of work in the order in which they are done on one fresh mount.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::corpus::{Corpus, Tree};
use crate::pairs::{Pairs, Unit};
use crate::target::Target;
use crate::work::{self, Work};
use crate::{Outcome, note};

/// Steps that follow one another on one mount.
pub(crate) struct Workload {
    /// The name on the command line.
    pub(crate) name: &'static str,
    tree: Tree,
    /// Whether it changes the tree, so that the native side needs a copy.
    changes: bool,
    steps: &'static [Step],
}

/// A piece of work and the rows it gives.
struct Step {
    row: &'static str,
    work: Work,
    /// The row for what it allocated on the disk, where that is asked for.
    allocated: Option<&'static str>,
    /// The row for the server's memory after it, where that is asked for.
    memory: Option<&'static str>,
}

impl Step {
    const fn new(row: &'static str, work: Work) -> Self {
        Self {
            row,
            work,
            allocated: None,
            memory: None,
        }
    }

    const fn allocating(row: &'static str, work: Work, allocated: &'static str) -> Self {
        Self {
            allocated: Some(allocated),
            ..Self::new(row, work)
        }
    }
}

impl Workload {
    pub(crate) const ALL: &'static [Self] = &[
        Self {
            name: "walk",
            tree: Tree::Repository,
            changes: false,
            steps: &[
                Step {
                    memory: Some("memory of the server after the walk"),
                    ..Step::new("recursive stat, first time", Work::Walk)
                },
                Step::new("recursive stat, again", Work::Walk),
            ],
        },
        Self {
            name: "status",
            tree: Tree::Repository,
            changes: false,
            steps: &[
                Step::new("git status, first time", Work::Status),
                Step::new("git status, again", Work::Status),
            ],
        },
        Self {
            name: "search",
            tree: Tree::Repository,
            changes: false,
            steps: &[
                Step::new("search of all files, first time", Work::Search),
                Step::allocating(
                    "search of all files, again",
                    Work::Search,
                    "disk for reading all files",
                ),
            ],
        },
        Self {
            name: "read",
            tree: Tree::Large,
            changes: false,
            steps: &[
                Step::new("sequential read of 1 GiB, first time", Work::Read),
                Step::new("sequential read of 1 GiB, again", Work::Read),
                Step::new("random reads of 4 KiB", Work::ReadRandomly),
                Step::new("mmap read of 256 MiB", Work::ReadMapped),
            ],
        },
        Self {
            name: "open",
            tree: Tree::Flat,
            changes: false,
            steps: &[
                Step::new("open and close", Work::OpenClose),
                Step::new("stat of one file", Work::StatOne),
                Step::new("stat of missing names", Work::StatMissing),
            ],
        },
        Self {
            name: "create",
            tree: Tree::Empty,
            changes: true,
            steps: &[
                Step::new("10,000 new files", Work::Create),
                Step::new("untar of 20,000 files", Work::Unpack),
                Step::new("rm -rf of 20,000 files", Work::RemoveAll),
            ],
        },
        Self {
            name: "write",
            tree: Tree::Empty,
            changes: true,
            steps: &[
                Step::new("sequential write of 1 GiB, fsync", Work::Write),
                Step::new("writes of 4 KiB, 64 MiB", Work::WriteSmall),
                Step::new("mmap write of 128 MiB, msync", Work::WriteMapped),
            ],
        },
        Self {
            name: "sqlite",
            tree: Tree::Empty,
            changes: true,
            steps: &[
                Step::new("SQLite, 300 inserts, rollback journal", Work::SqliteDelete),
                Step::new("SQLite, 300 inserts, WAL", Work::SqliteWal),
            ],
        },
        Self {
            name: "poke",
            tree: Tree::Large,
            changes: true,
            steps: &[
                Step::allocating(
                    "one byte into a lower file of 1 GiB",
                    Work::Poke,
                    "disk for one byte into 1 GiB",
                ),
                Step::new("random writes of 4 KiB after it", Work::WriteRandomly),
            ],
        },
        Self {
            name: "rename",
            tree: Tree::Flat,
            changes: true,
            steps: &[
                Step::new("rename of 10,000 lower files", Work::Rename),
                Step::new("unlink of 10,000 renamed files", Work::UnlinkRenamed),
            ],
        },
        Self {
            name: "unlink",
            tree: Tree::Flat,
            changes: true,
            steps: &[Step::new("unlink of 10,000 lower files", Work::Unlink)],
        },
        Self {
            name: "build",
            tree: Tree::Program,
            changes: true,
            steps: &[
                Step::new("build of a C program", Work::Make),
                Step::new("build with nothing to do", Work::Make),
            ],
        },
        Self {
            name: "cargo",
            tree: Tree::Package,
            changes: true,
            steps: &[Step::new("build of a Rust program", Work::Cargo)],
        },
        Self {
            name: "packed",
            tree: Tree::Packed,
            changes: true,
            steps: &[
                Step::allocating(
                    "reading commands of git",
                    Work::GitRead,
                    "disk for reading commands of git",
                ),
                Step::allocating(
                    "edit, add, commit in a packed repository",
                    Work::GitCommit,
                    "disk for edit, add, commit",
                ),
            ],
        },
    ];

    /// The rows, each with one set of pairs per target.
    pub(crate) fn rows(
        &self,
        targets: &[Target],
        corpus: &Corpus,
        rounds: usize,
    ) -> Vec<(&'static str, Vec<Pairs>)> {
        let mut rows: Vec<(&str, Vec<Pairs>)> = self
            .row_names()
            .map(|(row, unit)| (row, vec![Pairs::new(unit); targets.len()]))
            .collect();
        for _ in 0..rounds {
            for (index, target) in targets.iter().enumerate() {
                let mut add = |row: &str, native: u64, measured: u64| {
                    let found = rows.iter_mut().find(|(name, _)| *name == row);
                    if let Some(pairs) = found.and_then(|(_, pairs)| pairs.get_mut(index)) {
                        pairs.add(native, measured);
                    }
                };
                if let Err(error) = self.round(*target, corpus, &mut add) {
                    note(&format!("{} on {}: {error}", self.name, target.name()));
                }
            }
        }
        rows
    }

    fn row_names(&self) -> impl Iterator<Item = (&'static str, Unit)> {
        self.steps.iter().flat_map(|step| {
            let time = Some((step.row, Unit::Time));
            let disk = step.allocated.map(|row| (row, Unit::Bytes));
            let memory = step.memory.map(|row| (row, Unit::Bytes));
            [time, disk, memory].into_iter().flatten()
        })
    }

    /// Does the steps once, each on the native file system and then on the target.
    fn round(
        &self,
        target: Target,
        corpus: &Corpus,
        add: &mut dyn FnMut(&str, u64, u64),
    ) -> Outcome<()> {
        let scratch = corpus.scratch()?;
        let lower = corpus.tree(self.tree);
        let native = if self.changes {
            copy(corpus, &lower, &scratch)?
        } else {
            lower.clone()
        };
        settle()?;
        let mounted = target.mount(corpus, &lower, &scratch)?;
        for step in self.steps {
            let before = mounted.allocated()?;
            let reference = work::in_child(step.work, &native, corpus, corpus.person())?;
            let measured =
                work::in_child(step.work, mounted.path(), corpus, target.person(corpus))?;
            if reference.sum != measured.sum {
                return Err(format!("`{}` gave another result than natively", step.row).into());
            }
            add(step.row, reference.nanoseconds, measured.nanoseconds);
            if let Some(row) = step.allocated {
                settle()?;
                add(row, 0, mounted.allocated()?.saturating_sub(before));
            }
            if let (Some(row), Some(bytes)) = (step.memory, mounted.memory()) {
                add(row, 0, bytes);
            }
        }
        drop(mounted);
        Ok(fs::remove_dir_all(scratch)?)
    }
}

/// A copy on the same disk for the native side to change.
fn copy(corpus: &Corpus, tree: &Path, scratch: &Path) -> Outcome<PathBuf> {
    let native = scratch.join("native");
    let mut command = Command::new("cp");
    command.arg("-a").arg(tree).arg(&native);
    let status = corpus.person().takes(&mut command).status()?;
    if status.success() {
        Ok(native)
    } else {
        Err(format!("the tree can not be copied: {status}").into())
    }
}

/// Lets what was written before reach the disk, so that it is not billed to what follows.
fn settle() -> Outcome<()> {
    let status = Command::new("sync").status()?;
    if status.success() {
        Ok(())
    } else {
        Err("sync failed".into())
    }
}
