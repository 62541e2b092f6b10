//! A session whose record is damaged: every command names the damage, and what is left is saved.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use nix::sys::signal::Signal;

use crate::cli::world::{Ended, Person, World, send};

const WORK: &str = "mkdir made; echo one > made/one; chmod 750 made/one; ln -s one made/link; \
    mv kept moved; rm gone; sync; sleep 0.1; echo more >> folder/file; echo last > last";

const CHANGE: &str = "echo one > one; echo two > two; touch late; sleep 0.1; echo x >> one";

/// Everything in a folder, with times and content.
fn all(folder: &Path) -> Vec<(PathBuf, i64, i64, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(path) = waiting.pop() {
        let status = fs::symlink_metadata(&path).unwrap();
        let content = status.is_file().then(|| fs::read(&path).unwrap());
        if status.is_dir() {
            let names = fs::read_dir(&path).unwrap();
            waiting.extend(names.map(|entry| entry.unwrap().path()));
        }
        found.push((path, status.mtime(), status.ctime_nsec(), content));
    }
    found.sort();
    found
}

/// Damages the entry that makes the file of this name. The first entry holds the whole script.
fn damage(session: &Path, script: &str, name: &str) {
    let segment = session.join("journal/00000000.aej");
    let mut journal = fs::read(&segment).unwrap();
    let found = |at: &usize| journal[*at..].starts_with(name.as_bytes());
    let at = (0..journal.len())
        .filter(found)
        .nth(script.matches(name).count());
    let at = at.unwrap();
    journal[at] ^= 0x20;
    fs::write(&segment, journal).unwrap();
}

#[test]
fn what_lies_before_the_damage_is_saved() {
    for world in World::all() {
        world.run(WORK).ok();
        let session = world.sessions().remove(0);
        damage(&session, WORK, "last");
        let before = all(&session);
        let report = world.aegis(&["recover"]).ok().stdout;
        assert!(
            report.contains("00000000.aej` is damaged at byte "),
            "{report}"
        );
        assert!(
            report.contains("the frame does not continue the chain"),
            "{report}"
        );
        assert!(report.contains("saved    up to entry "), "{report}");
        let target = world.at("home/saved");
        let target = target.to_str().unwrap();
        let said = world.aegis(&["recover", "--into", target]).ok().stderr;
        assert!(
            said.contains("that the session removed or moved away"),
            "{said}"
        );
        let saved = |name: &str| fs::read_to_string(world.at("home/saved").join(name));
        assert_eq!(saved("made/one").unwrap(), "one\n");
        assert_eq!(saved("moved").unwrap(), "kept\n");
        assert_eq!(saved("folder/file").unwrap(), "file\nmore\n");
        assert!(saved("last").is_err() && saved("gone").is_err());
        let link = fs::read_link(world.at("home/saved/made/link")).unwrap();
        assert_eq!(link, Path::new("one"));
        let mode = fs::metadata(world.at("home/saved/made/one"))
            .unwrap()
            .mode();
        assert_eq!(mode & 0o7777, 0o750);
        assert_eq!(all(&session), before, "nothing was written to the session");
        let again = world.aegis(&["recover", "--into", target]);
        assert!(again.stderr.contains("it is not empty"), "{}", again.stderr);
    }
}

#[test]
fn content_is_told_that_is_newer_than_the_record_or_gone() {
    let world = World::of(Person::Ordinary);
    world.run(CHANGE).ok();
    let session = world.sessions().remove(0);
    damage(&session, CHANGE, "late");
    let content = fs::read_dir(session.join("content")).unwrap();
    let lost = content
        .map(|entry| entry.unwrap().path())
        .find(|path| fs::read(path).is_ok_and(|bytes| bytes == b"two\n"));
    fs::remove_file(lost.unwrap()).unwrap();
    let report = world.aegis(&["recover"]).ok().stdout;
    assert!(
        report.contains("newer    one: written to after"),
        "{report}"
    );
    assert!(report.contains("lost     two: "), "{report}");
    let target = world.at("home/saved");
    let into = world.aegis(&["recover", "--into", target.to_str().unwrap()]);
    assert_eq!(into.status, 1, "{}", into.stderr);
    assert!(into.stderr.contains("not saved  two: "), "{}", into.stderr);
    assert_eq!(fs::read_to_string(target.join("one")).unwrap(), "one\nx\n");
}

