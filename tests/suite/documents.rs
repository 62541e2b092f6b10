//! What docs/SEMANTICS.md claims is held by tests that exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where tests are, and the module path that a file of each begins with.
const SOURCES: [&str; 4] = ["aegisfs", "policies", "launcher", "tests"];

/// A test has been renamed or removed when this fails: the claim needs another, or goes.
#[test]
fn every_claim_names_tests_that_exist() {
    let tests = tests();
    assert!(tests.len() > 300, "{} tests found", tests.len());
    let text = std::fs::read_to_string(root().join("docs/SEMANTICS.md")).unwrap();
    let mut known = 0;
    for name in text.lines().flat_map(cited) {
        assert!(exists(&tests, name), "`{name}` is not a test");
        known += 1;
    }
    assert!(known > 50, "{known} tests named");
}

/// What a claim names beside tests: files and folders of the sources, and targets of make.
#[test]
fn every_claim_names_files_that_exist() {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).unwrap();
    let (text, targets) = (read("docs/SEMANTICS.md"), read("Makefile"));
    let spans = text
        .lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    let mut known = 0;
    for span in spans {
        if let Some(target) = span.strip_prefix("make ") {
            assert!(targets.contains(&format!("\n{target}:")), "`{span}`");
            known += 1;
        } else if is_source(span) {
            assert!(root().join(span).exists(), "`{span}` does not exist");
            known += 1;
        }
    }
    assert!(known > 3, "{known} files named");
}

fn is_source(span: &str) -> bool {
    let folder = span.split_once('/').map(|(folder, _)| folder);
    let known = ["docs", "benches", ".ci"].iter().chain(&SOURCES);
    folder.is_some_and(|folder| known.into_iter().any(|known| *known == folder))
}

/// The names that a line cites: those in the last column of a table, and, elsewhere, those that are
/// paths.
fn cited(line: &str) -> Vec<&str> {
    let row = line.starts_with('|');
    let held_by = line.trim_end_matches([' ', '|']).rsplit('|').next();
    let text = if row { held_by.unwrap_or("") } else { line };
    let spans = text.split('`').skip(1).step_by(2);
    spans
        .filter(|span| span.contains("::") || (row && is_test_path(span)))
        .filter(|span| row || is_test_path(span))
        .collect()
}

/// Lower-case names joined by `::`. File names, types and words of another kind are not.
fn is_test_path(span: &str) -> bool {
    const WORDS: [&str; 2] = ["fingerprint", "fuser"];
    let name = |part: &str| {
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        !part.is_empty() && part.bytes().all(letter)
    };
    !WORDS.contains(&span) && span.split("::").all(name)
}

/// A test by the end of its path, or a module that holds some.
fn exists(tests: &BTreeSet<String>, name: &str) -> bool {
    let (inner, outer) = (format!("::{name}::"), format!("::{name}"));
    tests
        .iter()
        .any(|test| test.contains(&inner) || test.ends_with(&outer))
}

/// The full path of every test, such as `::aegisfs::overlay::crash::git_survives_a_kill`.
fn tests() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for folder in SOURCES {
        for file in files(&root().join(folder)) {
            let text = std::fs::read_to_string(&file).unwrap();
            let module = module(&file);
            for name in named_tests(&text) {
                found.insert(format!("::{module}::{name}"));
            }
        }
    }
    found
}

/// The functions of a file that follow `#[test]` and are run; those in its module `tests` by that name.
fn named_tests(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside = String::new();
    let (mut is_test, mut is_ignored) = (false, false);
    for line in text.lines() {
        let bare = line.trim();
        if bare == "mod tests {" {
            inside = "tests::".to_owned();
        }
        is_test |= bare == "#[test]";
        is_ignored |= bare.starts_with("#[ignore");
        let Some(rest) = bare.strip_prefix("fn ") else {
            continue;
        };
        if is_test && !is_ignored {
            let name = rest.split('(').next().unwrap_or("");
            found.push(format!("{inside}{name}"));
        }
        (is_test, is_ignored) = (false, false);
    }
    found
}

fn module(file: &Path) -> String {
    let path = file.strip_prefix(root()).unwrap().with_extension("");
    let parts = path.iter().map(|part| part.to_string_lossy());
    let parts: Vec<_> = parts
        .filter(|part| part != "mod" && part != "src")
        .collect();
    parts.join("::")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}
