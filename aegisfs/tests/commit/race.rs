//! Others at work in the project while a landing is under way.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use aegisfs::commit::{Approval, Plan};
use aegisfs::overlay::changes::Content;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::env::{Env, write};

const ROUNDS: usize = 150;

/// Runs `work` over and over until the landings are done.
fn beside<T: Send>(work: impl Fn(usize) -> Option<T> + Sync, landings: impl FnOnce()) -> Vec<T> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut results = Vec::new();
            for round in 0.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                results.extend(work(round));
            }
            results
        });
        let landed = catch_unwind(AssertUnwindSafe(landings));
        done.store(true, Ordering::Relaxed);
        let results = worker.join().unwrap();
        landed.unwrap_or_else(|panic| resume_unwind(panic));
        results
    })
}

/// Every content that is anywhere below: in the project, or kept with the landings.
fn contents(root: &Path, found: &mut HashSet<String>) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        if entry.file_type().unwrap().is_dir() {
            contents(&entry.path(), found);
        } else {
            found.insert(fs::read_to_string(entry.path()).unwrap_or_default());
        }
    }
}

/// An editor that saves by renaming over the file: each version that no later one of its own has
/// replaced is somewhere afterwards.
#[test]
fn no_version_of_the_hosts_is_lost() {
    let env = Env::new(|root| write(&root.join("file"), "start\n"));
    let target = env.project.join("file");
    let scratch = env.temp.path().join("scratch");
    fs::create_dir(&scratch).unwrap();
    // The editor looks at what it replaces: a version of its own that it does not find again was
    // taken by a landing and has to turn up elsewhere.
    let save = |round: usize| {
        let fresh = scratch.join("fresh");
        fs::write(&fresh, format!("host {round}\n")).unwrap();
        renameat_with(CWD, &fresh, CWD, &target, RenameFlags::EXCHANGE).ok()?;
        let replaced = fs::read_to_string(&fresh).unwrap();
        thread::sleep(Duration::from_micros(400 * (round as u64 % 9)));
        Some((format!("host {round}\n"), replaced))
    };
    let mut landed = 0;
    let saves = beside(save, || {
        for round in 0..ROUNDS {
            write(&env.agent.join("file"), format!("agent {round}\n"));
            // The agent starts from what the host has now, so that some landings succeed.
            landed += usize::from(attempt(&env, &target, round));
        }
    });
    let mut found = HashSet::new();
    contents(&env.project, &mut found);
    contents(&env.temp.path().join("home"), &mut found);
    let replaced: HashSet<&String> = saves.iter().map(|(_, replaced)| replaced).collect();
    for (saved, _) in &saves {
        assert!(
            replaced.contains(saved) || found.contains(saved),
            "`{saved}` is lost"
        );
    }
    assert!(saves.len() > ROUNDS / 4, "only {} saves", saves.len());
    println!("{landed} of {ROUNDS} landed against {} saves", saves.len());
}

/// One landing, of a session of its own, against whatever the host has at the moment; whether it
/// landed.
fn attempt(env: &Env, target: &Path, round: usize) -> bool {
    use aegis_policies::journal::{Baseline, NodeKind};
    use sha2::Digest as _;
    let name = env.temp.path().join(format!("home/sessions/{round}"));
    let session = aegisfs::layout::SessionDir::new(name);
    let site = env.site_of(&session);
    let now = fs::read(target).unwrap();
    let mut changes = env.changes();
    let Some(change) = changes.first_mut() else {
        return false;
    };
    let Some(Content::Shadow(file)) = change
        .after
        .as_mut()
        .and_then(|after| after.content.as_mut())
    else {
        return false;
    };
    *file = env.session.content().join(&file);
    let sha256 = sha2::Sha256::digest(&now).into();
    let before = change.before.take().unwrap();
    change.before = Some(Baseline {
        sha256: Some(sha256),
        kind: NodeKind::File,
        ..before
    });
    let frozen = Plan::new(&site, changes, &[], &super::env::labels)
        .unwrap()
        .freeze(&site)
        .unwrap();
    let approval = Approval::by_person(frozen.manifest());
    let landed = frozen
        .approve(&approval)
        .unwrap()
        .land(&site, None)
        .unwrap();
    landed.changed() == 1
}

/// The same, with saves placed before each single change that a landing makes to the disk, and again
/// before the next one or the one after that.
#[test]
fn a_save_at_any_point_of_a_landing_is_not_lost() {
    for apart in [1, 2] {
        (0..).find(|point| !saves_stay(*point, apart)).unwrap();
    }
}

