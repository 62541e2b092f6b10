//! Random operations on a disk that is full, and fuller: what fails has not happened.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use aegisfs::layout::SessionDir;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::bed::{Bed, furnish, guard};
use super::crash::Random;
use super::model::Tree;
use super::ops::{self, Op};
use super::soak::soak;
use super::tree::dump;

/// Failures for want of room after which a run ends.
const FAILURES: u32 = 24;

/// A session on a disk of 8 MiB.
struct Disk {
    bed: Bed,
}

impl Disk {
    /// On memory.
    fn memory() -> Self {
        let bed = Bed::furnished();
        let options = Some(c"size=8m");
        let session = bed.root().join("session");
        mount("tmpfs", &session, "tmpfs", MountFlags::empty(), options).unwrap();
        Self::begun(bed)
    }

    /// On an ext4 image; `None` where there are no loop devices.
    fn ext4() -> Option<Self> {
        let bed = Bed::furnished();
        let image = bed.root().join("image");
        File::create(&image).unwrap().set_len(8 << 20).unwrap();
        let made = ran(Command::new("mkfs.ext4")
            .args(["-q", "-m", "0", "-O", "^has_journal"])
            .arg(&image));
        let mut mount = Command::new("mount");
        mount
            .args(["-o", "loop"])
            .arg(&image)
            .arg(bed.root().join("session"));
        (made && ran(&mut mount)).then(|| Self::begun(bed))
    }

    fn begun(bed: Bed) -> Self {
        fs::create_dir(bed.root().join("session/journal")).unwrap();
        Self { bed }
    }

    fn filler(&self) -> PathBuf {
        self.bed.root().join("session/filler")
    }

    /// Leaves about this many bytes free.
    fn leave(&self, bytes: u64) {
        let free = rustix::fs::statvfs(self.bed.root().join("session")).unwrap();
        let free = free.f_bavail * free.f_frsize;
        let file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.filler())
            .unwrap();
        let length = file.metadata().unwrap().len();
        let wanted = (length + free).saturating_sub(bytes);
        if wanted > length {
            let flags = rustix::fs::FallocateFlags::empty();
            let _ = rustix::fs::fallocate(&file, flags, length, wanted - length);
        } else {
            file.set_len(wanted).unwrap();
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = unmount(self.bed.root().join("session"), UnmountFlags::DETACH);
    }
}

fn ran(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

fn model(bed: &Bed) -> PathBuf {
    let model = bed.root().join("model");
    fs::create_dir(&model).unwrap();
    furnish(&model);
    model
}

/// Carries an operation out on both; one for which there is no room has not happened.
fn both(tree: &Tree, model: &Path, op: &Op) -> Result<(), Errno> {
    match tree.run(op) {
        Err(Errno::NOSPC) => Err(Errno::NOSPC),
        done => {
            assert_eq!(done, ops::run(&ops::root(model), op), "{op:?}");
            Ok(())
        }
    }
}

fn fill_and_empty(disk: &Disk, seed: u64) {
    let model = model(&disk.bed);
    let mut random = Random::new(seed);
    let mut tree = Tree {
        guard: disk.bed.guard(),
    };
    let mut failures = 0;
    disk.leave(random.below(50_000));
    while failures < FAILURES {
        let op = random.op();
        if both(&tree, &model, &op).is_ok() {
            continue;
        }
        failures += 1;
        if failures % 4 == 0 {
            // A session is opened on a full disk as on any other.
            drop(tree);
            tree = Tree {
                guard: disk.bed.guard(),
            };
        }
        disk.leave(200_000);
        assert_eq!(tree.dump(), dump(&model), "{op:?} did not fail as a whole");
        both(&tree, &model, &op).unwrap();
        disk.leave(random.below(30_000));
    }
    fs::remove_file(disk.filler()).unwrap();
    drop(tree);
    tree = Tree {
        guard: disk.bed.guard(),
    };
    assert_eq!(tree.dump(), dump(&model));
}

#[test]
fn what_fails_for_want_of_room_has_not_happened() {
    for seed in 0..u64::from(soak(1)) {
        fill_and_empty(&Disk::memory(), seed);
        if let Some(disk) = Disk::ext4() {
            fill_and_empty(&disk, seed);
        }
    }
}

/// A limit of the file size (EFBIG) fails a write as a full disk does. It can not be taken back in
/// the process that set it, so the test starts itself again under one.
#[test]
fn what_fails_for_a_limit_has_not_happened() {
    const INSIDE: &str = "AEGIS_TEST_ROOT_UNDER_A_FILE_SIZE_LIMIT";
    const NAME: &str = "overlay::full_random::what_fails_for_a_limit_has_not_happened";
    if let Some(root) = std::env::var_os(INSIDE) {
        return reach_the_limit(&PathBuf::from(root));
    }
    let bed = Bed::furnished();
    let model = model(&bed);
    let script = format!("trap '' XFSZ; ulimit -f 24; exec /proc/self/fd/9 --exact {NAME}");
    let mut child = Command::new("bash");
    child
        .arg("-c")
        .arg(format!("exec 9</proc/{}/exe; {script}", std::process::id()));
    let output = child.env(INSIDE, bed.root()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert_eq!(Tree { guard: bed.guard() }.dump(), dump(&model), "{said}");
}

fn reach_the_limit(root: &Path) {
    let session = SessionDir::new(root.join("session"));
    let tree = Tree {
        guard: guard(&root.join("project"), &session),
    };
    let model = root.join("model");
    let mut random = Random::new(5);
    let mut failures = 0;
    while failures < FAILURES {
        let op = random.op();
        match tree.run(&op) {
            Err(Errno::FBIG) => failures += 1,
            done => assert_eq!(done, ops::run(&ops::root(&model), &op), "{op:?}"),
        }
    }
}
