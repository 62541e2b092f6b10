//! File systems that clone, and content of several generations.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use aegis_policies::journal::SnapshotCause;
use aegisfs::overlay::ContentFile;
use rustix::mount::{UnmountFlags, unmount};

use super::super::bed::Bed;
use super::{allocated, bed_with, host_writer, land, maps, open, pattern};

/// A file system of its own on a loop device; none where this machine can not make one.
struct LoopDisk {
    root: tempfile::TempDir,
}

impl LoopDisk {
    fn new(kind: &str, options: &[&str]) -> Option<Self> {
        let root = tempfile::tempdir().unwrap();
        let image = root.path().join("image");
        File::create(&image).unwrap().set_len(512 << 20).unwrap();
        let disk = root.path().join("disk");
        fs::create_dir(&disk).unwrap();
        let run = |command: &mut Command| {
            let output = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
            output.is_ok_and(|status| status.success())
        };
        let made = run(Command::new(format!("mkfs.{kind}"))
            .args(options)
            .arg(&image))
            && run(Command::new("mount")
                .args(["-o", "loop"])
                .args([&image, &disk]));
        if !made {
            #[expect(clippy::print_stderr, reason = "a skipped test says so")]
            {
                eprintln!("skipped: no {kind} on a loop device here (mkfs.{kind}, mount -o loop)");
            }
        }
        made.then_some(Self { root })
    }

    fn path(&self) -> PathBuf {
        self.root.path().join("disk")
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        let _ = unmount(self.path(), UnmountFlags::DETACH);
    }
}

/// Where the host's file system clones, all of a large file is the session's at once, and costs
/// nothing; so does the first write after a snapshot.
fn clones_on(kind: &str, options: &[&str]) {
    let Some(disk) = LoopDisk::new(kind, options) else {
        return;
    };
    let mut bed = Bed::new_in(&disk.path());
    fs::write(bed.project().join("big"), pattern(64 << 20)).unwrap();
    let before = fs::read(bed.project().join("big")).unwrap();
    rustix::fs::sync();
    let free = || rustix::fs::statvfs(disk.path()).unwrap().f_bfree * 4096;
    let start = free();
    let mnt = bed.mount();
    let file = open(&mnt.join("big"));
    file.write_all_at(b"!", 40_000_000).unwrap();
    assert!(maps(&bed).is_empty());
    file.sync_all().unwrap();
    let taken = start.saturating_sub(free());
    assert!(taken < 8 << 20, "{taken} bytes were taken");
    let mut wanted = before.clone();
    wanted[40_000_000] = b'!';
    assert!(fs::read(mnt.join("big")).unwrap() == wanted);
    // What the host writes now is its own.
    assert!(
        host_writer(&bed.project().join("big"), 100)
            .wait()
            .unwrap()
            .success()
    );
    assert!(fs::read(mnt.join("big")).unwrap() == wanted);
    drop(file);
    bed.remount();
    assert!(fs::read(mnt.join("big")).unwrap() == wanted);
    bed.unmount();
}

#[test]
fn btrfs_clones() {
    clones_on("btrfs", &["-q"]);
}

#[test]
fn xfs_clones() {
    clones_on("xfs", &["-q", "-m", "reflink=1"]);
}

/// The first write after a snapshot takes pages as well, and the snapshot keeps what it had.
#[test]
fn a_snapshot_of_a_large_file_costs_what_is_written_after_it() {
    let bed = bed_with(64 << 20);
    let mut wanted = pattern(64 << 20);
    let before = fs::read(bed.project().join("big")).unwrap();
    let guard = Arc::new(bed.guard());
    let served = aegisfs::fuse::mount(&bed.mnt(), Arc::clone(&guard), Default::default()).unwrap();
    let file = open(&bed.mnt().join("big"));
    for round in 0..5_u8 {
        let at = 1_000_000 * usize::from(round) + 77;
        file.write_all_at(&[round; 10], at as u64).unwrap();
        wanted[at..at + 10].fill(round);
        guard
            .overlay()
            .snapshot(None, SnapshotCause::Requested)
            .unwrap();
    }
    file.write_all_at(b"last", 60_000_000).unwrap();
    wanted[60_000_000..60_000_004].copy_from_slice(b"last");
    assert!(fs::read(bed.mnt().join("big")).unwrap() == wanted);
    assert!(allocated(&bed) < 1 << 20, "{}", allocated(&bed));
    assert_eq!(maps(&bed).len(), 6);
    // The host's writer waits for the oldest only: what is above shows it.
    assert!(
        host_writer(&bed.project().join("big"), 100)
            .wait()
            .unwrap()
            .success()
    );
    assert!(fs::read(bed.mnt().join("big")).unwrap() == wanted);
    drop(file);
    served.unmount().unwrap();
    drop(guard);
    let server = bed.serve();
    assert!(fs::read(bed.mnt().join("big")).unwrap() == wanted);
    server.kill();
    assert!(before != fs::read(bed.project().join("big")).unwrap());
}

/// A landing replaces the host's file that a snapshot's content still shows: that is copied first.
#[test]
fn what_a_snapshot_has_outlives_a_landing() {
    let bed = bed_with(8 << 20);
    let mut first = pattern(8 << 20);
    let guard = Arc::new(bed.guard());
    let served = aegisfs::fuse::mount(&bed.mnt(), Arc::clone(&guard), Default::default()).unwrap();
    let file = open(&bed.mnt().join("big"));
    file.write_all_at(b"first", 1_000_000).unwrap();
    first[1_000_000..1_000_005].copy_from_slice(b"first");
    let older = maps(&bed).remove(0).with_extension("");
    let cause = SnapshotCause::Requested;
    guard.overlay().snapshot(None, cause).unwrap();
    file.write_all_at(b"second", 2_000_000).unwrap();
    drop(file);
    served.unmount().unwrap();
    drop(guard);
    land(&bed);
    let project = File::open(bed.project()).unwrap();
    let relocations = || aegisfs::commit::relocations(&bed.session()).unwrap();
    let mut kept = ContentFile::open(&older, project.as_fd(), &relocations).unwrap();
    let mut bytes = Vec::new();
    kept.read_to_end(&mut bytes).unwrap();
    assert!(bytes == first && !kept.is_torn());
}
