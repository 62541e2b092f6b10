//! Taking landings back.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use aegisfs::commit::{CommitError, Reason, Reversal};

use super::env::{Env, chmod, tree, write};

fn project(root: &Path) {
    write(&root.join("changed"), "before\n");
    write(&root.join("removed"), "removed\n");
    write(&root.join("moved"), "moved\n");
    write(&root.join("mode"), "mode\n");
    write(&root.join("gone/deep/file"), "gone\n");
    chmod(&root.join("gone/deep"), 0o700);
    symlink("changed", root.join("link")).unwrap();
    write(&root.join("file-to-directory"), "file\n");
    write(&root.join("directory-to-file/x"), "x\n");
}

fn work(env: &mut Env) {
    write(&env.agent.join("changed"), "after\n");
    write(&env.agent.join("made/deep/file"), "made\n");
    chmod(&env.agent.join("made/deep"), 0o555);
    fs::remove_file(env.agent.join("removed")).unwrap();
    env.agent_moves("moved", "there/moved");
    chmod(&env.agent.join("mode"), 0o751);
    fs::remove_dir_all(env.agent.join("gone")).unwrap();
    fs::remove_file(env.agent.join("link")).unwrap();
    symlink("mode", env.agent.join("link")).unwrap();
    fs::remove_file(env.agent.join("file-to-directory")).unwrap();
    write(&env.agent.join("file-to-directory/y"), "y\n");
    fs::remove_dir_all(env.agent.join("directory-to-file")).unwrap();
    symlink("mode", env.agent.join("directory-to-file")).unwrap();
}

fn undo(env: &Env) -> aegisfs::commit::Landed {
    Reversal::find(&env.site(), None)
        .unwrap()
        .apply(&env.site(), None)
        .unwrap()
}

#[test]
fn a_landing_is_taken_back_to_the_byte() {
    let mut env = Env::new(project);
    let before = env.host();
    let time = fs::metadata(env.project.join("changed"))
        .unwrap()
        .modified()
        .unwrap();
    work(&mut env);
    assert_eq!(env.land().left().count(), 0);
    assert_eq!(env.host(), tree(&env.agent));
    let undone = undo(&env);
    assert_eq!(undone.left().count(), 0, "{undone:?}");
    assert_eq!(env.host(), before);
    assert_eq!(
        fs::metadata(env.project.join("changed"))
            .unwrap()
            .modified()
            .unwrap(),
        time
    );
    let error = Reversal::find(&env.site(), None).unwrap_err();
    assert!(matches!(error, CommitError::NothingToUndo), "{error}");
}

#[test]
fn what_was_taken_back_lands_again() {
    let mut env = Env::new(project);
    let before = env.host();
    work(&mut env);
    env.land();
    undo(&env);
    assert_eq!(env.land().left().count(), 0);
    assert_eq!(env.host(), tree(&env.agent));
    undo(&env);
    assert_eq!(env.host(), before);
}

#[test]
fn landings_are_taken_back_one_after_the_other() {
    let env = Env::new(project);
    let first = env.host();
    write(&env.agent.join("changed"), "once\n");
    env.land();
    let second = env.host();
    write(&env.agent.join("changed"), "twice\n");
    env.land();
    undo(&env);
    assert_eq!(env.host(), second);
    undo(&env);
    assert_eq!(env.host(), first);
}

#[test]
fn what_the_host_changed_since_is_left() {
    let mut env = Env::new(project);
    work(&mut env);
    env.land();
    write(&env.project.join("changed"), "edited since\n");
    write(&env.project.join("made/own"), "the host's\n");
    let undone = undo(&env);
    let left: Vec<_> = undone
        .left()
        .map(|(outcome, reason)| (outcome.path.to_string(), reason.clone()))
        .collect();
    assert_eq!(
        left,
        [
            ("changed".to_owned(), Reason::ChangedJustNow),
            ("made".to_owned(), Reason::NotEmpty),
        ]
    );
    assert_eq!(
        fs::read_to_string(env.project.join("changed")).unwrap(),
        "edited since\n"
    );
    assert_eq!(
        fs::read_to_string(env.project.join("removed")).unwrap(),
        "removed\n"
    );
    // The rest of it can be taken back once nothing stands against it.
    write(&env.project.join("changed"), "after\n");
    fs::remove_file(env.project.join("made/own")).unwrap();
    assert_eq!(undo(&env).left().count(), 0);
    assert_eq!(
        fs::read_to_string(env.project.join("changed")).unwrap(),
        "before\n"
    );
    assert!(!env.project.join("made").exists());
}

#[test]
fn displaced_files_cross_file_systems() {
    let Ok(other) = tempfile::TempDir::new_in("/dev/shm") else {
        return;
    };
    let root = other.path().join("project");
    fs::create_dir(&root).unwrap();
    project(&root);
    let mut env = Env::on(tempfile::TempDir::new().unwrap(), root);
    let before = env.host();
    work(&mut env);
    assert_eq!(env.land().left().count(), 0);
    assert_eq!(env.host(), tree(&env.agent));
    assert_eq!(undo(&env).left().count(), 0);
    assert_eq!(env.host(), before);
}
