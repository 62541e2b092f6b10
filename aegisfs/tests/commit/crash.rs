//! A landing that stops before any of its changes to the disk, and a recovery that stops too: the
//! project ends as it was before or as it is after, never between.

use std::cell::Cell;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::path::Path;
use std::sync::Arc;

use aegisfs::commit::{Reversal, interruptible};

use super::env::{Env, Tree, chmod, tree, write};

/// What a crash looks like to the code under test: it simply does not come back.
pub struct Crash;

fn project(root: &Path) {
    write(&root.join("changed"), "before\n");
    write(&root.join("src/also"), "before\n");
    write(&root.join("removed"), "removed\n");
    write(&root.join("moved"), "moved\n");
    write(&root.join("mode"), "mode\n");
    write(&root.join("gone/deep/file"), "gone\n");
    symlink("changed", root.join("link")).unwrap();
    write(&root.join("file-to-directory"), "file\n");
    write(&root.join("directory-to-file/x"), "x\n");
}

fn start() -> Env {
    let mut env = Env::new(project);
    write(&env.agent.join("changed"), "after\n");
    write(&env.agent.join("src/also"), "after\n");
    write(&env.agent.join("made/deep/file"), "made\n");
    chmod(&env.agent.join("made"), 0o500);
    fs::remove_file(env.agent.join("removed")).unwrap();
    env.agent_moves("moved", "there/moved");
    chmod(&env.agent.join("mode"), 0o751);
    fs::remove_dir_all(env.agent.join("gone")).unwrap();
    fs::remove_file(env.agent.join("link")).unwrap();
    symlink("mode", env.agent.join("link")).unwrap();
    fs::remove_file(env.agent.join("file-to-directory")).unwrap();
    write(&env.agent.join("file-to-directory/y"), "y\n");
    fs::remove_dir_all(env.agent.join("directory-to-file")).unwrap();
    write(&env.agent.join("directory-to-file"), "now a file\n");
    env
}

/// Runs until the hook has been called `points` times; whether it came to its end.
pub fn until(points: usize, run: impl FnOnce(&dyn Fn(&'static str))) -> bool {
    let left = Cell::new(points);
    let hook = |_: &'static str| match left.get() {
        0 => panic_any(Crash),
        more => left.set(more - 1),
    };
    match catch_unwind(AssertUnwindSafe(|| run(&hook))) {
        Ok(()) => true,
        Err(panic) if panic.is::<Crash>() => false,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Keeps the stops out of the test's output.
pub fn quietly<T>(run: impl FnOnce() -> T) -> T {
    let told = Arc::new(std::panic::take_hook());
    let tell = Arc::clone(&told);
    std::panic::set_hook(Box::new(move |info| {
        if !info.payload().is::<Crash>() {
            tell(info);
        }
    }));
    let result = run();
    std::panic::set_hook(Box::new(move |info| told(info)));
    result
}

fn land_until(env: &Env, points: usize) -> bool {
    let approved = env.approve();
    until(points, |hook| {
        let landed = interruptible::land(approved, &env.site(), None, hook).unwrap();
        assert_eq!(landed.left().count(), 0, "{landed:?}");
    })
}

fn recover_until(env: &Env, points: usize) -> bool {
    until(points, |hook| {
        interruptible::recover(&env.site(), hook).unwrap();
    })
}

/// Recovers and says whether the project is as `before` or as `after`.
fn require_whole(env: &Env, before: &Tree, after: &Tree, at: &str) {
    interruptible::recover(&env.site(), &|_| {}).unwrap();
    let now = env.host();
    assert!(
        now == *before || now == *after,
        "between, at {at}: {now:#?}"
    );
    // Nothing is left to do, and the next landing works.
    assert_eq!(
        interruptible::recover(&env.site(), &|_| {}).unwrap(),
        Default::default()
    );
}

#[test]
fn a_landing_that_stops_anywhere_is_whole() {
    quietly(|| {
        let mut point = 0;
        loop {
            let env = start();
            let (before, after) = (env.host(), tree(&env.agent));
            let finished = land_until(&env, point);
            require_whole(&env, &before, &after, &format!("point {point}"));
            if finished {
                assert_eq!(env.host(), after);
                break;
            }
            env.land();
            assert_eq!(env.host(), after, "landing again after a stop at {point}");
            point += 1;
        }
        assert!(point >= 50, "only {point} points");
    });
}

#[test]
fn a_recovery_that_stops_anywhere_can_go_on() {
    quietly(|| {
        let mut stops = 0;
        // Every third point: each takes a landing and as many recoveries as there are points in it.
        for point in (2..).step_by(3) {
            let mut again = 0;
            loop {
                let env = start();
                let (before, after) = (env.host(), tree(&env.agent));
                if land_until(&env, point) {
                    assert!(stops >= 100, "only {stops} double stops");
                    return;
                }
                let recovered = recover_until(&env, again);
                require_whole(
                    &env,
                    &before,
                    &after,
                    &format!("points {point} and {again}"),
                );
                if recovered {
                    break;
                }
                stops += 1;
                again += 2;
            }
        }
    });
}

#[test]
fn an_undo_that_stops_anywhere_is_whole() {
    quietly(|| {
        let mut point = 0;
        loop {
            let env = start();
            let before = env.host();
            env.land();
            let after = env.host();
            let reversal = Reversal::find(&env.site(), None).unwrap();
            let finished = until(point, |hook| {
                let undone = interruptible::undo(reversal, &env.site(), hook).unwrap();
                assert_eq!(undone.left().count(), 0, "{undone:?}");
            });
            require_whole(&env, &after, &before, &format!("point {point}"));
            if finished {
                assert_eq!(env.host(), before);
                break;
            }
            point += 1;
        }
        assert!(point >= 50, "only {point} points");
    });
}

/// A person writes to files of a landing that has stopped, before it is taken back: what was
/// written is somewhere afterwards.
#[test]
fn what_is_written_before_a_recovery_is_kept() {
    quietly(|| {
        for point in (0..).step_by(2) {
            let env = start();
            if land_until(&env, point) {
                break;
            }
            for name in [
                "changed",
                "src/also",
                "made/deep/file",
                "there/moved",
                "removed",
            ] {
                let file = fs::OpenOptions::new()
                    .append(true)
                    .open(env.project.join(name));
                let _ = file.map(|mut file| writeln!(file, "by hand: {name}").unwrap());
            }
            let written = |env: &Env| -> Vec<String> {
                let mut found = super::env::tree(&env.project);
                found.extend(super::env::tree(&env.session.landings()));
                let mine = found.into_values().flat_map(|shown| {
                    let hand = shown.split("by hand: ").skip(1);
                    hand.map(|name| name.split("\\n").next().unwrap().to_owned())
                        .collect::<Vec<_>>()
                });
                let mut mine: Vec<_> = mine.collect();
                mine.sort();
                mine
            };
            let before = written(&env);
            interruptible::recover(&env.site(), &|_| {}).unwrap();
            assert_eq!(written(&env), before, "at {point}");
        }
    });
}

/// Another session finds the interrupted landing through the project's lock.
#[test]
fn the_next_session_takes_an_interrupted_landing_back() {
    quietly(|| {
        let env = start();
        let before = env.host();
        assert!(!land_until(&env, 40));
        let other = aegisfs::layout::SessionDir::new(env.temp.path().join("home/sessions/two"));
        let project = fs::File::open(&env.project).unwrap();
        let site = aegisfs::commit::Site::new(&other, std::os::fd::AsFd::as_fd(&project));
        aegisfs::commit::recover(&site).unwrap();
        assert_eq!(env.host(), before);
    });
}
