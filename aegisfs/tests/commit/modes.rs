//! Directories that let nobody in, and folders that go away: what has landed can be taken back, and
//! what has not leaves nothing behind.

use std::cell::Cell;
use std::fs;
use std::os::fd::AsFd;
use std::path::Path;

use aegisfs::commit::{CommitError, Landed, Reason, Reversal, Site, interruptible};
use aegisfs::layout::SessionDir;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::crash::{quietly, until};
use super::env::{Env, Tree, chmod, tree, write};

/// Runs as somebody for whom permission bits mean something.
fn as_owner<T>(run: impl FnOnce() -> T) -> T {
    let before = capabilities(None).unwrap();
    let mut fewer = before;
    fewer.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    set_capabilities(None, fewer).unwrap();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    set_capabilities(None, before).unwrap();
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn project(root: &Path) {
    write(&root.join("f.txt"), "before\n");
    write(&root.join("there/x"), "x\n");
    write(&root.join("there/deep/y"), "y\n");
}

fn close(agent: &Path, mode: u32) {
    write(&agent.join("zero/z"), "z\n");
    write(&agent.join("zero/sub/z"), "z\n");
    write(&agent.join("f.txt"), "after\n");
    write(&agent.join("there/x"), "changed\n");
    fs::remove_file(agent.join("there/deep/y")).unwrap();
    write(&agent.join("there/deep/new"), "new\n");
    for name in ["zero/sub", "zero", "there/deep", "there"] {
        chmod(&agent.join(name), mode);
    }
}

fn closed(mode: u32) -> Env {
    let env = Env::new(project);
    close(&env.agent, mode);
    env
}

fn undo(env: &Env) -> Landed {
    let reversal = Reversal::find(&env.site(), None).unwrap();
    reversal.apply(&env.site(), None).unwrap()
}

const MODES: [u32; 5] = [0o000, 0o111, 0o333, 0o444, 0o555];

#[test]
fn what_lies_in_closed_directories_lands_and_goes_back() {
    for mode in MODES {
        let env = closed(mode);
        let before = env.host();
        let approved = env.approve();
        let landed = as_owner(|| approved.land(&env.site(), None).unwrap());
        assert_eq!(landed.left().count(), 0, "{mode:o}: {landed:?}");
        assert_eq!(landed.unfinished, Vec::<String>::new(), "{mode:o}");
        assert_eq!(env.host(), tree(&env.agent), "{mode:o}");
        let undone = as_owner(|| undo(&env));
        assert_eq!(undone.left().count(), 0, "{mode:o}: {undone:?}");
        assert_eq!(env.host(), before, "{mode:o}");
    }
}

#[test]
fn a_landing_of_closed_directories_that_stops_anywhere_is_whole() {
    quietly(|| {
        for point in 0.. {
            let env = closed(MODES[point % 3]);
            let (before, after) = (env.host(), tree(&env.agent));
            let approved = env.approve();
            let finished = as_owner(|| {
                let finished = until(point, |hook| {
                    interruptible::land(approved, &env.site(), None, hook).unwrap();
                });
                interruptible::recover(&env.site(), &|_| {}).unwrap();
                finished
            });
            let now = env.host();
            assert!(now == before || now == after, "at {point}: {now:#?}");
            if finished {
                break;
            }
        }
    });
}

/// A file that nobody may read is taken back too, here because the last step can not be done.
#[test]
fn files_that_nobody_may_read_go_back() {
    quietly(|| {
        for point in 0.. {
            let env = Env::new(project);
            let before = env.host();
            write(&env.agent.join("new"), "new\n");
            write(&env.agent.join("f.txt"), "after\n");
            chmod(&env.agent.join("new"), 0o000);
            chmod(&env.agent.join("f.txt"), 0o200);
            let after = tree(&env.agent);
            let approved = env.approve();
            let finished = as_owner(|| {
                let finished = until(point, |hook| {
                    interruptible::land(approved, &env.site(), None, hook).unwrap();
                });
                interruptible::recover(&env.site(), &|_| {}).unwrap();
                finished
            });
            let now = env.host();
            assert!(now == before || now == after, "at {point}: {now:#?}");
            if finished {
                break;
            }
        }
    });
}

/// The first chmod of a landing fails, when the directory has taken a file's place already.
#[test]
fn a_directory_that_can_not_be_opened_up_goes_again() {
    let env = Env::new(|root| write(&root.join("Makefile"), "all:\n"));
    let before = env.host();
    fs::remove_file(env.agent.join("Makefile")).unwrap();
    write(&env.agent.join("Makefile/inside"), "inside\n");
    let approved = env.approve();
    let taken = Cell::new(false);
    let all = capabilities(None).unwrap();
    let hook = |what: &'static str| {
        if what == "chmod" && !taken.replace(true) {
            // Somebody else's directory: fchmod(2) says EPERM to those without CAP_FOWNER.
            std::os::unix::fs::chown(env.project.join("Makefile"), Some(12345), None).unwrap();
            let mut fewer = all;
            fewer.effective -= CapabilitySet::FOWNER;
            set_capabilities(None, fewer).unwrap();
        }
    };
    let error = interruptible::land(approved, &env.site(), None, &hook).unwrap_err();
    set_capabilities(None, all).unwrap();
    assert!(matches!(error, CommitError::Io { .. }), "{error}");
    assert_eq!(env.host(), before);
}

