//! A server that is killed loses nothing that it acknowledged.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rustix::io::Errno;
use rustix::process::{Signal, kill_process};

use super::bed::{Bed, furnish};
use super::ops::{self, Op};
use super::tree::{dump, fingerprint};

/// Points at which the server is killed.
const KILLS: u64 = 200;

#[test]
fn nothing_acknowledged_is_lost_by_a_kill() {
    let bed = Bed::furnished();
    let model = bed.root().join("model");
    fs::create_dir(&model).unwrap();
    furnish(&model);
    let before = fingerprint(&bed.project());
    let seed = std::env::var("AEGISFS_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(7);
    let mut random = Random::new(seed);
    let (mut acknowledged, mut pending) = (0, None);
    for round in 0..KILLS {
        let (count, last) = one_life(&bed, &model, &mut random, round, pending);
        acknowledged += count;
        pending = last;
    }
    let server = bed.serve();
    agree(&bed, &model, pending, KILLS);
    server.kill();
    assert!(
        acknowledged > KILLS,
        "only {acknowledged} operations were acknowledged"
    );
    assert_eq!(
        fingerprint(&bed.project()),
        before,
        "the host's tree changed"
    );
}

/// One life of a server, ended at a random moment. Returns how many operations it acknowledged, and
/// the one that was under way at the end.
fn one_life(
    bed: &Bed,
    model: &Path,
    random: &mut Random,
    round: u64,
    pending: Option<Op>,
) -> (u64, Option<Op>) {
    let server = bed.serve();
    agree(bed, model, pending, round);
    let root = ops::root(&bed.mnt());
    let plain = ops::root(model);
    let delay = Duration::from_micros(random.below(25_000));
    let pid = server.pid();
    let killed = AtomicBool::new(false);
    let mut count = 0;
    let last = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(delay);
            killed.store(true, Ordering::SeqCst);
            kill_process(pid, Signal::KILL).unwrap();
        });
        loop {
            let op = random.op();
            match ops::run(&root, &op) {
                Err(errno) if is_end(errno) => {
                    assert!(
                        killed.load(Ordering::SeqCst),
                        "{op:?} failed before the kill"
                    );
                    return Some(op);
                }
                done => assert_eq!(done, ops::run(&plain, &op), "{op:?} in life {round}"),
            }
            count += 1;
        }
    });
    drop(root);
    server.kill();
    (count, last)
}

/// What a request ends with when the server dies; the last two are what a ring leaves of it.
fn is_end(errno: Errno) -> bool {
    use Errno as E;
    [E::NOTCONN, E::CONNABORTED, E::IO, E::CANCELED, E::INTR].contains(&errno)
}

/// The tree is the model's; the operation that was under way has happened, or has not.
fn agree(bed: &Bed, model: &Path, pending: Option<Op>, round: u64) {
    let found = dump(&bed.mnt());
    if found != dump(model)
        && let Some(op) = &pending
    {
        let _ = ops::run(&ops::root(model), op);
    }
    assert_eq!(
        found,
        dump(model),
        "after kill {round}; {pending:?} was under way"
    );
}

/// Operations in an order that a seed determines.
pub struct Random {
    runner: TestRunner,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        Self {
            runner: TestRunner::new_with_rng(Config::default(), rng),
        }
    }

    pub fn op(&mut self) -> Op {
        ops::operation()
            .new_tree(&mut self.runner)
            .unwrap()
            .current()
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        (0..limit).new_tree(&mut self.runner).unwrap().current()
    }
}

#[test]
fn content_without_a_record_is_collected() {
    let mut bed = Bed::furnished();
    fs::write(bed.mount().join("own"), "own").unwrap();
    bed.unmount();
    let content = bed.session().content();
    for name in ["8000000000000abc", "5.part", "junk"] {
        File::create(content.join(name)).unwrap();
    }
    let base = bed.session().base();
    fs::write(base.join("ab"), "whole").unwrap();
    fs::write(base.join("ab.3"), "half").unwrap();
    bed.mount();
    assert_eq!(fs::read_dir(&content).unwrap().count(), 1);
    assert_eq!(fs::read_dir(&base).unwrap().count(), 1);
    assert_eq!(fs::read(bed.mnt().join("own")).unwrap(), b"own");
}

#[test]
fn git_survives_a_kill_between_its_commands() {
    let bed = Bed::new();
    let git = |directory: &std::path::Path, script: &str| {
        let status = Command::new("sh")
            .args(["-ec", script])
            .current_dir(directory)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .status();
        assert!(status.unwrap().success(), "{script}");
    };
    git(
        &bed.project(),
        "git init -q; git config user.name n; git config user.email e@e; \
        echo one > f; git add f; git commit -qm one",
    );
    for step in [
        "echo two >> f; git add f",
        "git commit -qm two",
        "git checkout -qb other",
        "git mv f g; git commit -qm three",
        "git checkout -q -; git merge -q other",
        "git gc -q",
    ] {
        let server = bed.serve();
        git(&bed.mnt(), step);
        server.kill();
    }
    let server = bed.serve();
    git(
        &bed.mnt(),
        "git fsck; test -z \"$(git status --porcelain)\"; \
        test $(git log --oneline | wc -l) = 3; test \"$(cat g)\" = \"$(printf 'one\\ntwo')\"",
    );
    server.kill();
}