/// Lands while the host saves before the change number `point` and again `apart` changes later;
/// whether the landing came that far.
fn saves_stay(point: usize, apart: usize) -> bool {
    let mut env = Env::new(|root| {
        for name in ["file", "removed", "moved"] {
            write(&root.join(name), "start\n");
        }
    });
    write(&env.agent.join("file"), "agent\n");
    write(&env.agent.join("made"), "agent\n");
    fs::remove_file(env.agent.join("removed")).unwrap();
    env.agent_moves("moved", "moved-there");
    let approved = env.approve();
    let count = Cell::new(0);
    let saved: RefCell<Vec<Save>> = RefCell::default();
    landed_with(&env, approved, &|_| {
        count.set(count.get() + 1);
        if count.get() == point || count.get() == point + apart {
            saved.borrow_mut().extend(save_all(&env, count.get()));
        }
    });
    let mut found = HashSet::new();
    contents(&env.project, &mut found);
    contents(&env.session.landings(), &mut found);
    let saved = saved.borrow();
    for save in saved.iter() {
        let is_replaced = saved.iter().any(|later| later.replaced == save.content);
        assert!(
            is_replaced || found.contains(&save.content),
            "{save:?} is lost at {point}"
        );
        // A landing yields to what the host saved before, and what it saved after stays.
        let last = saved
            .iter()
            .rev()
            .find(|other| other.at == save.at)
            .unwrap();
        assert_eq!(
            fs::read_to_string(&save.at).unwrap(),
            last.content,
            "at {point}"
        );
    }
    count.get() >= point
}

#[derive(Debug)]
struct Save {
    at: PathBuf,
    content: String,
    replaced: String,
}

/// Saves every file of the test as an editor does, by renaming over it.
fn save_all(env: &Env, count: usize) -> Vec<Save> {
    let fresh = env.temp.path().join("fresh");
    let names = ["file", "made", "removed", "moved", "moved-there"];
    let save = |name: &str| {
        let (at, content) = (env.project.join(name), format!("host {name} {count}\n"));
        fs::write(&fresh, &content).unwrap();
        let replaced = fs::read_to_string(&at).unwrap_or_default();
        fs::rename(&fresh, &at).unwrap();
        Save {
            at,
            content,
            replaced,
        }
    };
    names.map(save).into()
}

fn landed_with(env: &Env, approved: aegisfs::commit::Approved, hook: &dyn Fn(&'static str)) {
    aegisfs::commit::interruptible::land(approved, &env.site(), None, hook).unwrap();
}

/// A directory of the project that keeps turning into a link to elsewhere and back: nothing lands
/// elsewhere.
#[test]
fn nothing_lands_through_a_swapped_link() {
    let env = Env::new(|root| write(&root.join("a/directory/deep/file"), "start\n"));
    let outside = env.temp.path().join("outside");
    write(&outside.join("deep/file"), "start\n");
    let link = env.temp.path().join("link");
    symlink(&outside, &link).unwrap();
    let directory = env.project.join("a/directory");
    let swap = |_| -> Option<()> {
        renameat_with(CWD, &link, CWD, &directory, RenameFlags::EXCHANGE).unwrap();
        None
    };
    beside(swap, || {
        for round in 0..ROUNDS {
            let content = format!("agent {round}\n");
            write(&env.agent.join("a/directory/deep/file"), content);
            write(
                &env.agent.join(format!("a/directory/deep/new-{round}")),
                "new\n",
            );
            // Most of these end in a conflict; what counts is where they do not end.
            let _ = env.try_land();
        }
    });
    let outside = super::env::tree(&outside);
    let names: Vec<_> = outside.keys().map(String::as_str).collect();
    assert_eq!(names, ["deep", "deep/file"]);
    assert!(outside["deep/file"].contains("start"), "{outside:?}");
}

/// Two sessions that land on one project at the same time: each landing is whole.
#[test]
fn landings_take_turns() {
    let env = Env::new(|root| write(&root.join("shared"), "start\n"));
    let file = fs::File::open(&env.project).unwrap();
    let other = {
        let session = aegisfs::layout::SessionDir::new(env.temp.path().join("home/sessions/two"));
        fs::create_dir_all(session.content()).unwrap();
        session
    };
    let site = aegisfs::commit::Site::new(&other, std::os::fd::AsFd::as_fd(&file));
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20 {
                aegisfs::commit::recover(&site).unwrap();
            }
        });
        for round in 0..20 {
            write(&env.agent.join(format!("file-{round}")), "x\n");
            assert_eq!(env.land().left().count(), 0);
        }
    });
    for round in 0..20 {
        assert!(env.project.join(format!("file-{round}")).exists());
    }
}
