//! What fsync(2) and its like mean: what is on the disk when they return, as a machine would find it
//! that lost its power then.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use rustix::process::{Signal, kill_process};

use super::super::bed::Bed;
use super::super::mounted::wait_until;
use super::super::tools::run;

/// A session on a disk of its own.
struct Disk {
    bed: Bed,
    image: PathBuf,
}

impl Disk {
    fn new() -> Self {
        let bed = Bed::furnished();
        let image = bed.root().join("image");
        File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let script = "mkfs.ext4 -q -F image && mount -o loop,commit=300 image session \
            && mkdir session/journal";
        run(bed.root(), "disk", script);
        Self { bed, image }
    }

    /// The tree of the session on a copy of the disk as it is now.
    fn after_a_power_cut(&self, names: &[&str]) -> Vec<Option<String>> {
        let mut other = Bed::new();
        super::super::bed::furnish(&other.project());
        fs::copy(&self.image, other.root().join("image")).unwrap();
        run(other.root(), "copy", "mount -o loop image session");
        let mnt = other.mount();
        let text = |name: &&str| fs::read_to_string(mnt.join(name)).ok();
        let found = names.iter().map(text).collect();
        other.unmount();
        run(other.root(), "copy", "umount session");
        found
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.bed.unmount();
        let _ = Command::new("umount")
            .arg("-l")
            .arg(self.bed.root().join("session"))
            .status();
    }
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn fsync_of_a_file_keeps_it_and_everything_recorded_before() {
    let mut disk = Disk::new();
    let mnt = disk.bed.mount();
    fs::rename(mnt.join("a/y"), mnt.join("moved")).unwrap();
    fs::remove_file(mnt.join("d/z")).unwrap();
    for (name, data_only) in [("new", false), ("x", true)] {
        fs::write(mnt.join(name), name).unwrap();
        let file = File::open(mnt.join(name)).unwrap();
        if data_only {
            file.sync_data()
        } else {
            file.sync_all()
        }
        .unwrap();
        assert_eq!(disk.after_a_power_cut(&[name]), [some(name)]);
    }
    let moved = fs::read_to_string(mnt.join("moved")).unwrap();
    assert_eq!(
        disk.after_a_power_cut(&["moved", "d/z", "a/y"]),
        [some(&moved), None, None]
    );
}

/// The way of editors and databases: write, fsync, rename, fsync the directory.
#[test]
fn fsync_of_a_directory_keeps_its_names() {
    let mut disk = Disk::new();
    let mnt = disk.bed.mount();
    fs::write(mnt.join("a/x.tmp"), "replaced").unwrap();
    File::open(mnt.join("a/x.tmp")).unwrap().sync_all().unwrap();
    fs::rename(mnt.join("a/x.tmp"), mnt.join("a/x")).unwrap();
    File::open(mnt.join("a")).unwrap().sync_all().unwrap();
    assert_eq!(
        disk.after_a_power_cut(&["a/x", "a/x.tmp"]),
        [some("replaced"), None]
    );
}

#[test]
fn o_sync_means_every_write() {
    let mut disk = Disk::new();
    let mnt = disk.bed.mount();
    let script = "dd if=/dev/zero of=big bs=4k count=16 oflag=sync status=none \
        && printf 'synced' | dd of=x oflag=dsync conv=notrunc status=none";
    run(&mnt, "dd", script);
    let [big, x] = &disk.after_a_power_cut(&["big", "x"])[..] else {
        panic!()
    };
    assert_eq!(big.as_ref().map(String::len), Some(65536));
    assert!(x.as_ref().unwrap().starts_with("synced"));
}

/// The session's files are files of the host, so sync(2), which is for all, takes them along.
#[test]
fn sync_keeps_everything() {
    let mut disk = Disk::new();
    let mnt = disk.bed.mount();
    fs::write(mnt.join("a/new"), "new").unwrap();
    fs::write(mnt.join("x"), "written").unwrap();
    rustix::fs::sync();
    assert_eq!(
        disk.after_a_power_cut(&["a/new", "x"]),
        [some("new"), some("written")]
    );
}

/// The kernel keeps syncfs(2) to itself on a mount like this one: it returns while the server can
/// not answer anything.
#[test]
fn syncfs_does_not_reach_the_server() {
    let bed = Bed::furnished();
    let server = bed.serve();
    fs::write(bed.mnt().join("new"), "new").unwrap();
    let folders = [
        File::open(bed.mnt()).unwrap(),
        File::open(bed.mnt()).unwrap(),
    ];
    kill_process(server.pid(), Signal::STOP).unwrap();
    let [whole, folder] = folders;
    let whole = thread::spawn(move || rustix::fs::syncfs(whole));
    let folder = thread::spawn(move || folder.sync_all());
    wait_until(|| whole.is_finished());
    let blocked = !folder.is_finished();
    kill_process(server.pid(), Signal::CONT).unwrap();
    whole.join().unwrap().unwrap();
    folder.join().unwrap().unwrap();
    server.kill();
    assert!(blocked);
}
