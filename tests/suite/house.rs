//! The rules that the sources themselves have to keep.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every crate of the workspace and the crates of the workspace that it may know.
const MAY_KNOW: [(&str, &[&str]); 7] = [
    ("aegis-policies", &[]),
    ("aegis-gitshim", &[]),
    ("aegisfs", &["aegis-policies"]),
    ("aegis-egress", &["aegis-policies"]),
    (
        "aegis-launcher",
        &["aegis-egress", "aegis-gitshim", "aegis-policies", "aegisfs"],
    ),
    ("aegis-tests", &[]),
    ("aegis-benches", &[]),
];

/// What the top level holds.
const TOP_LEVEL: [&str; 19] = [
    ".ci",
    ".config",
    ".gitignore",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "Makefile",
    "README.md",
    "aegisfs",
    "benches",
    "clippy.toml",
    "deny.toml",
    "docs",
    "egress",
    "gitshim",
    "launcher",
    "policies",
    "rustfmt.toml",
];

/// And the one folder that this file lies in.
const TESTS: &str = "tests";

const LONGEST_FILE: usize = 700;

#[test]
fn dependencies_point_one_way() {
    let mut expected: BTreeMap<String, BTreeSet<String>> = MAY_KNOW
        .iter()
        .map(|(name, known)| {
            (
                (*name).to_owned(),
                known.iter().map(ToString::to_string).collect(),
            )
        })
        .collect();
    for (name, known) in crate_graph() {
        let allowed = expected
            .remove(&name)
            .unwrap_or_else(|| panic!("`{name}` has no rule here"));
        let extra: Vec<_> = known.difference(&allowed).collect();
        assert!(extra.is_empty(), "`{name}` must not know {extra:?}");
    }
    assert!(
        expected.is_empty(),
        "these crates are gone: {:?}",
        expected.keys()
    );
}

/// What runs inside the sandbox is small enough to be read whole.
#[test]
fn the_shim_brings_nothing_along() {
    assert_eq!(packages()["aegis-gitshim"], BTreeSet::new());
}

#[test]
fn the_rooms_of_the_file_system_import_only_what_they_may() {
    let rooms = [
        ("commit", vec!["fuse", "guard"]),
        ("fuse", vec!["commit"]),
        ("guard", vec!["commit"]),
        ("merge", vec!["commit", "fuse", "guard", "overlay"]),
        ("overlay", vec!["commit", "fuse", "guard"]),
    ];
    let mut seen = BTreeSet::new();
    for file in sources() {
        let Ok(inside) = file.strip_prefix("aegisfs/src") else {
            continue;
        };
        let first = inside
            .components()
            .next()
            .unwrap()
            .as_os_str()
            .to_string_lossy();
        let room = first.trim_end_matches(".rs").to_owned();
        let Some((_, forbidden)) = rooms.iter().find(|(name, _)| *name == room) else {
            continue;
        };
        seen.insert(room);
        let code = code_of(&file);
        for other in forbidden {
            assert!(
                !imports(&code, other),
                "`{}` must not import `{other}`",
                file.display()
            );
        }
    }
    assert_eq!(seen.len(), rooms.len(), "only {seen:?} exist");
}

#[test]
fn imports_are_found_in_every_form() {
    for code in [
        "use crate::commit;",
        "use crate::commit::Plan;",
        "use crate::{overlay, commit::{Plan}};",
        "use super::super::commit::Plan;",
        "fn f(_: crate::commit::Plan) {}",
        "use aegisfs::commit::Plan;",
    ] {
        assert!(imports(code, "commit"), "{code}");
    }
    for code in [
        "use crate::committer::X;",
        "let commit = 1;",
        "self.commit();",
    ] {
        assert!(!imports(code, "commit"), "{code}");
    }
}

