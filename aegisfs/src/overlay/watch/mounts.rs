//! What is mounted inside the project. Mounting on a directory raises no event of that directory,
//! but the list of mounts can be polled (proc_pid_mountinfo(5)).

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, PoisonError};

const LIST: &str = "/proc/self/mountinfo";
/// Where the place of a mount is in a line of the list.
const PLACE: usize = 4;

/// The mounts inside a directory.
#[derive(Debug)]
pub(super) struct Mounts {
    list: File,
    /// The place of the directory as the list writes it.
    top: Vec<u8>,
    seen: Mutex<Vec<u8>>,
}

impl Mounts {
    /// The mounts inside `top`; nothing where they are not to be had.
    pub(super) fn below(top: impl AsFd) -> Option<Self> {
        let path = format!("/proc/self/fd/{}", top.as_fd().as_raw_fd());
        let path = std::fs::read_link(path).ok()?;
        let mounts = Self {
            list: File::open(LIST).ok()?,
            top: escaped(path.as_os_str().as_bytes()),
            seen: Mutex::default(),
        };
        mounts.changed();
        Some(mounts)
    }

    /// What to poll for POLLPRI.
    pub(super) fn list(&self) -> BorrowedFd<'_> {
        self.list.as_fd()
    }

    /// Whether something was mounted or unmounted inside since the last time.
    pub(super) fn changed(&self) -> bool {
        let Ok(list) = std::fs::read(LIST) else {
            return true;
        };
        let lines = list.split_inclusive(|byte| *byte == b'\n');
        let inside: Vec<u8> = lines
            .filter(|line| self.is_inside(line))
            .flatten()
            .copied()
            .collect();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = *seen != inside;
        *seen = inside;
        changed
    }

    fn is_inside(&self, line: &[u8]) -> bool {
        let place = line.split(|byte| *byte == b' ').nth(PLACE);
        let rest = place.and_then(|place| place.strip_prefix(self.top.as_slice()));
        rest.is_some_and(|rest| rest.starts_with(b"/"))
    }
}

/// Blanks, line ends and backslashes of a place are octal numbers in the list.
fn escaped(path: &[u8]) -> Vec<u8> {
    let escape = |byte: &u8| match byte {
        b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}").into_bytes(),
        byte => vec![*byte],
    };
    path.iter().flat_map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_written_as_in_the_list() {
        assert_eq!(escaped(b"/a b/c\\d\n"), b"/a\\040b/c\\134d\\012");
    }

    #[test]
    fn only_what_is_inside_counts() {
        let mounts = Mounts {
            list: File::open(LIST).unwrap(),
            top: b"/p".to_vec(),
            seen: Mutex::default(),
        };
        let line = |place: &str| format!("36 35 98:0 / {place} rw - ext4 /dev/x rw\n");
        assert!(mounts.is_inside(line("/p/q").as_bytes()));
        for outside in ["/p", "/pq", "/", "/q/p/r"] {
            assert!(!mounts.is_inside(line(outside).as_bytes()), "{outside}");
        }
    }
}
