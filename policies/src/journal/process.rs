//! Which executable a process number stood for, written the first time the number is seen.

use std::collections::HashMap;
use std::os::unix::ffi::OsStringExt;
use std::time::{Duration, Instant};

/// Looks up the executable of a process; `None` when it is gone or hidden.
pub type ExecutableLookup = fn(pid: u32) -> Option<Vec<u8>>;

/// The path of the executable of a live process, from `/proc/<pid>/exe` (proc_pid_exe(5)).
#[must_use]
pub fn executable_of(pid: u32) -> Option<Vec<u8>> {
    let target = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    Some(target.into_os_string().into_vec())
}

/// A number names another program after exec(2) or reuse; a longer memory would name the old one.
const RECHECK: Duration = Duration::from_millis(200);

/// Numbers remembered; when they are more, the memory starts anew and entries repeat, harmlessly.
const CAPACITY: usize = 4096;

/// The processes of which the journal has an entry.
#[derive(Debug)]
pub(super) struct Processes {
    lookup: ExecutableLookup,
    seen: HashMap<u32, Sighting>,
}

#[derive(Debug)]
struct Sighting {
    checked: Instant,
    executable: Vec<u8>,
}

impl Processes {
    pub(super) fn new(lookup: ExecutableLookup) -> Self {
        Self {
            lookup,
            seen: HashMap::new(),
        }
    }

    /// The executable to put on record for `pid` before an entry that names it, when the journal
    /// does not have it yet. 0 is the launcher itself and needs none.
    pub(super) fn news(&mut self, pid: u32) -> Option<Vec<u8>> {
        let now = Instant::now();
        let known = self.seen.get_mut(&pid);
        if pid == 0
            || known
                .as_ref()
                .is_some_and(|seen| now.duration_since(seen.checked) < RECHECK)
        {
            return None;
        }
        let executable = (self.lookup)(pid).unwrap_or_default();
        match known {
            Some(seen) => {
                seen.checked = now;
                // A process that just died keeps the name it had.
                (!executable.is_empty() && seen.executable != executable).then_some(executable)
            }
            None => Some(executable),
        }
    }

    /// Remembers that the journal has this entry.
    pub(super) fn recorded(&mut self, pid: u32, executable: Vec<u8>) {
        if self.seen.len() >= CAPACITY {
            self.seen.clear();
        }
        self.seen.insert(
            pid,
            Sighting {
                checked: Instant::now(),
                executable,
            },
        );
    }
}