#[test]
fn the_top_level_holds_only_what_the_design_names() {
    let mut allowed: BTreeSet<&str> = TOP_LEVEL.into_iter().collect();
    allowed.insert(TESTS);
    for file in tracked() {
        let first = file
            .components()
            .next()
            .unwrap()
            .as_os_str()
            .to_string_lossy()
            .into_owned();
        assert!(
            allowed.contains(first.as_str()),
            "`{first}` has no place at the top level"
        );
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    for file in sources() {
        let text = read(&file);
        let first = text
            .lines()
            .find(|line| !line.trim().is_empty())
            .unwrap_or_default();
        assert!(
            first.starts_with("//!"),
            "`{}` has no header",
            file.display()
        );
    }
}

#[test]
fn no_source_file_is_a_whole_house() {
    for file in sources() {
        let lines = read(&file).lines().count();
        assert!(
            lines <= LONGEST_FILE,
            "`{}` has {lines} lines",
            file.display()
        );
    }
}

#[test]
fn unsafe_code_lives_in_sys_rooms() {
    let mut found = 0;
    for file in sources() {
        let uses = words(&code_of(&file)).any(|word| word == "unsafe");
        let in_sys = file
            .components()
            .any(|part| part.as_os_str() == "sys" || part.as_os_str() == "sys.rs");
        assert!(!uses || in_sys, "`{}` has unsafe code", file.display());
        found += usize::from(uses);
    }
    assert!(found > 0, "the search for unsafe code finds nothing at all");
}

/// Crate name to the workspace's crates that it depends on, of any kind (tests and builds too).
fn crate_graph() -> BTreeMap<String, BTreeSet<String>> {
    let packages = packages();
    let ours: BTreeSet<String> = packages.keys().cloned().collect();
    let only_ours = |known: BTreeSet<String>| known.intersection(&ours).cloned().collect();
    packages
        .into_iter()
        .map(|(name, known)| (name, only_ours(known)))
        .collect()
}

/// Every crate of the workspace with all that it depends on.
fn packages() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let name = |value: &serde_json::Value| value["name"].as_str().unwrap().to_owned();
    let known = |package: &serde_json::Value| {
        package["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .map(name)
            .collect()
    };
    let packages = metadata["packages"].as_array().unwrap();
    packages
        .iter()
        .map(|package| (name(package), known(package)))
        .collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

fn tracked() -> Vec<PathBuf> {
    // The clone may belong to another user than the one who tests.
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z"])
        .current_dir(root())
        .output()
        .unwrap();
    let files: Vec<PathBuf> = String::from_utf8(output.stdout)
        .unwrap()
        .split('\0')
        .filter(|name| !name.is_empty() && root().join(name).exists())
        .map(PathBuf::from)
        .collect();
    assert!(
        !files.is_empty(),
        "git lists no files: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    files
}

fn sources() -> Vec<PathBuf> {
    tracked()
        .into_iter()
        .filter(|file| file.extension().is_some_and(|kind| kind == "rs"))
        .collect()
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(root().join(file)).unwrap()
}

/// A file without its comment lines and its texts, which may name what the code may not use.
fn code_of(file: &Path) -> String {
    let text = read(file);
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines
        .flat_map(|line| line.split('"').step_by(2).chain(["\n"]))
        .collect()
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
}

/// Whether `code` reaches into the module `room`: by a path, or inside the braces of a `use`.
fn imports(code: &str, room: &str) -> bool {
    let squeezed: String = code.split_whitespace().collect::<Vec<_>>().join(" ");
    let in_path = ["crate", "super", "aegisfs"].iter().any(|start| {
        let path = format!("{start}::{room}");
        squeezed.match_indices(&path).any(|(at, _)| {
            let after = squeezed
                .get(at + path.len()..)
                .unwrap_or_default()
                .chars()
                .next();
            !after.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
        })
    });
    let in_use = squeezed
        .split(';')
        .filter_map(|statement| statement.rsplit_once("use "))
        .any(|(_, tree)| tree.contains('{') && words(tree).any(|word| word == room));
    in_path || in_use
}
