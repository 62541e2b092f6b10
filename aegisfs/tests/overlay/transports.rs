//! What carries the requests, and how a mount ends.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use aegisfs::fuse::{self, Feature, Options, Served, Transport};
use rustix::fs::OFlags;
use rustix::mount::{UnmountFlags, unmount};

use super::bed::Bed;
use super::tree::fingerprint;

const TRANSPORTS: [Transport; 3] = [Transport::Device, Transport::IoUring, Transport::Fuser];
/// Longer than anything here takes; what is not done by then hangs.
const FOR_EVER: Duration = Duration::from_secs(120);

fn serve(bed: &Bed, transport: Transport) -> Served {
    let options = Options {
        transport,
        ..Options::default()
    };
    fuse::mount(&bed.mnt(), Arc::new(bed.guard()), options).unwrap()
}

fn ends(what: &str, work: impl FnOnce() + Send + 'static) {
    let (done, waiting) = channel();
    let worker = std::thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    // When the worker panics its end is dropped, and joining it tells.
    if waiting.recv_timeout(FOR_EVER) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
        panic!("{what} hangs");
    }
    worker.join().unwrap();
}

#[test]
fn every_transport_carries_every_size_and_says_what_it_is() {
    for transport in TRANSPORTS {
        let bed = Bed::furnished();
        let served = serve(&bed, transport);
        let features = served.features().clone();
        let rings = features.features.iter().find(|it| it.name == "io_uring");
        let rings = rings.is_some_and(|it| it.in_force);
        match transport {
            Transport::IoUring if !rings => {
                eprintln!("rings are not offered here: {features:?}");
                assert_eq!(features.transport, Transport::Device);
            }
            asked => assert_eq!(features.transport, asked),
        }
        let path = bed.mnt().join("big");
        let mut content: Vec<u8> = (0..5_000_003_u32).map(|it| (it >> 3) as u8).collect();
        let file = File::create_new(&path).unwrap();
        for size in [1, 4095, 4096, 131_072, 1 << 20, 5_000_003] {
            file.write_all_at(&content[..size], 0).unwrap();
        }
        content.truncate(4_000_001);
        file.set_len(4_000_001).unwrap();
        drop(file);
        served.unmount().unwrap();
        let served = serve(&bed, transport);
        assert!(fs::read(&path).unwrap() == content, "{transport:?}");
        for number in 0..300 {
            fs::write(bed.mnt().join(format!("a/{number}")), number.to_string()).unwrap();
        }
        assert_eq!(fs::read_dir(bed.mnt().join("a")).unwrap().count(), 303);
        assert_eq!(fs::read(bed.mnt().join("a/299")).unwrap(), b"299");
        served.unmount().unwrap();
    }
}

/// Uses a mount in several ways until told to stop; errors are of no account.
fn use_up(mnt: &Path, number: usize, stop: &AtomicBool) {
    let mut held = File::create(mnt.join(format!("held{number}"))).ok();
    while !stop.load(Ordering::Relaxed) {
        let _ = fs::read(mnt.join("a/x"));
        let _ = fs::write(mnt.join(format!("new{number}")), [0; 70_000]);
        let _ = fs::read_dir(mnt.join("a")).map(Iterator::count);
        let _ = held.as_mut().map(|file| file.write_all(b"more"));
    }
}

#[test]
fn an_unmount_under_load_ends() {
    for transport in TRANSPORTS {
        // fuser tells who uses the mount that it is busy.
        let bed = Bed::furnished();
        let served = serve(&bed, transport);
        let stop = Arc::new(AtomicBool::new(false));
        let users: Vec<_> = (0..4)
            .map(|number| {
                let (mnt, stop) = (bed.mnt(), Arc::clone(&stop));
                std::thread::spawn(move || use_up(&mnt, number, &stop))
            })
            .collect();
        std::thread::sleep(Duration::from_millis(200));
        ends("the unmount", move || served.unmount().unwrap());
        stop.store(true, Ordering::Relaxed);
        for user in users {
            user.join().unwrap();
        }
        assert!(!is_mounted(&bed.mnt()), "{transport:?}");
        // What was acknowledged is there.
        let served = serve(&bed, transport);
        assert!(bed.mnt().join("held0").exists());
        served.unmount().unwrap();
    }
}

#[test]
fn an_unmount_from_outside_is_an_end_like_any_other() {
    for transport in TRANSPORTS {
        for flags in [UnmountFlags::empty(), UnmountFlags::DETACH] {
            let bed = Bed::furnished();
            let served = serve(&bed, transport);
            fs::write(bed.mnt().join("new"), "new").unwrap();
            unmount(bed.mnt(), flags).unwrap();
            ends("the server", move || served.wait().unwrap());
            assert!(bed.changes().iter().any(|it| it.path.as_bytes() == b"new"));
        }
    }
}

