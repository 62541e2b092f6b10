//! Snapshots and what goes back to them, against copies of a plain tree.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use aegis_policies::journal::SnapshotCause;
use aegisfs::guard::Guard;
use aegisfs::overlay::Rewind;
use proptest::prelude::*;

use super::bed::{Bed, furnish};
use super::model::Tree;
use super::ops::{self, Op};
use super::soak::soak;
use super::tree::{dump, fingerprint};

/// A step of a session's life.
#[derive(Clone, Debug)]
enum Step {
    Do(Op),
    Snapshot(SnapshotCause),
    /// Back to one of the snapshots that are kept.
    Rewind(usize),
    /// The server ends, and another starts.
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let cause = prop_oneof![
        6 => Just(SnapshotCause::Quiet),
        1 => Just(SnapshotCause::Ended),
        1 => Just(SnapshotCause::Requested),
    ];
    prop_oneof![
        30 => ops::operation().prop_map(Step::Do),
        6 => cause.prop_map(Step::Snapshot),
        2 => any::<usize>().prop_map(Step::Rewind),
        1 => Just(Step::Reopen),
    ]
}

/// A plain tree, and copies of what it was.
struct Model {
    tree: PathBuf,
    copies: PathBuf,
}

impl Model {
    fn new(bed: &Bed) -> Self {
        let tree = bed.root().join("model");
        let copies = bed.root().join("copies");
        fs::create_dir(&tree).unwrap();
        fs::create_dir(&copies).unwrap();
        furnish(&tree);
        Self { tree, copies }
    }

    fn keep(&self, seq: u64) {
        copy(&self.tree, &self.copy(seq));
    }

    fn go_back(&self, seq: u64) {
        fs::remove_dir_all(&self.tree).unwrap();
        copy(&self.copy(seq), &self.tree);
    }

    fn copy(&self, seq: u64) -> PathBuf {
        self.copies.join(seq.to_string())
    }
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(status.unwrap().success());
}

fn snapshot(guard: &Guard, cause: SnapshotCause) -> u64 {
    guard.overlay().snapshot(None, cause).unwrap().seq
}

fn kept(guard: &Guard) -> Vec<u64> {
    let snapshots = guard.overlay().snapshots();
    snapshots.iter().map(|snapshot| snapshot.seq).collect()
}

/// Goes back to a snapshot, of which everything is kept; returns the snapshot taken before.
fn go_back(bed: &Bed, guard: &Guard, to: u64) -> u64 {
    let rewind = bed.rewind_to(to);
    assert_eq!(rewind.losses(), []);
    guard.rewind(rewind).unwrap().seq
}

proptest! {
    #![proptest_config(ProptestConfig { cases: soak(16), failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_snapshot_is_what_it_was(steps in proptest::collection::vec(step(), 1..120)) {
        let bed = Bed::furnished();
        let model = Model::new(&bed);
        let host = fingerprint(&bed.project());
        let mut tree = Tree { guard: bed.guard() };
        for step in steps {
            match &step {
                Step::Do(op) => {
                    let plain = ops::run(&ops::root(&model.tree), op);
                    prop_assert_eq!(tree.run(op), plain, "{:?}", op);
                }
                Step::Snapshot(cause) => model.keep(snapshot(&tree.guard, *cause)),
                Step::Rewind(which) => {
                    let kept = kept(&tree.guard);
                    let Some(which) = which.checked_rem(kept.len()) else { continue };
                    model.keep(go_back(&bed, &tree.guard, kept[which]));
                    model.go_back(kept[which]);
                    prop_assert_eq!(tree.dump(), dump(&model.tree), "{:?} to {}", step, kept[which]);
                }
                Step::Reopen => tree = Tree { guard: bed.guard() },
            }
        }
        prop_assert_eq!(tree.dump(), dump(&model.tree));
        drop(tree);
        let tree = Tree { guard: bed.guard() };
        prop_assert_eq!(tree.dump(), dump(&model.tree), "replayed");
        for seq in kept(&tree.guard) {
            go_back(&bed, &tree.guard, seq);
            prop_assert_eq!(tree.dump(), dump(&model.copy(seq)), "back to {}", seq);
        }
        prop_assert_eq!(fingerprint(&bed.project()), host, "the host's tree changed");
    }
}