#[test]
fn what_is_left_is_mounted_and_can_not_be_changed() {
    for world in World::all() {
        world.run(WORK).ok();
        let session = world.sessions().remove(0);
        damage(&session, WORK, "last");
        let before = all(&session);
        let view = world.at("view");
        let id = world.only_session();
        let mut recover = world.command(&["recover", &id, view.to_str().unwrap()]);
        let mut child = recover
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        lines.read_line(&mut said).unwrap();
        assert!(said.contains("what is left is mounted on"), "{said}");
        let look = "set -e; cd \"$0\"; cat made/one moved folder/file; test ! -e last; \
            test ! -e gone; readlink made/link; ! touch new 2>/dev/null; ! rm moved 2>/dev/null; \
            ! sh -c 'echo x >> folder/file' 2>/dev/null";
        let mut sh = world.program(Path::new("/bin/sh"));
        let seen = Ended::of(sh.args(["-c", look]).arg(&view).output().unwrap()).ok();
        assert_eq!(seen.stdout, "one\nkept\nfile\nmore\none\n");
        send(child.id(), Signal::SIGINT);
        assert!(child.wait().unwrap().success());
        assert_eq!(all(&session), before, "nothing was written to the session");
        assert!(
            !world
                .at("home/.aegis")
                .join(format!("recover-{}", child.id()))
                .exists()
        );
    }
}

#[test]
fn the_persons_own_policy_is_in_force_for_what_is_left() {
    let world = World::of(Person::Ordinary);
    world.run(WORK).ok();
    let id = world.only_session();
    let view = world.at("view");
    let arguments = ["recover", &id, view.to_str().unwrap()];
    world.write("home/.aegis/policy.cedar", "permit (principal");
    world.aegis(&arguments).refused(&["policy.cedar"]);
    let policy = "@id(\"mine\") @reason(\"not read\") \
                  forbid (principal, action == Action::\"fs.read\", resource) \
                  when { resource.path == \"moved\" };";
    world.write("home/.aegis/policy.cedar", policy);
    let mut child = world
        .command(&arguments)
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    lines.read_line(&mut said).unwrap();
    assert!(said.contains("what is left is mounted on"), "{said}");
    let look = "cd \"$0\" && cat made/one && ! cat moved 2>/dev/null";
    let mut sh = world.program(Path::new("/bin/sh"));
    let seen = Ended::of(sh.args(["-c", look]).arg(&view).output().unwrap());
    send(child.id(), Signal::SIGINT);
    assert!(child.wait().unwrap().success());
    assert_eq!(seen.ok().stdout, "one\n");
}

#[test]
fn every_command_names_the_damage_and_what_to_do() {
    let world = World::of(Person::Ordinary);
    world.run(WORK).ok();
    let id = world.only_session();
    damage(&world.sessions()[0], WORK, "made");
    for arguments in [
        vec!["status"],
        vec!["diff"],
        vec!["land", "--yes"],
        vec!["audit"],
        vec!["audit", "--verify"],
        vec!["resume", id.as_str(), "--", "true"],
    ] {
        let refused = world.aegis(&arguments);
        assert_ne!(refused.status, 0, "{arguments:?}");
        for words in ["is damaged at byte", "`aegis-os recover`"] {
            assert!(
                refused.stderr.contains(words),
                "{arguments:?}: {}",
                refused.stderr
            );
        }
    }
    let listed = world.aegis(&["sessions"]).ok().stdout;
    assert!(listed.contains("  damaged  "), "{listed}");
    assert_eq!(world.sessions().len(), 1);
    world.run("true").ok();
    world.aegis(&["discard", &id, "--yes"]).ok();
}

#[test]
fn a_session_that_is_whole_has_nothing_to_recover() {
    let world = World::of(Person::Ordinary);
    world.run(WORK).ok();
    let report = world.aegis(&["recover"]).ok().stdout;
    assert!(
        report.contains("damage   none: the record is whole"),
        "{report}"
    );
    let verified = world.aegis(&["audit", "--verify"]).ok().stdout;
    assert!(verified.contains("checkpoints  0 of 0 match"), "{verified}");
}
