//! A project whose repository lies under another name than `.git`.

use std::fs;
use std::os::unix::fs::symlink;

use crate::cli::world::{Person, World};

/// What runs when git is led by a configuration of the agent's.
const FSMONITOR: &str = "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = touch ran; true\n";

/// A world whose project is a repository with `.git` moved away to `name`.
fn moved(name: &str) -> World {
    let world = World::of(Person::Ordinary);
    let git = |arguments: &[&str]| {
        let mut command = world.program("git".as_ref());
        let identity = ["-c", "user.name=x", "-c", "user.email=x@localhost"];
        assert!(
            command
                .args(identity)
                .args(arguments)
                .status()
                .unwrap()
                .success()
        );
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "first"]);
    fs::rename(world.project().join(".git"), world.project().join(name)).unwrap();
    world
}

#[test]
fn a_repository_behind_a_link_or_a_file_is_locked_and_does_not_land() {
    for form in ["link", "file"] {
        let world = moved("store");
        let dot_git = world.project().join(".git");
        match form {
            "link" => symlink("store", &dot_git).unwrap(),
            _ => fs::write(&dot_git, "gitdir: ./store\n").unwrap(),
        }
        world.own(&dot_git);
        let before = fs::read(world.project().join("store/config")).unwrap();
        world.write("home/project/evil", FSMONITOR);
        let ended = world.run(
            "cp evil store/config; cp evil store/new && mv store/new store/config; mv store other; \
             rm -f store/config; mkdir -p store/hooks; echo x >store/hooks/post-index-change; \
             echo x >store/commondir; touch worked; echo more >>kept; \
             git -c user.name=x -c user.email=x@localhost commit -qam second; \
             git log --oneline | wc -l",
        );
        assert!(ended.stdout.trim() == "2", "{form}: {ended:#?}");
        assert!(
            ended.stderr.contains("vcs.locked"),
            "{form}: {}",
            ended.stderr
        );
        let landed = world.aegis(&["land", "--yes"]);
        assert!(!landed.stderr.contains("panicked"), "{}", landed.stderr);
        assert!(world.project().join("worked").exists(), "{}", landed.stderr);
        let after = fs::read(world.project().join("store/config")).unwrap();
        assert_eq!(before, after, "{form}");
        assert!(!world.project().join("store/commondir").exists(), "{form}");
        assert!(
            !world
                .project()
                .join("store/hooks/post-index-change")
                .exists()
        );
        let mut log = world.program("git".as_ref());
        let log = log.args(["log", "--oneline"]).output().unwrap();
        let count = String::from_utf8_lossy(&log.stdout).lines().count();
        assert_eq!(count, 1, "{form}: commits of the agent landed");
        assert!(!world.project().join("ran").exists(), "{form}");
    }
}

#[test]
fn a_repository_outside_is_told_and_the_session_goes_on() {
    let world = moved("store");
    fs::rename(world.project().join("store"), world.at("home/store")).unwrap();
    world.write("home/project/.git", "gitdir: ../store\n");
    let ended = world.run("echo here").ok();
    assert_eq!(ended.stdout, "here\n");
    assert!(
        ended.stderr.contains("git will not work inside") && ended.stderr.contains("home/store"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_dot_git_that_leads_nowhere_starts_nothing() {
    let world = World::of(Person::Ordinary);
    symlink(".git", world.project().join(".git")).unwrap();
    world.run("true").refused(&["`.git`"]);
    assert!(world.sessions().is_empty());
}