#[test]
fn open_files_see_what_was_gone_back_to() {
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    fs::write(mnt.join("a/x"), "first").unwrap();
    let first = snapshot(bed.mounted(), SnapshotCause::Requested);
    fs::write(mnt.join("made"), "later").unwrap();
    let mut touched = OpenOptions::new()
        .read(true)
        .write(true)
        .open(mnt.join("a/x"))
        .unwrap();
    touched.write_all(b"second").unwrap();
    let untouched = OpenOptions::new()
        .read(true)
        .write(true)
        .open(mnt.join("d/y"))
        .unwrap();
    untouched.write_at(b"SECOND", 0).unwrap();
    let made = OpenOptions::new()
        .read(true)
        .write(true)
        .open(mnt.join("made"))
        .unwrap();
    let number = touched.metadata().unwrap().ino();

    let second = go_back(&bed, bed.mounted(), first);
    assert_eq!(read_all(&mut touched), "first");
    assert_eq!(fs::read_to_string(mnt.join("a/x")).unwrap(), "first");
    assert_eq!(touched.metadata().unwrap().ino(), number);
    assert_eq!(touched.metadata().unwrap().len(), 5);
    let mut bytes = [0; 6];
    untouched.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"the ho");
    // What is gone lives on while it is open, and what is written to it stays there.
    assert!(!mnt.join("made").exists());
    made.write_at(b"LATER", 0).unwrap();
    made.read_exact_at(&mut bytes[..5], 0).unwrap();
    assert_eq!(&bytes[..5], b"LATER");
    touched.write_at(b"FIRST", 0).unwrap();
    untouched.write_at(b"THE HO", 0).unwrap();

    go_back(&bed, bed.mounted(), second);
    assert_eq!(read_all(&mut touched), "second");
    untouched.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"SECOND");
    assert_eq!(fs::read_to_string(mnt.join("made")).unwrap(), "later");
    made.read_exact_at(&mut bytes[..5], 0).unwrap();
    assert_eq!(&bytes[..5], b"later");
    drop((touched, untouched, made));
    bed.unmount();
}

#[test]
fn names_are_as_they_were_at_once() {
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    let first = snapshot(bed.mounted(), SnapshotCause::Requested);
    // Everything is in the kernel's caches, also what is not there.
    fs::remove_file(mnt.join("x")).unwrap();
    fs::rename(mnt.join("a"), mnt.join("moved")).unwrap();
    fs::create_dir(mnt.join("new")).unwrap();
    fs::write(mnt.join("new/f"), "f").unwrap();
    fs::rename(mnt.join("d/y"), mnt.join("d/z")).unwrap();
    let changed = dump(&mnt);
    for gone in ["x", "a", "a/x", "d/y"] {
        assert!(fs::metadata(mnt.join(gone)).is_err());
    }
    let second = go_back(&bed, bed.mounted(), first);
    assert_eq!(dump(&mnt), dump(&bed.project()));
    for gone in ["moved", "moved/x", "new", "new/f"] {
        assert!(fs::metadata(mnt.join(gone)).is_err(), "{gone}");
    }
    go_back(&bed, bed.mounted(), second);
    assert_eq!(dump(&mnt), changed);
    bed.unmount();
}

