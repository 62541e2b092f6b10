//! The trees that are measured on; made once, as the person who works, and kept in a cache.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::person::Person;
use crate::{Outcome, note};

const WORDS: [&str; 16] = [
    "return", "struct", "match", "while", "inode", "cache", "commit", "branch", "error", "result",
    "option", "vector", "string", "buffer", "policy", "kernel",
];

/// Sources of the builds that are measured.
const UNITS: usize = 120;

/// A tree that a file system is laid over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tree {
    /// A git repository of many small files.
    Repository,
    /// One file of 1 GiB.
    Large,
    /// 10,000 files in 100 folders.
    Flat,
    /// Nothing.
    Empty,
    /// A C program.
    Program,
    /// A Rust program.
    Package,
    /// A repository whose history is large and whose tree is small.
    Packed,
}

/// All of them, and an archive.
pub(crate) struct Corpus {
    root: PathBuf,
    files: usize,
    person: Person,
}

impl Corpus {
    /// The corpus with this many source files; made when it is not there yet.
    pub(crate) fn ready(files: usize) -> Outcome<Self> {
        let base = std::env::var_os("AEGIS_BENCH_DIR")
            .map_or_else(|| PathBuf::from("/var/tmp/aegis-benches"), PathBuf::from);
        let corpus = Self {
            root: base.join(format!("v2-{files}")),
            files,
            person: Person::ordinary()?,
        };
        if !corpus.root.join("complete").exists() {
            corpus.make_anew()?;
        }
        Ok(corpus)
    }

    /// A tree that file systems are laid over.
    pub(crate) fn tree(&self, tree: Tree) -> PathBuf {
        self.root.join(format!("{tree:?}").to_lowercase())
    }

    /// An archive of 20,000 files.
    pub(crate) fn archive(&self) -> PathBuf {
        self.root.join("archive.tar")
    }

    /// An empty home for the tools that are run.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// A fresh folder beside the trees, on the same file system.
    pub(crate) fn scratch(&self) -> Outcome<PathBuf> {
        let scratch = self.root.join(format!("scratch-{}", std::process::id()));
        if scratch.exists() {
            fs::remove_dir_all(&scratch)?;
        }
        fs::create_dir_all(&scratch)?;
        self.person.owns(&scratch)?;
        Ok(scratch)
    }

    /// How many source files the repository holds.
    pub(crate) const fn files(&self) -> usize {
        self.files
    }

    /// Who works.
    pub(crate) const fn person(&self) -> Person {
        self.person
    }

    /// The size of the large file, in bytes.
    pub(crate) const fn large(&self) -> usize {
        if self.is_whole() { 1 << 30 } else { 32 << 20 }
    }

    const fn is_whole(&self) -> bool {
        self.files >= 100_000
    }

