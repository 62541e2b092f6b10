//! The tree that is measured on; made once and kept in a cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Outcome, note};

const WORDS: [&str; 16] = [
    "return", "struct", "match", "while", "inode", "cache", "commit", "branch", "error", "result",
    "option", "vector", "string", "buffer", "policy", "kernel",
];

/// Sources of the build that is measured.
const UNITS: usize = 40;

/// A git repository with many files, a large file, and a C program.
pub(crate) struct Corpus {
    root: PathBuf,
    files: usize,
}

impl Corpus {
    /// The corpus with this many source files; made when it is not there yet.
    pub(crate) fn ready(files: usize) -> Outcome<Self> {
        let base = std::env::var_os("AEGIS_BENCH_DIR")
            .map_or_else(|| PathBuf::from("/var/tmp/aegis-benches"), PathBuf::from);
        let corpus = Self {
            root: base.join(files.to_string()),
            files,
        };
        if !corpus.root.join("complete").exists() {
            note(&format!(
                "making {files} files in {}",
                corpus.root.display()
            ));
            if corpus.root.exists() {
                fs::remove_dir_all(&corpus.root)?;
            }
            corpus.make()?;
            fs::write(corpus.root.join("complete"), "")?;
        }
        Ok(corpus)
    }

    /// The project that file systems are laid over.
    pub(crate) fn project(&self) -> PathBuf {
        self.root.join("project")
    }

    /// A fresh folder beside the project, on the same file system.
    pub(crate) fn scratch(&self) -> Outcome<PathBuf> {
        let scratch = self.root.join(format!("scratch-{}", std::process::id()));
        if scratch.exists() {
            fs::remove_dir_all(&scratch)?;
        }
        fs::create_dir_all(&scratch)?;
        Ok(scratch)
    }

    /// How many source files the repository holds.
    pub(crate) const fn files(&self) -> usize {
        self.files
    }

    fn make(&self) -> Outcome<()> {
        let project = self.project();
        for number in 0..self.files {
            let folder = project.join(format!("m{:02}/s{:02}", number / 5000, number / 100 % 50));
            if number % 100 == 0 {
                fs::create_dir_all(&folder)?;
            }
            fs::write(folder.join(format!("file{number:06}.rs")), source(number))?;
        }
        make_program(&project.join("program"))?;
        git(&project, &["init", "-q", "-b", "main"])?;
        git(&project, &["add", "-A"])?;
        git(&project, &["commit", "-q", "-m", "all"])?;
        // Not in the repository: a status would have to read it.
        fs::write(
            project.join(".git/info/exclude"),
            "large.bin\n*.o\nprogram/out\n",
        )?;
        Ok(fs::write(
            project.join("large.bin"),
            vec![0x5a; self.large()],
        )?)
    }

    /// The size of the large file, in bytes.
    pub(crate) const fn large(&self) -> usize {
        if self.files >= 100_000 {
            256 << 20
        } else {
            32 << 20
        }
    }
}

/// Text without chance: between 0.3 and 3 KiB, the same on every machine.
fn source(number: usize) -> String {
    let mut state = number as u64 + 1;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 40).unwrap_or(0)
    };
    let lines = 8 + next() % 64;
    let mut text = String::new();
    for line in 0..lines {
        for _ in 0..6 {
            text.push_str(WORDS.get(next() % WORDS.len()).unwrap_or(&"word"));
            text.push(' ');
        }
        text.push_str(&format!("{line}\n"));
    }
    if number % 1000 == 7 {
        text.push_str("NEEDLE\n");
    }
    text
}

fn make_program(folder: &Path) -> Outcome<()> {
    fs::create_dir_all(folder)?;
    let mut main = String::new();
    for unit in 0..UNITS {
        let function = format!("int unit{unit}(int x)");
        let body =
            "for (int i = 0; i < x; i++) { s += (s ^ i) * 31; if (s & 8) s -= x; }".repeat(12);
        let text =
            format!("#include <stdio.h>\n{function} {{ int s = {unit}; {body} return s; }}\n");
        fs::write(folder.join(format!("unit{unit}.c")), text)?;
        main.push_str(&format!("{function};\n"));
    }
    let sum: Vec<String> = (0..UNITS).map(|unit| format!("unit{unit}(3)")).collect();
    main.push_str(&format!(
        "int main(void) {{ return ({}) & 0; }}\n",
        sum.join(" + ")
    ));
    fs::write(folder.join("main.c"), main)?;
    let rule =
        "out: $(patsubst %.c,%.o,$(wildcard *.c))\n\tcc -o $@ $^\n%.o: %.c\n\tcc -O1 -c -o $@ $<\n";
    Ok(fs::write(folder.join("Makefile"), rule)?)
}

fn git(project: &Path, arguments: &[&str]) -> Outcome<()> {
    let status = Command::new("git")
        .args([
            "-c",
            "user.name=bench",
            "-c",
            "user.email=bench@example.org",
            "-c",
            "gc.auto=0",
        ])
        .args(arguments)
        .current_dir(project)
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("git {arguments:?}: {status}").into())
    }
}