/// Lands `changes` in the folder `d` and stops at the hook's `nth` call of `what`.
fn stopped(what: &'static str, nth: usize) -> (Env, Tree, Tree) {
    let env = Env::new(|root| {
        for name in ["d/1", "d/2", "d/3", "f.txt"] {
            write(&root.join(name), name);
        }
    });
    let before = env.host();
    for name in ["d/1", "d/2", "d/3", "f.txt"] {
        write(&env.agent.join(name), "agent\n");
    }
    let approved = env.approve();
    let after = tree(&env.agent);
    let seen = Cell::new(0);
    let finished = until(usize::MAX, |_| {
        let hook = |now: &'static str| {
            seen.set(seen.get() + usize::from(now == what));
            if seen.get() == nth {
                std::panic::panic_any(super::crash::Crash);
            }
        };
        interruptible::land(approved, &env.site(), None, &hook).unwrap();
    });
    assert!(!finished);
    (env, before, after)
}

#[test]
fn originals_in_a_folder_that_is_away_are_found_later() {
    quietly(|| {
        let (env, before, after) = stopped("retire", 2);
        let (there, away) = (env.project.join("d"), env.temp.path().join("away"));
        fs::rename(&there, &away).unwrap();
        let recovered = interruptible::recover(&env.site(), &|_| {}).unwrap();
        assert_eq!(recovered, Default::default(), "not finished");
        let undone = undo(&env);
        assert_eq!(undone.left().count(), 3, "{undone:?}");
        fs::rename(&away, &there).unwrap();
        let recovered = interruptible::recover(&env.site(), &|_| {}).unwrap();
        assert_eq!(recovered.finished, 1);
        assert_ne!(env.host(), after);
        assert_eq!(undo(&env).left().count(), 0);
        assert_eq!(env.host(), before);
    });
}

#[test]
fn a_folder_that_was_away_is_taken_back_when_it_returns() {
    quietly(|| {
        let (env, before, _) = stopped("exchange", 3);
        let (there, away) = (env.project.join("d"), env.temp.path().join("away"));
        fs::rename(&there, &away).unwrap();
        let recovered = interruptible::recover(&env.site(), &|_| {}).unwrap();
        assert_eq!(recovered, Default::default(), "not finished");
        fs::rename(&away, &there).unwrap();
        let recovered = interruptible::recover(&env.site(), &|_| {}).unwrap();
        assert_eq!(recovered.taken_back, 1);
        assert_eq!(env.host(), before);
    });
}

#[test]
fn what_was_not_kept_is_left_alone_and_the_rest_goes_back() {
    let env = Env::new(project);
    write(&env.agent.join("f.txt"), "after\n");
    write(&env.agent.join("there/x"), "after\n");
    let landed = env.land();
    let displaced = env.session.landings().join(&landed.id).join("displaced");
    fs::remove_file(displaced.join("0")).unwrap();
    let undone = undo(&env);
    let left: Vec<_> = undone.left().map(|(_, reason)| reason.clone()).collect();
    assert_eq!(left, [Reason::NotKept]);
    assert_eq!(undone.changed(), 1);
}

/// A directory does not go when the file that was there before can not come back.
#[test]
fn a_directory_stays_when_nothing_takes_its_place() {
    let env = Env::new(|root| write(&root.join("place"), "file\n"));
    fs::remove_file(env.agent.join("place")).unwrap();
    fs::create_dir(env.agent.join("place")).unwrap();
    let landed = env.land();
    let displaced = env.session.landings().join(&landed.id).join("displaced");
    fs::remove_file(displaced.join("0")).unwrap();
    let undone = undo(&env);
    let left: Vec<_> = undone.left().map(|(_, reason)| reason.clone()).collect();
    assert_eq!(left, [Reason::NotKept]);
    assert_eq!(env.host(), tree(&env.agent));
}

/// What can not be taken back is said, stands only in the way of the same names, and is taken back
/// when it can be.
#[test]
fn a_landing_that_is_stuck_stands_in_nobodys_way_elsewhere() {
    quietly(|| {
        let (env, before, _) = stopped("exchange", 3);
        chmod(&env.project.join("d"), 0o000);
        let other = SessionDir::new(env.temp.path().join("home/sessions/two"));
        fs::create_dir_all(other.content()).unwrap();
        let project = fs::File::open(&env.project).unwrap();
        let site = Site::new(&other, project.as_fd());
        as_owner(|| {
            aegisfs::commit::recover(&site).unwrap();
            let own = aegisfs::commit::recover(&env.site()).unwrap_err();
            let CommitError::Interrupted { session, .. } = &own else {
                panic!("{own}");
            };
            assert_eq!(session, "one");
        });
        chmod(&env.project.join("d"), 0o755);
        aegisfs::commit::recover(&site).unwrap();
        assert_eq!(env.host(), before);
    });
}

/// Every descriptor is taken while a directory is made, so that nothing can be taken back either.
#[test]
fn a_landing_that_can_not_go_back_says_so() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let env = Env::new(|root| write(&root.join("f.txt"), "before\n"));
    let before = env.host();
    write(&env.agent.join("f.txt"), "after\n");
    write(&env.agent.join("made/inside"), "inside\n");
    let approved = env.approve();
    let limit = getrlimit(Resource::Nofile);
    let hook = |what: &'static str| {
        if what == "mkdir" {
            let none = Rlimit {
                current: Some(3),
                ..limit
            };
            setrlimit(Resource::Nofile, none).unwrap();
        }
    };
    let error = interruptible::land(approved, &env.site(), None, &hook).unwrap_err();
    setrlimit(Resource::Nofile, limit).unwrap();
    assert!(matches!(error, CommitError::HalfBack { .. }), "{error}");
    aegisfs::commit::recover(&env.site()).unwrap();
    assert_eq!(env.host(), before);
}
