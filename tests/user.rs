//! The ordinary user that everything under test runs as.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const TEST_USER: &str = "aegis-test";

/// An ordinary user of this machine.
#[derive(Clone, Debug)]
pub struct User {
    /// The log-in name.
    pub name: String,
    /// The user id; never 0.
    pub uid: u32,
    /// The id of the main group.
    pub gid: u32,
    /// The home directory from the password file.
    pub home: PathBuf,
    switch: bool,
}

impl User {
    /// `aegis-test` when the suite runs as root, else whoever runs it.
    #[must_use]
    pub fn ordinary() -> Self {
        let myself = fs::metadata("/proc/self").expect("/proc is mounted");
        let switch = myself.uid() == 0;
        let found = fs::read_to_string("/etc/passwd")
            .expect("/etc/passwd can be read")
            .lines()
            .filter_map(|line| Self::parse(line, switch))
            .find(|user| {
                if switch {
                    user.name == TEST_USER
                } else {
                    user.uid == myself.uid()
                }
            });
        found.expect("the user to test as is missing; run `tests/setup.sh test`")
    }

    fn parse(line: &str, switch: bool) -> Option<Self> {
        let fields: Vec<&str> = line.split(':').collect();
        Some(Self {
            name: (*fields.first()?).to_owned(),
            uid: fields.get(2)?.parse().ok()?,
            gid: fields.get(3)?.parse().ok()?,
            home: PathBuf::from(fields.get(5)?),
            switch,
        })
    }

    /// Whether the suite runs as root and switches to this user.
    #[must_use]
    pub const fn is_switched_to(&self) -> bool {
        self.switch
    }

    /// Makes a command run as this user.
    pub fn apply(&self, command: &mut Command) {
        if self.switch {
            // As root, std also drops the supplementary groups.
            command.uid(self.uid).gid(self.gid);
        }
    }

    /// Gives this user a file or directory.
    pub fn own(&self, path: &Path) {
        if self.switch {
            std::os::unix::fs::lchown(path, Some(self.uid), Some(self.gid)).unwrap();
        }
    }
}