#[test]
fn a_mapping_shows_what_was_gone_back_to() {
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    fs::write(mnt.join("m"), vec![b'1'; 8192]).unwrap();
    let script = "import mmap,sys\nf=open('m','r+b'); m=mmap.mmap(f.fileno(),0)\n\
        r=open('m','rb'); c=mmap.mmap(r.fileno(),0,prot=mmap.PROT_READ)\n\
        def step():\n print(m[0:1].decode(),c[8191:8192].decode(),flush=True); sys.stdin.readline()\n\
        step(); m[0:1]=b'2'; m[8191:8192]=b'2'; step(); step(); step()\n";
    let mut reader = Command::new("python3")
        .args(["-c", script])
        .current_dir(&mnt)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut next = reader.stdin.take().unwrap();
    let mut shown = std::io::BufReader::new(reader.stdout.take().unwrap());
    let mut line = || {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut shown, &mut line).unwrap();
        line
    };
    assert_eq!(line(), "1 1\n");
    let first = snapshot(bed.mounted(), SnapshotCause::Requested);
    next.write_all(b"\n").unwrap();
    assert_eq!(line(), "2 2\n");
    // What was written through the mapping and is still with the kernel is put aside as well.
    let second = go_back(&bed, bed.mounted(), first);
    next.write_all(b"\n").unwrap();
    assert_eq!(line(), "1 1\n");
    go_back(&bed, bed.mounted(), second);
    next.write_all(b"\n").unwrap();
    assert_eq!(line(), "2 2\n");
    next.write_all(b"\n").unwrap();
    assert!(reader.wait().unwrap().success());
    bed.unmount();
}

#[test]
fn a_view_that_can_only_be_read_is_not_rewound() {
    let bed = Bed::furnished();
    let tree = Tree { guard: bed.guard() };
    let first = snapshot(&tree.guard, SnapshotCause::Requested);
    tree.run(&Op::Create("f".into(), 0o644)).unwrap();
    drop(tree);
    let guard = bed.guard().read_only();
    let refused = guard.rewind(bed.rewind_to(first)).unwrap_err();
    assert_eq!(refused.errno(), rustix::io::Errno::ROFS);
    assert!(Tree { guard }.read("f").is_ok());
}

#[test]
fn times_of_a_snapshot_stay() {
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    fs::write(mnt.join("f"), "one").unwrap();
    let early = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
    let set = |time| {
        File::options()
            .write(true)
            .open(mnt.join("f"))
            .unwrap()
            .set_modified(time)
    };
    set(early).unwrap();
    let modified = || fs::metadata(mnt.join("f")).unwrap().modified().unwrap();
    let first = snapshot(bed.mounted(), SnapshotCause::Requested);
    let late = early + std::time::Duration::from_secs(500);
    set(late).unwrap();
    assert_eq!(modified(), late);
    let second = snapshot(bed.mounted(), SnapshotCause::Requested);
    fs::write(mnt.join("f"), "two").unwrap();
    assert!(modified() > late);
    go_back(&bed, bed.mounted(), second);
    assert_eq!(modified(), late);
    go_back(&bed, bed.mounted(), first);
    assert_eq!(modified(), early);
    bed.unmount();
}

#[test]
fn what_no_snapshot_needs_is_not_copied_or_kept() {
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    fs::write(mnt.join("f"), "one").unwrap();
    assert_eq!(bed.content().len(), 1);
    snapshot(bed.mounted(), SnapshotCause::Ended);
    // Nameless, it is in no snapshot.
    let open = File::options()
        .read(true)
        .append(true)
        .create(true)
        .open(mnt.join("t"))
        .unwrap();
    fs::remove_file(mnt.join("t")).unwrap();
    snapshot(bed.mounted(), SnapshotCause::Ended);
    (&open).write_all(b"nameless").unwrap();
    assert_eq!(bed.content().len(), 2);
    drop(open);
    for round in 0..40 {
        fs::write(mnt.join("f"), format!("round {round}")).unwrap();
        snapshot(bed.mounted(), SnapshotCause::Ended);
    }
    // The newest 32, each with another content; the last is the present one.
    assert_eq!(kept(bed.mounted()).len(), 32);
    bed.remount();
    assert_eq!(bed.content().len(), 32);
    fs::remove_file(mnt.join("f")).unwrap();
    for _ in 0..32 {
        snapshot(bed.mounted(), SnapshotCause::Ended);
    }
    assert_eq!(bed.content(), Vec::<String>::new());
    bed.unmount();
}

