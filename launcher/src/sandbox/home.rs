//! The session's private home directory.

use std::ffi::{CStr, OsStr};
use std::io;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::mount::{Kind, What};
use super::{Plan, SandboxError};

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
const NEW_FILE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Who commits are by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// `user.name`.
    pub name: Option<String>,
    /// `user.email`.
    pub email: Option<String>,
    /// `init.defaultBranch`.
    pub default_branch: Option<String>,
}

impl Identity {
    /// Reads three values of the user's own git configuration; includes are not followed and
    /// nothing that it names is run.
    pub(super) fn of_the_user() -> Self {
        // No configuration, or one that cannot be read, is a user who has not said who they are.
        let Ok(path) = git2::Config::find_global().or_else(|_| git2::Config::find_xdg()) else {
            return Self::default();
        };
        let Ok(config) = git2::Config::open(&path) else {
            return Self::default();
        };
        let value = |name| {
            config
                .get_string(name)
                .ok()
                .filter(|value| is_one_line(value))
        };
        Self {
            name: value("user.name"),
            email: value("user.email"),
            default_branch: value("init.defaultBranch"),
        }
    }

    /// A configuration file that holds these values alone.
    pub(super) fn to_config(&self) -> Vec<u8> {
        let mut text = String::new();
        let mut section = |title: &str, values: &[(&str, &Option<String>)]| {
            let lines: String = values
                .iter()
                .filter_map(|(key, value)| value.as_ref().map(|value| (key, value)))
                .map(|(key, value)| format!("\t{key} = {}\n", quote(value)))
                .collect();
            if !lines.is_empty() {
                text.push_str(&format!("[{title}]\n{lines}"));
            }
        };
        section("user", &[("name", &self.name), ("email", &self.email)]);
        section("init", &[("defaultBranch", &self.default_branch)]);
        text.into_bytes()
    }
}

fn is_one_line(value: &str) -> bool {
    !value.chars().any(char::is_control)
}