#[test]
fn a_connection_that_is_aborted_is_an_end_too() {
    use std::os::linux::fs::MetadataExt;
    for transport in TRANSPORTS {
        let bed = Bed::furnished();
        let served = serve(&bed, transport);
        let device = fs::metadata(bed.mnt()).unwrap().st_dev();
        let switch = format!(
            "/sys/fs/fuse/connections/{}/abort",
            rustix::fs::minor(device)
        );
        if fs::write(&switch, "1").is_err() {
            eprintln!("`{switch}` is not there");
            return;
        }
        ends("the server", move || served.unmount().unwrap());
        assert!(!is_mounted(&bed.mnt()));
    }
}

#[test]
fn a_mount_by_way_of_a_link_is_taken_away() {
    let bed = Bed::furnished();
    let link = bed.root().join("link");
    std::os::unix::fs::symlink(bed.mnt(), &link).unwrap();
    let served = fuse::mount(&link, Arc::new(bed.guard()), Options::default()).unwrap();
    assert!(link.join("x").exists());
    served.unmount().unwrap();
    assert!(!is_mounted(&bed.mnt()));
}

#[test]
fn what_was_mounted_in_its_place_stays() {
    let bed = Bed::furnished();
    let served = serve(&bed, Transport::Device);
    unmount(bed.mnt(), UnmountFlags::DETACH).unwrap();
    let other = Bed::furnished();
    let later = fuse::mount(&bed.mnt(), Arc::new(other.guard()), Options::default()).unwrap();
    ends("the first one", move || served.unmount().unwrap());
    assert!(is_mounted(&bed.mnt()));
    later.unmount().unwrap();
}

#[test]
fn a_mount_goes_with_its_value() {
    let bed = Bed::furnished();
    drop(serve(&bed, Transport::Device));
    assert!(!is_mounted(&bed.mnt()));
}

#[test]
fn read_only_is_refused_by_the_kernel() {
    for transport in TRANSPORTS {
        let bed = Bed::furnished();
        let options = Options {
            transport,
            read_only: true,
            ..Options::default()
        };
        let served = fuse::mount(&bed.mnt(), Arc::new(bed.guard()), options).unwrap();
        let refused = fs::write(bed.mnt().join("x"), "").unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        served.unmount().unwrap();
    }
}

#[test]
fn what_is_in_force_can_be_written_down() {
    let bed = Bed::furnished();
    let served = serve(&bed, Transport::Device);
    let features = served.features().clone();
    let text = serde_json::to_string(&features).unwrap();
    assert_eq!(
        serde_json::from_str::<fuse::Features>(&text).unwrap(),
        features
    );
    assert!(
        features
            .features
            .iter()
            .all(|Feature { note, in_force, .. }| *in_force || !note.is_empty())
    );
    served.unmount().unwrap();
}

fn is_mounted(place: &Path) -> bool {
    let place: PathBuf = fs::canonicalize(place).unwrap_or_else(|_| place.to_owned());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts
        .lines()
        .any(|line| line.split(' ').nth(1) == place.to_str())
}

/// A file that is read past the server is one that nobody can write, and reads as ever.
#[test]
fn what_the_kernel_reads_by_itself_is_never_written() {
    let bed = Bed::furnished();
    let big: Vec<u8> = (0..700_000_u32).map(|it| (it >> 4) as u8).collect();
    fs::write(bed.project().join("big"), &big).unwrap();
    let before = fingerprint(&bed.project());
    let options = Options {
        read_only: true,
        ..Options::default()
    };
    let guard = Arc::new(bed.guard().read_only());
    let served = fuse::mount(&bed.mnt(), guard, options).unwrap();
    let features = served.features().features.clone();
    let passed = features.iter().find(|it| it.name == "passthrough").unwrap();
    eprintln!("passthrough: {passed:?}");
    let path = bed.mnt().join("big");
    let readers = [File::open(&path).unwrap(), File::open(&path).unwrap()];
    assert!(fs::read(&path).unwrap() == big);
    for flags in [OFlags::RDWR, OFlags::WRONLY | OFlags::TRUNC] {
        let refused = rustix::fs::open(&path, flags, rustix::fs::Mode::empty());
        assert_eq!(refused.unwrap_err(), rustix::io::Errno::ROFS);
    }
    // A program may also be mapped.
    let mapped = std::process::Command::new("cmp")
        .arg(&path)
        .arg(bed.project().join("big"))
        .status();
    assert!(mapped.unwrap().success());
    drop(readers);
    assert!(fs::read(&path).unwrap() == big, "opened anew");
    assert_eq!(
        fs::read(bed.mnt().join("x")).unwrap(),
        fs::read(bed.project().join("x")).unwrap()
    );
    served.unmount().unwrap();
    assert_eq!(fingerprint(&bed.project()), before);
    // Where something can be written, nothing is read past the server.
    let served = serve(&bed, Transport::Device);
    let features = &served.features().features;
    assert!(
        features
            .iter()
            .any(|it| it.name == "passthrough" && !it.in_force)
    );
    served.unmount().unwrap();
}
