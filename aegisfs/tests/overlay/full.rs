//! A full disk: the caller is told, nothing is half done, and room can be made again.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::bed::Bed;
use super::tree::dump;

/// A session on a disk of 4 MiB.
struct Small {
    bed: Bed,
}

impl Small {
    fn new() -> Self {
        let bed = Bed::furnished();
        let options = Some(c"size=4m");
        let session = bed.root().join("session");
        mount("tmpfs", &session, "tmpfs", MountFlags::empty(), options).unwrap();
        fs::create_dir(session.join("journal")).unwrap();
        Self { bed }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        self.bed.unmount();
        let _ = unmount(self.bed.root().join("session"), UnmountFlags::DETACH);
    }
}

#[test]
fn a_full_disk_is_told_and_can_be_emptied() {
    let mut small = Small::new();
    let mnt = small.bed.mount();
    let mut count = 0;
    let full = |error: std::io::Error| assert_eq!(error.raw_os_error(), Some(28), "{error}");
    full(fs::write(mnt.join("big"), vec![1; 8 << 20]).unwrap_err());
    full(fill(&mnt).unwrap_err());
    // Copy-up needs room that is not there.
    full(
        fs::OpenOptions::new()
            .append(true)
            .open(mnt.join("x"))
            .and_then(|mut file| std::io::Write::write_all(&mut file, &[2; 65536]))
            .unwrap_err(),
    );
    assert_eq!(
        fs::read(mnt.join("a/y")).unwrap(),
        fs::read(small.bed.project().join("a/y")).unwrap()
    );
    // A file without content frees nothing, so its removal needs the reserve.
    while symlink("x", mnt.join(format!("{}-{count}", "l".repeat(200)))).is_ok() {
        count += 1;
    }
    for number in 0..count {
        fs::remove_file(mnt.join(format!("{}-{number}", "l".repeat(200)))).unwrap();
    }
    fs::remove_file(mnt.join("big")).unwrap();
    super::mounted::wait_until(|| fs::write(mnt.join("after"), vec![3; 1 << 20]).is_ok());
    let before = dump(&mnt);
    small.bed.remount();
    assert_eq!(dump(&mnt), before);
}

/// Makes files until there is no room for another.
fn fill(mnt: &Path) -> std::io::Result<()> {
    for number in 0.. {
        fs::write(mnt.join(format!("fill-{number}")), vec![0; 3000])?;
    }
    Ok(())
}
