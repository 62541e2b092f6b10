//! Programs that must find the same in a plain directory and on a mount: over files of the host, new
//! ones, and ones that are written to.

use std::fmt::Debug;
use std::fs;
use std::path::Path;
use std::process::Command;

use aegisfs::fuse::Transport;

use super::super::bed::{Bed, furnish, options};
use super::super::tree::dump;

const COMMON: &str = include_str!("common.py");

/// Those that an ordinary user can run as well.
pub const PROGRAMS: &[(&str, &str)] = &[
    ("content", include_str!("content.py")),
    ("folders", include_str!("folders.py")),
    ("locks", include_str!("locks.py")),
    ("nameless", include_str!("nameless.py")),
    ("names", include_str!("names.py")),
    ("opens", include_str!("opens.py")),
    ("special", include_str!("special.py")),
    ("xattrs", include_str!("xattrs.py")),
];

#[test]
fn bytes_holes_and_ranges() {
    same("content");
}

#[test]
fn directories_and_their_offsets() {
    same("folders");
}

#[test]
fn locks_between_processes() {
    same("locks");
}

#[test]
fn files_without_a_name() {
    // fuser 0.18 does not know of them.
    if options().transport != Transport::Fuser {
        same("nameless");
    }
}

#[test]
fn names_links_and_renames() {
    same("names");
}

#[test]
fn opening_appending_and_mapping() {
    same("opens");
}

#[test]
fn pipes_and_sockets() {
    same("special");
}

#[test]
fn user_attributes() {
    same("xattrs");
}

#[test]
fn times() {
    find_the_same(include_str!("times.py"));
}

#[test]
fn access_control_lists() {
    find_the_same(include_str!("acl.py"));
}

fn same(name: &str) {
    let program = PROGRAMS.iter().find(|(known, _)| *known == name);
    find_the_same(program.unwrap().1);
}

/// Runs a program in both, prepared the same way, and compares what it prints and leaves behind.
fn find_the_same(program: &str) {
    let mut bed = Bed::furnished();
    let plain = bed.root().join("plain");
    fs::create_dir(&plain).unwrap();
    furnish(&plain);
    if program.contains("prepare") {
        for directory in [&plain, &bed.project()] {
            run_in(directory, program, &["prepare"]);
        }
    }
    let expected = run_in(&plain, program, &[]);
    let found = run_in(&bed.mount(), program, &[]);
    assert!(expected.lines().count() > 10, "{expected}");
    compare(found.lines(), expected.lines());
    bed.remount();
    compare(dump(&bed.mnt()).iter(), dump(&plain).iter());
}

/// What a program prints in a directory.
pub fn run_in(directory: &Path, program: &str, arguments: &[&str]) -> String {
    let text = format!("{COMMON}\n\n{program}");
    let output = Command::new("python3")
        .args(["-c", &text])
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "in {directory:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// One by one, so that a difference is seen among hundreds.
fn compare<T: Debug + PartialEq>(
    found: impl Iterator<Item = T>,
    expected: impl Iterator<Item = T>,
) {
    let (found, expected): (Vec<_>, Vec<_>) = (found.collect(), expected.collect());
    for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found, expected, "number {number}");
    }
    assert_eq!(found.len(), expected.len());
}
