//! Who does the work: whoever measures, or an ordinary user when that is root.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::Outcome;

/// The user that does the work when root measures; the set-up makes it.
const ORDINARY: &str = "aegis-test";

/// A user and a group.
#[derive(Clone, Copy)]
pub(crate) struct Person {
    uid: u32,
    gid: u32,
}

impl Person {
    /// Whoever measures, or the ordinary user when that is root.
    pub(crate) fn ordinary() -> Outcome<Self> {
        let myself = fs::metadata("/proc/self")?;
        if myself.uid() != 0 {
            return Ok(Self {
                uid: myself.uid(),
                gid: myself.gid(),
            });
        }
        let users = fs::read_to_string("/etc/passwd")?;
        let line = users
            .lines()
            .find(|line| line.starts_with(&format!("{ORDINARY}:")));
        let fields: Vec<&str> = line
            .ok_or("the user aegis-test is missing: run tests/setup.sh bench")?
            .split(':')
            .collect();
        match fields.as_slice() {
            [_, _, uid, gid, ..] => Ok(Self {
                uid: uid.parse()?,
                gid: gid.parse()?,
            }),
            _ => Err("the password file can not be understood".into()),
        }
    }

    /// Lets `command` run as this person.
    pub(crate) fn takes(self, command: &mut Command) -> &mut Command {
        if is_root() {
            command.uid(self.uid).gid(self.gid);
        }
        command
    }

    /// Gives a file to this person.
    pub(crate) fn owns(self, path: &Path) -> Outcome<()> {
        Ok(std::os::unix::fs::lchown(
            path,
            Some(self.uid),
            Some(self.gid),
        )?)
    }
}

/// Whether root measures.
pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|facts| facts.uid() == 0)
}
