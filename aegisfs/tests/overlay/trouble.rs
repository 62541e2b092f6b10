//! The host's side fails, and what comes and goes is let go of.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use aegisfs::fuse::{self, Options};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use super::bed::{Bed, guard, options};

/// Bytes of memory that a process has resident.
fn resident(process: rustix::process::Pid) -> u64 {
    let path = format!("/proc/{}/status", process.as_raw_nonzero());
    let status = fs::read_to_string(path).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_ascii_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        << 10
}

fn failure<T>(result: std::io::Result<T>) -> Option<Errno> {
    result.err().and_then(|error| Errno::from_io_error(&error))
}

/// The file system below is one that can be made to fail: a tree of ours, whose server is killed.
#[test]
fn a_file_system_below_that_fails_is_told_and_the_session_stays() {
    let below = Bed::furnished();
    let server = below.serve();
    let bed = Bed::new();
    fs::create_dir(bed.root().join("view")).unwrap();
    let view = bed.root().join("view");
    let guard = Arc::new(guard(&below.mnt(), &bed.session()));
    let served = fuse::mount(&view, guard, options()).unwrap();
    let before = fs::read(view.join("a/y")).unwrap();
    fs::write(view.join("mine"), "mine").unwrap();
    let mut early = fs::File::open(view.join("a/y")).unwrap();
    let mut touched = OpenOptions::new()
        .append(true)
        .open(view.join("x"))
        .unwrap();
    touched.write_all(b"more").unwrap();
    server.kill();

    // Whatever needs the host fails at once, with the host's own error.
    let told = [
        Some(Errno::NOTCONN),
        Some(Errno::CONNABORTED),
        Some(Errno::IO),
    ];
    assert!(told.contains(&failure(fs::read(view.join("a/z")))));
    assert!(told.contains(&failure(
        fs::read_dir(&view).and_then(Iterator::collect::<Result<Vec<_>, _>>)
    )));
    let mut content = Vec::new();
    // What the kernel has kept may be read, and nothing else.
    match early.read_to_end(&mut content) {
        Ok(_) => assert_eq!(content, before),
        Err(error) => assert!(told.contains(&failure::<()>(Err(error)))),
    }
    // What the session has is there, and can be changed.
    assert_eq!(fs::read(view.join("mine")).unwrap(), b"mine");
    touched.write_all(b"and more").unwrap();
    touched.sync_all().unwrap();
    fs::write(view.join("mine"), "mine still").unwrap();
    assert_eq!(fs::read(view.join("mine")).unwrap(), b"mine still");
    drop((touched, early));
    served.unmount().unwrap();
    let _ = unmount(below.mnt(), UnmountFlags::DETACH);
}

#[test]
fn what_comes_and_goes_takes_no_memory_for_ever() {
    let bed = Bed::new();
    for folder in 0..5 {
        let folder = bed.project().join(format!("folder-{folder}"));
        fs::create_dir(&folder).unwrap();
        for file in 0..100 {
            fs::write(folder.join(format!("file-{file}")), "content").unwrap();
        }
    }
    let server = bed.serve();
    let mnt = bed.mnt();
    // The first rounds fill what is kept on purpose, and the allocator's own pools.
    for round in 0..3 {
        come_and_go(&mnt, round);
    }
    let filled = resident(server.pid());
    for round in 3..10 {
        come_and_go(&mnt, round);
    }
    let later = resident(server.pid());
    assert!(later < filled + (3 << 20), "{filled} bytes, then {later}");
    server.kill();
}

fn come_and_go(mnt: &Path, round: usize) {
    for folder in 0..5 {
        let looked = mnt.join(format!("folder-{folder}"));
        for entry in fs::read_dir(looked).unwrap() {
            assert_eq!(fs::read(entry.unwrap().path()).unwrap(), b"content");
        }
        let made = mnt.join(format!("made-{round}-{folder}"));
        fs::create_dir(&made).unwrap();
        for file in 0..100 {
            fs::write(made.join(format!("file-{file}")), "content").unwrap();
        }
        fs::remove_dir_all(&made).unwrap();
    }
}

/// A mount under load of many threads goes within the time that its users have.
#[test]
fn an_unmount_under_load_is_bounded() {
    let bed = Bed::furnished();
    let guard = Arc::new(guard(&bed.project(), &bed.session()));
    let served = fuse::mount(
        &bed.mnt(),
        guard,
        Options {
            threads: 2,
            ..options()
        },
    )
    .unwrap();
    let mnt = bed.mnt();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (mnt, stop) = (&mnt, &stop);
            scope.spawn(move || {
                let file = OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(mnt.join(format!("log-{number}")));
                let mut file = file.unwrap();
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    if file.write_all(b"line\n").is_err() {
                        return;
                    }
                }
            });
        }
        // In a thread of its own: a hang would be one of the test.
        let (done, waiting) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(served.unmount()));
        let ended = waiting.recv_timeout(std::time::Duration::from_secs(30));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(ended.is_ok(), "the unmount does not end");
    });
}
