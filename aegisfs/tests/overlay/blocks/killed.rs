//! Servers that are killed while they hold files of which a part is still the host's.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use rustix::io::{Errno, pwrite};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Signal, kill_process};

use super::super::soak::soak;
use super::{bed_with, open, pattern};

/// A change of the file that is killed at some moment.
#[derive(Clone, Debug)]
enum Op {
    Write(u64, Vec<u8>),
    Truncate(u64),
    Punch(u64, u64),
}

impl Op {
    fn any() -> impl Strategy<Value = Op> {
        let at = || {
            prop_oneof![
                0..CRASHED as u64,
                (0..CRASHED as u64 / 4096).prop_map(|page| page * 4096)
            ]
        };
        let length = || prop_oneof![1..300_usize, Just(4096), 1..40_000_usize];
        prop_oneof![
            8 => (at(), any::<u8>(), length()).prop_map(|(at, byte, n)| Op::Write(at, vec![byte; n])),
            1 => (CRASHED as u64 / 2..CRASHED as u64).prop_map(Op::Truncate),
            1 => (at(), length()).prop_map(|(at, n)| Op::Punch(at, n as u64)),
        ]
    }

    fn run(&self, file: &File) -> Result<(), Errno> {
        match self {
            Self::Write(at, data) => write_all(file, data, *at),
            Self::Truncate(size) => ftruncate(file, *size),
            Self::Punch(at, length) => {
                let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(file, mode, *at, *length)
            }
        }
    }

    fn apply(&self, model: &mut Vec<u8>) {
        match self {
            Self::Write(at, data) => {
                let at = *at as usize;
                model.resize(model.len().max(at + data.len()), 0);
                model[at..at + data.len()].copy_from_slice(data);
            }
            Self::Truncate(size) => model.resize(*size as usize, 0),
            Self::Punch(at, length) => {
                let end = ((at + length) as usize).min(model.len());
                let at = (*at as usize).min(end);
                model[at..end].fill(0);
            }
        }
    }
}

const CRASHED: usize = 8 << 20;
/// More than what is copied as a whole.
const SMALL: usize = 5 << 20;

fn write_all(file: &File, mut data: &[u8], mut at: u64) -> Result<(), Errno> {
    while !data.is_empty() {
        let written = pwrite(file, data, at)?;
        data = &data[written..];
        at += written as u64;
    }
    Ok(())
}

/// The file is the model's; of the change that was under way each byte has come or has not, and a
/// write that makes the file longer may have ended early.
fn agree(found: &[u8], model: &[u8], pending: Option<&Op>, life: u64) {
    let mut after = model.to_vec();
    if let Some(op) = pending {
        op.apply(&mut after);
    }
    if found == model || found == after {
        return;
    }
    let lengths = model.len().min(after.len())..=model.len().max(after.len());
    assert!(
        lengths.contains(&found.len()),
        "life {life}: {} bytes",
        found.len()
    );
    let wrong = found.iter().enumerate().find(|(at, byte)| {
        let told = [model.get(*at), after.get(*at)];
        !told.contains(&Some(*byte))
    });
    assert_eq!(wrong, None, "life {life}");
}

#[test]
fn nothing_acknowledged_is_lost_by_a_kill() {
    let bed = bed_with(CRASHED);
    let mut model = pattern(CRASHED);
    let mut runner = TestRunner::deterministic();
    let mut pending = None;
    let mut acknowledged = 0;
    for life in 0..u64::from(soak(15)) {
        let server = bed.serve();
        let found = fs::read(bed.mnt().join("big")).unwrap();
        agree(&found, &model, pending.take().as_ref(), life);
        model = found;
        let file = open(&bed.mnt().join("big"));
        let delay = (0..15_000_u64).new_tree(&mut runner).unwrap().current();
        let pid = server.pid();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_micros(delay));
                kill_process(pid, Signal::KILL).unwrap();
            });
            loop {
                let op = Op::any().new_tree(&mut runner).unwrap().current();
                if op.run(&file).is_err() {
                    pending = Some(op);
                    break;
                }
                op.apply(&mut model);
                acknowledged += 1;
            }
        });
        drop(file);
        server.kill();
    }
    let server = bed.serve();
    let found = fs::read(bed.mnt().join("big")).unwrap();
    agree(&found, &model, pending.as_ref(), u64::MAX);
    server.kill();
    assert!(
        acknowledged > 15,
        "only {acknowledged} changes were acknowledged"
    );
    assert!(fs::read(bed.project().join("big")).unwrap() == pattern(CRASHED));
}