#[test]
fn an_entry_between_snapshots_is_gone_back_to_as_far_as_it_is_kept() {
    let bed = Bed::furnished();
    let tree = Tree { guard: bed.guard() };
    let run = |op| tree.run(&op).unwrap();
    run(Op::Create("f".into(), 0o644));
    run(Op::Write("f".into(), 0, b"one".to_vec()));
    run(Op::Create("g".into(), 0o644));
    let entries = || {
        aegis_policies::journal::read(&bed.session().journal())
            .unwrap()
            .count() as u64
    };
    let between = entries() - 1;
    run(Op::Write("f".into(), 0, b"TWO".to_vec()));
    run(Op::Unlink("g".into()));
    snapshot(&tree.guard, SnapshotCause::Requested);
    run(Op::Write("f".into(), 0, b"333".to_vec()));
    let rewind = bed.rewind_to(between);
    let losses: Vec<_> = rewind
        .losses()
        .iter()
        .map(|loss| (loss.path.to_string(), loss.kept))
        .collect();
    let (f, g) = (
        ("f".to_owned(), aegisfs::overlay::Kept::Later),
        ("g".to_owned(), aegisfs::overlay::Kept::Nothing),
    );
    assert_eq!(losses, [f, g]);
    tree.guard.rewind(rewind).unwrap();
    assert_eq!(tree.read("f").unwrap(), b"TWO");
    assert!(tree.read("g").is_err());
    drop(tree);
    let tree = Tree { guard: bed.guard() };
    assert_eq!(tree.read("f").unwrap(), b"TWO");
    assert!(tree.read("g").is_err());
}

fn read_all(file: &mut File) -> String {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

/// Takes snapshots and goes back to them until it is killed, and says each step when it is done.
#[test]
#[ignore = "started by another test as a process of its own"]
fn rewind_child() {
    let path = |name: &str| PathBuf::from(std::env::var_os(name).unwrap());
    let session = aegisfs::layout::SessionDir::new(path("AEGISFS_SESSION"));
    let tree = Tree {
        guard: super::bed::guard(&path("AEGISFS_PROJECT"), &session),
    };
    let relocations = aegisfs::commit::relocations(&session).unwrap();
    let _made_before = tree.run(&Op::Create("f".into(), 0o644));
    let mut taken = Vec::new();
    for round in 0_u64.. {
        tree.run(&Op::Write(
            "f".into(),
            0,
            format!("{round:08}").into_bytes(),
        ))
        .unwrap();
        tree.run(&Op::Write(
            "a/x".into(),
            0,
            format!("{round:08}").into_bytes(),
        ))
        .unwrap();
        // Of these the newest are kept, whatever the clock says.
        let seq = snapshot(&tree.guard, SnapshotCause::Ended);
        println!("\nkept {seq} {round:08}");
        taken.push(seq);
        if round % 3 == 2 {
            let to = taken[taken.len() - 1 - (round as usize % taken.len().min(20))];
            let rewind = Rewind::plan(&session, &relocations, to).unwrap();
            tree.guard.rewind(rewind).unwrap();
        }
    }
}

#[test]
fn a_kill_loses_no_snapshot() {
    let bed = Bed::furnished();
    let mut kept_content = std::collections::BTreeMap::new();
    for life in 0..soak(12) {
        let mut child = Command::new("/proc/self/exe")
            .args([
                "overlay::rewound::rewind_child",
                "--exact",
                "--ignored",
                "--nocapture",
            ])
            .env("AEGISFS_PROJECT", bed.project())
            .env("AEGISFS_SESSION", bed.session().root())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let said = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut steps = 0;
        for line in std::io::BufRead::lines(said) {
            let line = line.unwrap();
            let mut words = line.split(' ');
            if words.next() == Some("kept") {
                let seq: u64 = words.next().unwrap().parse().unwrap();
                kept_content.insert(seq, words.next().unwrap().to_owned());
                steps += 1;
            }
            if steps == 3 + life * 5 % 11 {
                // What it says until it is dead is acknowledged as well.
                let _ended_already = child.kill();
            }
        }
        child.wait().unwrap();
        let tree = Tree { guard: bed.guard() };
        let kept = kept(&tree.guard);
        for seq in kept.iter().filter(|seq| kept_content.contains_key(seq)) {
            go_back(&bed, &tree.guard, *seq);
            let content = tree.read("f").unwrap();
            assert_eq!(content, kept_content[seq].as_bytes(), "entry {seq}");
            assert_eq!(tree.read("a/x").unwrap()[..8], content);
        }
    }
    assert!(kept_content.len() > 12);
}