/// Quotes a value as git-config(1) says: backslash and double quote are escaped.
fn quote(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Makes the mount points of `plan` inside the private home, its links, and its first files.
///
/// Must run while nothing of the session runs. INVARIANT: what an earlier run of the session left
/// in place of a mount point or on the way to it (a link above all) is set aside; bubblewrap would
/// follow it while the host's root is still within reach.
///
/// # Errors
/// [`SandboxError::System`] when something cannot be made.
pub fn prepare(home: BorrowedFd<'_>, plan: &Plan) -> Result<(), SandboxError> {
    let failed = SandboxError::system("preparing the private home");
    let work = || -> io::Result<()> {
        for mount in &plan.mounts {
            // What holds the home or lies beside it is not in it.
            match mount.at.strip_prefix(&plan.home) {
                Ok(below) if below.components().next().is_some() => {
                    place(home, below, &mount.what)?
                }
                _ => {}
            }
        }
        for (name, content) in &plan.home_files {
            write_new(home, name, content)?;
        }
        Ok(())
    };
    work().map_err(failed)
}

fn place(home: BorrowedFd<'_>, below: &Path, what: &What) -> io::Result<()> {
    let name = below.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = below.parent().unwrap_or(Path::new(""));
    let folder = make_directories(home, folder)?;
    match what {
        What::Link(target) => link(folder.as_fd(), name, target),
        What::Empty
        | What::Bind {
            kind: Kind::File, ..
        } => file(folder.as_fd(), name),
        _ => directory(folder.as_fd(), name).map(|_| ()),
    }
}

fn make_directories(home: BorrowedFd<'_>, below: &Path) -> io::Result<OwnedFd> {
    let mut folder = home.try_clone_to_owned()?;
    for component in below.components() {
        let Component::Normal(name) = component else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        folder = directory(folder.as_fd(), name)?;
    }
    Ok(folder)
}

/// Opens a directory, making it in place of whatever else has the name.
fn directory(folder: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    if let Ok(existing) = rustix::fs::openat(folder, name, DIRECTORY, Mode::empty()) {
        return Ok(existing);
    }
    set_aside(folder, name)?;
    rustix::fs::mkdirat(folder, name, Mode::RWXU)?;
    Ok(rustix::fs::openat(folder, name, DIRECTORY, Mode::empty())?)
}

fn file(folder: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    if kind(folder, name)? == Some(FileType::RegularFile) {
        return Ok(());
    }
    set_aside(folder, name)?;
    rustix::fs::openat(folder, name, NEW_FILE, Mode::RUSR | Mode::WUSR)?;
    Ok(())
}

fn link(folder: BorrowedFd<'_>, name: &OsStr, target: &Path) -> io::Result<()> {
    if rustix::fs::readlinkat(folder, name, Vec::new()).is_ok_and(|now| is_target(&now, target)) {
        return Ok(());
    }
    set_aside(folder, name)?;
    Ok(rustix::fs::symlinkat(target, folder, name)?)
}

fn is_target(now: &CStr, target: &Path) -> bool {
    now.to_bytes() == target.as_os_str().as_bytes()
}

fn write_new(home: BorrowedFd<'_>, name: &Path, content: &[u8]) -> io::Result<()> {
    match rustix::fs::openat(home, name, NEW_FILE, Mode::RUSR | Mode::WUSR) {
        Ok(file) => std::fs::File::from(file).write_all(content),
        Err(Errno::EXIST) => Ok(()),
        Err(other) => Err(other.into()),
    }
}

fn kind(folder: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<FileType>> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(status) => Ok(Some(FileType::from_raw_mode(status.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(other) => Err(other.into()),
    }
}

/// Frees a name by giving what has it another one; nothing of the agent's is deleted.
fn set_aside(folder: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    for number in 1_u32.. {
        let mut aside = name.to_owned();
        aside.push(format!(".replaced-{number}"));
        match rustix::fs::renameat_with(folder, name, folder, &aside, RenameFlags::NOREPLACE) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::EXIST) => {}
            Err(other) => return Err(other.into()),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn private_home() -> (tempfile::TempDir, OwnedFd) {
        let folder = tempfile::tempdir().unwrap();
        let home = fs::File::open(folder.path()).unwrap().into();
        (folder, home)
    }

    #[test]
    fn a_mount_point_replaces_what_is_in_its_way() {
        let (folder, home) = private_home();
        let bind = What::Hidden;
        symlink("/etc", folder.path().join("a")).unwrap();
        fs::write(folder.path().join("b"), "kept").unwrap();
        for name in ["a/x/y", "b/x", "c"] {
            place(home.as_fd(), Path::new(name), &bind).unwrap();
            assert!(folder.path().join(name).is_dir());
        }
        assert!(!folder.path().join("a").is_symlink());
        assert_eq!(
            fs::read_to_string(folder.path().join("b.replaced-1")).unwrap(),
            "kept"
        );
        // What is right already stays.
        place(home.as_fd(), Path::new("c"), &bind).unwrap();
        assert!(!folder.path().join("c.replaced-1").exists());
    }

    #[test]
    fn a_link_is_made_anew_only_where_it_leads_elsewhere() {
        let (folder, home) = private_home();
        let tool = What::Link("../share/tool".into());
        symlink("/elsewhere", folder.path().join("tool")).unwrap();
        for _ in 0..2 {
            place(home.as_fd(), Path::new("tool"), &tool).unwrap();
        }
        assert_eq!(
            fs::read_link(folder.path().join("tool")).unwrap(),
            Path::new("../share/tool")
        );
        assert!(!folder.path().join("tool.replaced-2").is_symlink());
    }

    #[test]
    fn a_file_of_the_agent_is_not_written() {
        let (folder, home) = private_home();
        symlink("target", folder.path().join(".gitconfig")).unwrap();
        write_new(home.as_fd(), Path::new(".gitconfig"), b"x").unwrap();
        assert!(!folder.path().join("target").exists());
    }

    #[test]
    fn values_are_quoted_as_git_reads_them() {
        let identity = Identity {
            name: Some("A \"B\" \\ # ; C".to_owned()),
            email: None,
            default_branch: Some("main".to_owned()),
        };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        fs::write(&file, identity.to_config()).unwrap();
        let config = git2::Config::open(&file).unwrap();
        assert_eq!(config.get_string("user.name").ok(), identity.name);
        assert_eq!(
            config.get_string("init.defaultBranch").ok(),
            identity.default_branch
        );
        assert!(config.get_string("user.email").is_err());
    }
}