    /// Makes everything in a child that runs as the person who works.
    fn make_anew(&self) -> Outcome<()> {
        note(&format!(
            "making {} files in {}",
            self.files,
            self.root.display()
        ));
        if self.root.exists() {
            fs::remove_dir_all(&self.root)?;
        }
        fs::create_dir_all(&self.root)?;
        self.person.owns(&self.root)?;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["corpus", &self.files.to_string()])
            .arg(&self.root)
            .env("HOME", &self.root);
        let status = self.person.takes(&mut command).status()?;
        if status.success() {
            Ok(fs::write(self.root.join("complete"), "")?)
        } else {
            Err(format!("the corpus can not be made: {status}").into())
        }
    }

    fn make(&self) -> Outcome<()> {
        fs::create_dir_all(self.home())?;
        fs::create_dir_all(self.tree(Tree::Empty))?;
        self.make_repository()?;
        self.make_large()?;
        self.make_flat()?;
        make_program(&self.tree(Tree::Program))?;
        make_package(&self.tree(Tree::Package))?;
        self.make_packed()?;
        self.make_archive()
    }

    fn make_repository(&self) -> Outcome<()> {
        let at = self.tree(Tree::Repository);
        for number in 0..self.files {
            let folder = at.join(format!("m{:02}/s{:02}", number / 5000, number / 100 % 50));
            if number % 100 == 0 {
                fs::create_dir_all(&folder)?;
            }
            fs::write(folder.join(format!("file{number:06}.rs")), source(number))?;
        }
        commit_all(&at)
    }

    fn make_large(&self) -> Outcome<()> {
        let at = self.tree(Tree::Large);
        fs::create_dir_all(&at)?;
        let mut file = File::create(at.join("large"))?;
        let mut block = vec![0x5a; 1 << 20];
        for number in 0..self.large() >> 20 {
            block.splice(..8, (number as u64).to_le_bytes());
            file.write_all(&block)?;
        }
        Ok(())
    }

    fn make_flat(&self) -> Outcome<()> {
        for number in 0..10_000 {
            let folder = self.tree(Tree::Flat).join(format!("d{:03}", number / 100));
            if number % 100 == 0 {
                fs::create_dir_all(&folder)?;
            }
            fs::write(
                folder.join(format!("f{number:05}")),
                "x".repeat(number % 3000 + 1),
            )?;
        }
        Ok(())
    }

    /// Half a gigabyte of history that does not compress, under a tree of 500 small files.
    fn make_packed(&self) -> Outcome<()> {
        let at = self.tree(Tree::Packed);
        fs::create_dir_all(at.join("src"))?;
        fs::create_dir_all(at.join("binary"))?;
        let mut noise = Noise(7);
        for number in 0..if self.is_whole() { 500 } else { 20 } {
            fs::write(
                at.join(format!("binary/b{number:03}")),
                noise.bytes(1 << 20),
            )?;
        }
        for number in 0..500 {
            fs::write(at.join(format!("src/s{number:03}")), source(number))?;
        }
        commit_all(&at)?;
        git(&at, &["rm", "-rq", "binary"])?;
        git(&at, &["commit", "-q", "-m", "small"])?;
        git(&at, &["repack", "-adq"])
    }

    fn make_archive(&self) -> Outcome<()> {
        let at = self.root.join("archive");
        for number in 0..20_000 {
            let folder = at.join(format!("a{:02}/b{}", number / 1000, number / 100 % 10));
            if number % 100 == 0 {
                fs::create_dir_all(&folder)?;
            }
            fs::write(folder.join(format!("f{number:05}.c")), source(number))?;
        }
        let mut command = Command::new("tar");
        command
            .arg("-cf")
            .arg(self.archive())
            .arg("-C")
            .arg(&at)
            .arg(".");
        if !command.status()?.success() {
            return Err("the archive can not be made".into());
        }
        Ok(fs::remove_dir_all(at)?)
    }
}

/// The child's side of [`Corpus::make_anew`].
pub(crate) fn child(arguments: &[String]) -> Outcome<()> {
    let [_, files, root] = arguments else {
        return Err("usage: aegis-benches corpus FILES FOLDER".into());
    };
    let corpus = Corpus {
        root: root.into(),
        files: files.parse()?,
        person: Person::ordinary()?,
    };
    corpus.make()
}

/// Bytes that do not compress, the same on every machine.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 24
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let words = std::iter::repeat_with(|| self.next().to_le_bytes());
        words
            .flat_map(|word| word.into_iter().take(4))
            .take(count)
            .collect()
    }
}

/// Text without chance: between 0.3 and 3 KiB, the same on every machine.
fn source(number: usize) -> String {
    let mut noise = Noise(number as u64 + 1);
    let mut next = || usize::try_from(noise.next()).unwrap_or(0);
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

fn make_package(folder: &Path) -> Outcome<()> {
    fs::create_dir_all(folder.join("src"))?;
    let manifest = "[package]\nname = \"measured\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
    fs::write(folder.join("Cargo.toml"), manifest)?;
    let mut main = String::new();
    for unit in 0..UNITS {
        let code = format!(
            "pub fn unit{unit}(x: u64) -> Vec<String> {{\n    \
             (0..x).map(|i| format!(\"{{}} {unit}\", i * {unit})).filter(|s| s.len() % 3 == 0).collect()\n}}\n"
        );
        fs::write(folder.join(format!("src/unit{unit}.rs")), code)?;
        main.push_str(&format!("mod unit{unit};\n"));
    }
    let calls: Vec<String> = (0..UNITS)
        .map(|unit| format!("unit{unit}::unit{unit}(9).len()"))
        .collect();
    main.push_str(&format!(
        "fn main() {{\n    println!(\"{{}}\", {});\n}}\n",
        calls.join(" + ")
    ));
    Ok(fs::write(folder.join("src/main.rs"), main)?)
}

fn commit_all(at: &Path) -> Outcome<()> {
    git(at, &["init", "-q", "-b", "main"])?;
    git(at, &["add", "-A"])?;
    git(at, &["commit", "-q", "-m", "all"])
}

fn git(project: &Path, arguments: &[&str]) -> Outcome<()> {
    let status = Command::new("git")
        .args([
            "-c",
            "user.name=bench",
            "-c",
            "user.email=bench@example.org",
        ])
        .args(["-c", "gc.auto=0", "-c", "core.hooksPath=/dev/null"])
        .args(arguments)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .current_dir(project)
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("git {arguments:?}: {status}").into())
    }
}
