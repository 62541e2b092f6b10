//! The face for mount(8): `mount.aegisfs SOURCE MOUNTPOINT [-o OPTIONS]`, and what mount.fuse3(8) makes
//! of `-t fuse.aegis-os`. Returns when the tree can be used.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::options;
use crate::cli::{report, talk};
use crate::error::CommandError;
use crate::session::view::{Access, Wanted};

/// The names under which mount(8) looks for us.
const NAMES: [&[u8]; 4] = [
    b"mount.aegisfs",
    b"mount.fuse.aegisfs",
    b"mount.aegis-os",
    b"mount.fuse.aegis-os",
];
/// The exit statuses of mount(8).
const WRONG_USE: u8 = 1;
const FAILED: u8 = 32;

/// Whether mount(8) started this: by the name, or as mount.fuse3(8) starts a program, with a path where
/// else a command stands.
#[must_use]
pub fn is_asked(arguments: &[OsString]) -> bool {
    let name = arguments.first().map(Path::new).and_then(Path::file_name);
    let name = name.map(OsStr::as_bytes).unwrap_or_default();
    let is_path = |word: &OsString| word.as_bytes().starts_with(b"/");
    NAMES.contains(&name) || name == b"aegis-os" && arguments.get(1).is_some_and(is_path)
}

/// Mounts as mount(8) asked for.
#[must_use]
pub fn main(arguments: &[OsString]) -> ExitCode {
    let order = match Order::parse(arguments.get(1..).unwrap_or_default()) {
        Ok(order) => order,
        Err(error) => {
            report(&error);
            talk::say("usage: mount.aegisfs PROJECT MOUNTPOINT [-o OPTIONS]");
            return ExitCode::from(WRONG_USE);
        }
    };
    if order.is_rehearsal {
        return ExitCode::SUCCESS;
    }
    match super::in_background(order.project, order.mountpoint, order.wanted) {
        Ok(status) if status == ExitCode::SUCCESS => status,
        Ok(_) => ExitCode::from(FAILED),
        Err(error) => {
            report(&error);
            ExitCode::from(FAILED)
        }
    }
}

/// What mount(8) asked for.
#[derive(Debug)]
struct Order {
    project: PathBuf,
    mountpoint: PathBuf,
    wanted: Wanted,
    /// `-f`: do everything but mount.
    is_rehearsal: bool,
}

impl Order {
    fn parse(arguments: &[OsString]) -> Result<Self, CommandError> {
        let mut places = Vec::new();
        let mut wanted = Wanted::default();
        let mut is_rehearsal = false;
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.as_bytes() {
                b"-o" => options::apply(words.next().map_or(OsStr::new(""), |o| o), &mut wanted)?,
                // The type and the namespace: both are settled by the time that this runs.
                b"-t" | b"-N" => drop(words.next()),
                b"-r" | b"--read-only" => wanted.access = Access::ReadOnly,
                b"-w" | b"--rw" | b"--read-write" => wanted.access = Access::Shadow,
                b"-f" | b"--fake" => is_rehearsal = true,
                b"-n" | b"-s" | b"-v" => {}
                flag if flag.starts_with(b"-o") => {
                    let text = OsStr::from_bytes(flag.get(2..).unwrap_or_default());
                    options::apply(text, &mut wanted)?;
                }
                flag if flag.starts_with(b"-") => return Err(wrong("an argument is not known")),
                _ => places.push(word),
            }
        }
        let [project, mountpoint] = places.as_slice() else {
            return Err(wrong("a project and a mount point are needed"));
        };
        // `mount -a` tells by this name that the tree is mounted already.
        if wanted.looks.source == Wanted::default().looks.source {
            wanted.looks.source = (*project).clone();
        }
        Ok(Self {
            project: PathBuf::from(project),
            mountpoint: PathBuf::from(mountpoint),
            wanted,
            is_rehearsal,
        })
    }
}

fn wrong(why: &str) -> CommandError {
    let next = "see `aegis-os mount --help`";
    CommandError::told("the tree can not be mounted", why, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn mount_is_told_from_a_person() {
        for line in [
            "/sbin/mount.aegisfs /p /m",
            "mount.fuse.aegisfs p m -o ro",
            "aegis-os /p /m -o rw,dev,suid",
        ] {
            assert!(is_asked(&words(line)), "{line}");
        }
        for line in ["aegis-os mount /p /m", "aegis-os", "git /p"] {
            assert!(!is_asked(&words(line)), "{line}");
        }
    }

    #[test]
    fn the_forms_of_mount_are_understood() {
        let parse = |line: &str| Order::parse(&words(line));
        let order = parse("/p /m -s -n -v -t fuse.aegisfs -o rw,noauto -oro").unwrap();
        assert_eq!(
            (order.project, order.mountpoint),
            ("/p".into(), "/m".into())
        );
        assert_eq!(order.wanted.access, Access::ReadOnly);
        assert_eq!(order.wanted.looks.source, "/p");
        assert!(!order.is_rehearsal);
        assert!(parse("/p /m -f").unwrap().is_rehearsal);
        assert_eq!(parse("-r /p /m").unwrap().wanted.access, Access::ReadOnly);
        let named = parse("/p /m -o fsname=x").unwrap();
        assert_eq!(named.wanted.looks.source, "x");
        for line in ["/p", "/p /m /x", "/p /m --what", "/p /m -o what"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