/// The server dies at one system call after another, of those that change something: strace(1) kills
/// it before the call.
#[test]
fn a_kill_at_any_system_call_loses_nothing() {
    if Command::new("strace")
        .arg("-V")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        eprintln!("skipped: strace is not installed");
        return;
    }
    let mut runner = TestRunner::deterministic();
    let calls = [
        "pwrite64",
        "ftruncate",
        "renameat",
        "unlinkat",
        "write",
        "fallocate",
    ];
    for point in 0..u64::from(soak(24)) {
        let call = calls[(point % 6) as usize];
        let at = 1 + point / 6 + (0..3_u64).new_tree(&mut runner).unwrap().current();
        let bed = bed_with(SMALL);
        let inject = format!("inject={call}:signal=KILL:when={at}");
        let trace = format!("trace={call}");
        let strace = [
            "strace",
            "-f",
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            &trace,
            "-e",
            &inject,
        ];
        let mut model = pattern(SMALL);
        let mut pending = None;
        if let Some(server) = bed.serve_under(&strace) {
            pending = changes_until_it_fails(&bed.mnt().join("big"), &mut model, &mut runner);
            server.end();
        }
        let _ = unmount(bed.mnt(), UnmountFlags::DETACH);
        let server = bed.serve();
        let found = fs::read(bed.mnt().join("big")).unwrap();
        agree(&found, &model, pending.as_ref(), point);
        server.kill();
    }
}

/// A few changes of a file; the one that failed, when one did.
fn changes_until_it_fails(path: &Path, model: &mut Vec<u8>, runner: &mut TestRunner) -> Option<Op> {
    let file = OpenOptions::new().read(true).write(true).open(path).ok()?;
    for _ in 0..12 {
        let op = Op::any().new_tree(runner).unwrap().current();
        if op.run(&file).is_err() {
            return Some(op);
        }
        op.apply(model);
    }
    None
}

/// The server dies while a program of the host waits for the rest: what was copied is of the old
/// version, what was not is lost, and nothing is of the new one.
#[test]
fn a_kill_while_the_rest_is_copied_mixes_nothing() {
    for round in 0..8_u64 {
        let bed = bed_with(CRASHED);
        let server = bed.serve();
        let file = open(&bed.mnt().join("big"));
        file.write_all_at(b"ours", 3_000_000).unwrap();
        let mut model = pattern(CRASHED);
        model[3_000_000..3_000_004].copy_from_slice(b"ours");
        let path = bed.project().join("big");
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "head -c 8388608 /dev/zero | dd of=\"$1\" bs=64K conv=notrunc status=none",
            "sh",
        ]);
        let mut writer = command.arg(&path).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(1500 * round));
        drop(file);
        server.kill();
        assert!(writer.wait().unwrap().success());
        let server = bed.serve();
        let file = open(&bed.mnt().join("big"));
        let mut page = [0; 4096];
        for at in (0..CRASHED).step_by(4096) {
            match file.read_exact_at(&mut page, at as u64) {
                Ok(()) => assert!(page == model[at..at + 4096], "round {round}, byte {at}"),
                Err(error) => assert_eq!(error.raw_os_error(), Some(5), "{error}"),
            }
        }
        drop(file);
        server.kill();
    }
}
