//! Finding the command on the host, with every link on the way and what interprets it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access, FileType};

use super::facts::Shown;

/// As many links as the kernel follows (path_resolution(7)).
const MOST_LINKS: usize = 40;
/// The kernel reads this much of a `#!` line (BINPRM_BUF_SIZE).
const LONGEST_INTERPRETER_LINE: u64 = 256;
/// The kernel allows an interpreter to be a script four times over (execve(2)).
const MOST_INTERPRETERS: usize = 4;

/// An executable file of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The links that are passed on the way from its name to the file.
    pub links: Vec<Hop>,
    /// The file itself.
    pub file: PathBuf,
    /// What has to be visible for it to work: the file, or the package that it is part of.
    pub package: PathBuf,
}

/// A symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Where the link is.
    pub at: PathBuf,
    /// Its target as it is written.
    pub target: PathBuf,
}

/// Finds the program of a command line and its interpreters; empty when it was not found.
pub(super) fn find(command: &[OsString], directory: &Path, search: &[Shown]) -> Vec<Program> {
    let mut programs = Vec::new();
    let mut wanted = command.first().cloned();
    while let Some(name) = wanted.take() {
        let Some(program) = locate(&name, directory, search).and_then(|path| trace(&path)) else {
            break;
        };
        if programs.len() <= MOST_INTERPRETERS {
            wanted = interpreter(&program.file);
        }
        programs.push(program);
    }
    programs
}

/// The path of a program, as execvp(3) would find it.
fn locate(name: &OsStr, directory: &Path, search: &[Shown]) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(directory.join(name)).filter(|path| is_executable(path));
    }
    search
        .iter()
        .map(|entry| entry.at.join(name))
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    let is_file = rustix::fs::stat(path)
        .is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::RegularFile);
    is_file && rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

/// Walks a path component by component and notes each link.
fn trace(path: &Path) -> Option<Program> {
    let mut links = Vec::new();
    let mut current = PathBuf::from("/");
    let mut pending: Vec<PathBuf> = split(path);
    while let Some(component) = pending.pop() {
        if component == Path::new("..") {
            current.pop();
            continue;
        }
        let next = current.join(&component);
        let Ok(target) = fs::read_link(&next) else {
            current = next;
            continue;
        };
        if links.len() == MOST_LINKS {
            return None;
        }
        if target.is_absolute() {
            current = PathBuf::from("/");
        }
        pending.extend(split(&target));
        links.push(Hop { at: next, target });
    }
    let package = package_of(&current);
    Some(Program {
        links,
        package,
        file: current,
    })
}

/// The components to walk, last first.
fn split(path: &Path) -> Vec<PathBuf> {
    path.components()
        .rev()
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
        .map(|part| PathBuf::from(part.as_os_str()))
        .collect()
}

/// The package that a file is part of, or the file alone.
///
/// npm puts a global package with all that it needs under `lib/node_modules/NAME`; in any other
/// `node_modules` a package needs its neighbours. A Python environment is marked by `pyvenv.cfg`.
fn package_of(file: &Path) -> PathBuf {
    if let Some(package) = node_package(file) {
        return package;
    }
    match file.parent().and_then(Path::parent) {
        Some(root) if root.join("pyvenv.cfg").is_file() => root.to_owned(),
        _ => file.to_owned(),
    }
}

fn node_package(file: &Path) -> Option<PathBuf> {
    let modules = file
        .ancestors()
        .filter(|ancestor| ancestor.file_name() == Some(OsStr::new("node_modules")))
        .last()?;
    if modules.parent()?.file_name() != Some(OsStr::new("lib")) {
        return Some(modules.to_owned());
    }
    let mut below = file.strip_prefix(modules).ok()?.components();
    let first = below.next()?.as_os_str();
    let package = modules.join(first);
    if first.as_bytes().starts_with(b"@") {
        return Some(package.join(below.next()?));
    }
    Some(package)
}

/// What a script's first line names; `env NAME` names NAME.
fn interpreter(file: &Path) -> Option<OsString> {
    let mut start = Vec::new();
    File::open(file)
        .ok()?
        .take(LONGEST_INTERPRETER_LINE)
        .read_to_end(&mut start)
        .ok()?;
    let line = start
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let mut words = line
        .split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty())
        .map(OsStr::from_bytes);
    let first = words.next()?;
    if Path::new(first).file_name() != Some(OsStr::new("env")) {
        return Some(first.to_owned());
    }
    let is_name =
        |word: &&OsStr| !word.as_bytes().starts_with(b"-") && !word.as_bytes().contains(&b'=');
    words.find(is_name).map(OsStr::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_global_package_is_shown_alone() {
        let file = Path::new("/h/lib/node_modules/@a/b/node_modules/c/cli.js");
        assert_eq!(package_of(file), Path::new("/h/lib/node_modules/@a/b"));
        let file = Path::new("/h/lib/node_modules/tool/cli.js");
        assert_eq!(package_of(file), Path::new("/h/lib/node_modules/tool"));
    }

    #[test]
    fn a_local_package_is_shown_with_its_neighbours() {
        let file = Path::new("/h/tools/node_modules/tool/cli.js");
        assert_eq!(package_of(file), Path::new("/h/tools/node_modules"));
    }

    #[test]
    fn links_are_followed_by_component() {
        let folder = tempfile::tempdir().unwrap();
        let root = super::super::facts::resolve(folder.path()).unwrap();
        fs::create_dir_all(root.join("real/bin")).unwrap();
        fs::write(root.join("real/bin/tool"), "#!/usr/bin/env -S sh -e\n").unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        std::os::unix::fs::symlink("../link/bin/tool", root.join("real/name")).unwrap();
        let program = trace(&root.join("real/name")).unwrap();
        assert_eq!(program.file, root.join("real/bin/tool"));
        let passed: Vec<_> = program.links.iter().map(|hop| hop.at.clone()).collect();
        assert_eq!(passed, [root.join("real/name"), root.join("link")]);
        assert_eq!(interpreter(&program.file), Some("sh".into()));
    }

    #[test]
    fn a_circle_of_links_is_no_program() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("b", folder.path().join("a")).unwrap();
        std::os::unix::fs::symlink("a", folder.path().join("b")).unwrap();
        assert_eq!(trace(&folder.path().join("a")), None);
    }
}
