//! What folders take on the disk.

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RawMode, Stat, openat, statat};
use rustix::io::Errno;

/// What has been counted.
#[derive(Debug, Default)]
pub struct Usage {
    /// Bytes that are allocated.
    pub bytes: u64,
    /// Folders that could not be looked into.
    pub unreadable: usize,
    seen: HashSet<(u64, u64)>,
    device: Option<u64>,
}

/// A folder that is being counted.
struct Open {
    folder: OwnedFd,
    left: Vec<CString>,
}

impl Usage {
    /// Counts `name` in `parent` with everything below it; nothing when it is not there. Links are
    /// not followed, other file systems not entered, and a file with several names is counted once.
    ///
    /// # Errors
    /// When it can not be looked at.
    pub fn add(&mut self, parent: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
        let mut stack: Vec<Open> = Vec::new();
        match self.enter(parent, name) {
            Err(Errno::NOENT) => return Ok(()),
            entered => stack.extend(entered?),
        }
        while let Some(top) = stack.last_mut() {
            let Some(name) = top.left.pop() else {
                stack.pop();
                continue;
            };
            match self.enter(top.folder.as_fd(), &name) {
                // It went meanwhile.
                Err(Errno::NOENT) => {}
                // An agent may have made it unreadable, or too deep to be followed.
                Err(_) => self.unreadable += 1,
                Ok(entered) => stack.extend(entered),
            }
        }
        Ok(())
    }

    /// Counts one name, and opens it when it is a folder.
    fn enter(&mut self, parent: BorrowedFd<'_>, name: &CStr) -> Result<Option<Open>, Errno> {
        let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if *self.device.get_or_insert(stat.st_dev) != stat.st_dev {
            return Ok(None);
        }
        self.count(&stat);
        if FileType::from_raw_mode(stat.st_mode as RawMode) != FileType::Directory {
            return Ok(None);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(parent, name, flags, Mode::empty())?;
        let mut left = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let name = entry?.file_name().to_owned();
            if !matches!(name.to_bytes(), b"." | b"..") {
                left.push(name);
            }
        }
        Ok(Some(Open { folder, left }))
    }

    fn count(&mut self, stat: &Stat) {
        if stat.st_nlink < 2 || self.seen.insert((stat.st_dev, stat.st_ino)) {
            let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
            self.bytes += blocks.saturating_mul(512);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn allocated_bytes_are_counted_once() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().join("top");
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(top.join("a/file"), vec![1; 100_000]).unwrap();
        fs::hard_link(top.join("a/file"), top.join("a/b/again")).unwrap();
        fs::File::create(top.join("hole"))
            .unwrap()
            .set_len(1 << 30)
            .unwrap();
        std::os::unix::fs::symlink("/", top.join("link")).unwrap();
        let parent = OwnedFd::from(fs::File::open(place.path()).unwrap());
        let mut usage = Usage::default();
        usage.add(parent.as_fd(), c"top").unwrap();
        assert!((100_000..200_000).contains(&usage.bytes), "{}", usage.bytes);
        let before = usage.bytes;
        usage.add(parent.as_fd(), c"missing").unwrap();
        assert_eq!((usage.bytes, usage.unreadable), (before, 0));
    }
}
