//! Several at once.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::bed::{Bed, furnish};
use super::ops;
use super::tree::dump;

/// Workers in directories of their own end as they would alone.
#[test]
fn workers_do_not_disturb_each_other() {
    const WORKERS: usize = 4;
    let mut bed = Bed::new();
    let model = bed.root().join("model");
    for root in [bed.project(), model.clone()] {
        for worker in 0..WORKERS {
            fs::create_dir_all(root.join(worker.to_string())).unwrap();
            furnish(&root.join(worker.to_string()));
        }
    }
    let mnt = bed.mount();
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let own = |root: &std::path::Path| ops::root(&root.join(worker.to_string()));
            let (mounted, plain) = (own(&mnt), own(&model));
            scope.spawn(move || {
                let mut runner = TestRunner::default();
                for _ in 0..400 {
                    let op = ops::operation().new_tree(&mut runner).unwrap().current();
                    assert_eq!(ops::run(&mounted, &op), ops::run(&plain, &op), "{op:?}");
                }
            });
        }
    });
    assert_eq!(dump(&mnt), dump(&model));
    bed.remount();
    assert_eq!(dump(&mnt), dump(&model), "replayed");
}

/// Everybody moves and writes the same few names: nothing is lost and the server answers.
#[test]
fn a_crowd_on_the_same_names_leaves_a_tree_that_replays() {
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let root = ops::root(&mnt);
            scope.spawn(move || {
                let mut runner = TestRunner::default();
                for _ in 0..500 {
                    let op = ops::operation().new_tree(&mut runner).unwrap().current();
                    let _ = ops::run(&root, &op);
                }
            });
        }
    });
    let before = dump(&mnt);
    bed.remount();
    assert_eq!(dump(&mnt), before);
}

/// One version of the host's file is taken up, however fast the host writes new ones.
#[test]
fn a_copy_is_never_torn() {
    const SIZE: usize = 600_000;
    let mut bed = Bed::new();
    for number in 0..20 {
        fs::write(bed.project().join(number.to_string()), vec![b'a'; SIZE]).unwrap();
    }
    let mnt = bed.mount();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let files: Vec<_> = (0..20)
                .map(|number| {
                    let path = bed.project().join(number.to_string());
                    OpenOptions::new().write(true).open(path).unwrap()
                })
                .collect();
            for letter in (b'b'..=b'z').cycle() {
                for file in &files {
                    file.write_all_at(&vec![letter; SIZE], 0).unwrap();
                }
                if done.load(Ordering::SeqCst) {
                    return;
                }
            }
        });
        for number in 0..20 {
            let path = mnt.join(number.to_string());
            let mut file = OpenOptions::new().append(true).open(&path).unwrap();
            match file.write_all(b"!") {
                Ok(()) => {
                    let taken = fs::read(bed.session().content().join(content_of(&path))).unwrap();
                    let first = taken[0];
                    assert_eq!(taken.len(), SIZE + 1);
                    assert!(taken[..SIZE].iter().all(|byte| *byte == first), "torn");
                }
                // The host never stood still.
                Err(error) => assert_eq!(error.raw_os_error(), Some(16), "{error}"),
            }
        }
        done.store(true, Ordering::SeqCst);
    });
}

fn content_of(path: &std::path::Path) -> String {
    use std::os::unix::fs::MetadataExt;
    format!("{:x}", fs::metadata(path).unwrap().ino())
}

/// More files than the usual soft limit of descriptors, all open at once.
#[test]
fn thousands_of_files_can_be_open() {
    let bed = Bed::new();
    for number in 0..2000 {
        fs::write(bed.project().join(number.to_string()), "x").unwrap();
    }
    let server = bed.serve();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    let open: Vec<_> = (0..2000)
        .map(|number| fs::File::open(bed.mnt().join(number.to_string())).unwrap())
        .collect();
    drop(open);
    server.kill();
}
