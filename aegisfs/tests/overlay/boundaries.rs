//! A server that ends at every boundary of the journal: before, in the middle of, and after any
//! record. A limit of the file size ends the process (SIGXFSZ) at the very write(2) that crosses it,
//! so the moment is exact, where a kill from outside comes at any.

use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use aegis_policies::journal::SnapshotCause;
use aegisfs::layout::SessionDir;
use rustix::process::{Resource, Rlimit, setrlimit};

use super::bed::{Bed, furnish, guard};
use super::crash::Random;
use super::model::Tree;
use super::ops::{self, Op};
use super::soak::{ENDS, soak};
use super::tree::{dump, fingerprint};

/// Bytes of the journal after which a process ends at the latest: some twenty records.
const FURTHEST: u64 = 2500;

/// How often one of the records is that of a snapshot.
const SNAPSHOTS: u64 = 16;

#[test]
fn an_end_at_any_byte_of_the_journal_loses_nothing_acknowledged() {
    let bed = Bed::furnished();
    let model = bed.root().join("model");
    fs::create_dir(&model).unwrap();
    furnish(&model);
    let host = fingerprint(&bed.project());
    let mut acknowledged = 0;
    for round in 0..u64::from(soak(ENDS)) {
        let acked = live(&bed, round);
        let mut random = Random::new(round);
        for _ in 0..acked {
            let _ends_as_in_the_tree = ops::run(&ops::root(&model), &next(&mut random).1);
        }
        acknowledged += acked;
        let pending = next(&mut random).1;
        let tree = Tree { guard: bed.guard() };
        let found = tree.dump();
        if found != dump(&model) {
            let _ = ops::run(&ops::root(&model), &pending);
        }
        assert_eq!(
            found,
            dump(&model),
            "round {round}: {pending:?} after {acked}"
        );
    }
    assert!(
        acknowledged > u64::from(ENDS),
        "only {acknowledged} were acknowledged"
    );
    assert_eq!(fingerprint(&bed.project()), host, "the host's tree changed");
}

/// The next operation, and whether a snapshot comes before it.
fn next(random: &mut Random) -> (bool, Op) {
    (random.below(SNAPSHOTS) == 0, random.op())
}

/// Lets a process work on the session until it ends; how many operations it acknowledged.
fn live(bed: &Bed, round: u64) -> u64 {
    let mut child = Command::new("/proc/self/exe");
    child
        .args([
            "overlay::boundaries::life",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env("AEGISFS_ROOT", bed.root())
        .env("AEGISFS_ROUND", round.to_string());
    child.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let mut said = Vec::new();
    child.stderr.take().unwrap().read_to_end(&mut said).unwrap();
    let status = child.wait().unwrap();
    let text = String::from_utf8_lossy(&said);
    assert!(
        !status.success() && said.iter().all(|byte| *byte == b'.'),
        "{status}: {text}"
    );
    said.len() as u64
}

/// One life; it ends when a file has become larger than it may.
#[test]
#[ignore = "started by another test as a process of its own"]
fn life() {
    let root = PathBuf::from(std::env::var_os("AEGISFS_ROOT").unwrap());
    let round = std::env::var("AEGISFS_ROUND").unwrap().parse().unwrap();
    let session = SessionDir::new(root.join("session"));
    let tree = Tree {
        guard: guard(&root.join("project"), &session),
    };
    let segment = session.journal().join("00000000.aej");
    let length = fs::metadata(segment).unwrap().len();
    let mut random = Random::new(round);
    let further = Random::new(round ^ 0x5eed).below(FURTHEST);
    limit(Resource::Core, 0);
    limit(Resource::Fsize, length + further);
    loop {
        let (snapshot, op) = next(&mut random);
        if snapshot {
            let overlay = tree.guard.overlay();
            overlay.snapshot(None, SnapshotCause::Quiet).unwrap();
        }
        let _ends_as_on_a_plain_directory = tree.run(&op);
        std::io::stderr().write_all(b".").unwrap();
    }
}

fn limit(resource: Resource, limit: u64) {
    let limit = Rlimit {
        current: Some(limit),
        maximum: Some(limit),
    };
    setrlimit(resource, limit).unwrap();
}
