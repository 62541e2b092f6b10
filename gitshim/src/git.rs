//! `git`: the real one, with settings that repository and environment cannot override.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// As shells report it (POSIX, Shell Command Language 2.8.2).
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;

/// Settings given with `-c`, which git reads after every configuration file and after the
/// variables GIT_CONFIG_COUNT and GIT_CONFIG_PARAMETERS (git-config(1), ENVIRONMENT).
const SETTINGS: [&str; 4] = [
    // git runs this program whenever it looks at the index.
    "core.fsmonitor=false",
    // Hooks are programs of the repository; no file is a hook in this directory.
    "core.hooksPath=/dev/null",
    // A repository that lies inside the project as files must be named to be used.
    "safe.bareRepository=explicit",
    // The transport that runs its address as a command.
    "protocol.ext.allow=never",
];

/// Variables by which a caller would make git run something, or read other settings.
const DROPPED: [&str; 6] = [
    "GIT_CONFIG_SYSTEM",
    "GIT_EXTERNAL_DIFF",
    "GIT_EXEC_PATH",
    "GIT_TEMPLATE_DIR",
    "GIT_PROXY_COMMAND",
    "GIT_CONFIG",
];

/// Commands that would run what `.gitattributes` and the configuration name to show content.
const SHOWS_CONTENT: [&str; 8] = [
    "diff",
    "log",
    "show",
    "whatchanged",
    "format-patch",
    "reflog",
    "blame",
    "annotate",
];
/// Those of them that show no differences and so know no external diff.
const KNOWS_NO_DIFF: [&str; 2] = ["blame", "annotate"];

/// Options of git itself that take the next word as their value.
const TAKES_A_VALUE: [&str; 9] = [
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--super-prefix",
    "--config-env",
    "--exec-path",
    "--attr-source",
];

/// Becomes git; returns an exit status when that fails.
pub(crate) fn main(arguments: &[OsString]) -> i32 {
    let search = env::var_os("PATH").unwrap_or_default();
    let Some(git) = find(&search, &own_directory()) else {
        super::complain("git: not found in the sandbox; install git on the machine");
        return NOT_FOUND;
    };
    let error = command(&git, arguments).exec();
    super::complain(&format!("git: `{}`: {error}", git.display()));
    NOT_EXECUTABLE
}

/// Where the shims are, so that they are not taken for git.
fn own_directory() -> PathBuf {
    let own = env::current_exe().unwrap_or_default();
    own.parent().map(Path::to_owned).unwrap_or_default()
}

/// The first `git` on the path that is not this program.
fn find(search: &OsStr, own: &Path) -> Option<PathBuf> {
    env::split_paths(search)
        .filter(|folder| folder.is_absolute() && folder != own)
        .map(|folder| folder.join("git"))
        .find(|path| is_executable(path).unwrap_or(false))
}

fn is_executable(path: &Path) -> io::Result<bool> {
    let metadata = path.metadata()?;
    Ok(metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the shim's one work is to become git"
)]
fn command(git: &Path, arguments: &[OsString]) -> Command {
    let mut command = Command::new(git);
    for name in DROPPED {
        command.env_remove(name);
    }
    command.env("GIT_CONFIG_NOSYSTEM", "1");
    command.args(harden(arguments));
    command
}

/// Adds the settings, and after the subcommand the options that it needs.
///
/// The settings come last among git's own options: of several `-c` with one name the last counts.
fn harden(arguments: &[OsString]) -> Vec<OsString> {
    let at = subcommand(arguments);
    let (own, rest) = arguments.split_at_checked(at).unwrap_or((arguments, &[]));
    let mut words = own.to_vec();
    for setting in SETTINGS {
        words.push("-c".into());
        words.push(setting.into());
    }
    if let Some((name, options)) = rest.split_first() {
        words.push(name.clone());
        let is_one_of = |names: &[&str]| names.iter().any(|known| name == known);
        if is_one_of(&SHOWS_CONTENT) && !is_plumbing(options) {
            words.extend((!is_one_of(&KNOWS_NO_DIFF)).then(|| "--no-ext-diff".into()));
            words.push("--no-textconv".into());
        }
        words.extend_from_slice(options);
    }
    words
}

/// `git reflog expire` and its like show nothing and know no such options.
fn is_plumbing(options: &[OsString]) -> bool {
    let verbs = ["expire", "delete", "exists", "list", "drop", "write"];
    options
        .first()
        .is_some_and(|first| verbs.iter().any(|verb| first == verb))
}

/// The place of the subcommand: after git's own options and their values.
fn subcommand(arguments: &[OsString]) -> usize {
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        if !word.as_bytes().starts_with(b"-") {
            break;
        }
        at += if TAKES_A_VALUE.iter().any(|option| word == option) {
            2
        } else {
            1
        };
    }
    at.min(arguments.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hardened(line: &str) -> String {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let words: Vec<_> = harden(&words)
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let settings: Vec<_> = SETTINGS
            .iter()
            .map(|setting| format!("-c {setting}"))
            .collect();
        words.join(" ").replace(&settings.join(" "), "SETTINGS")
    }

    #[test]
    fn settings_come_after_those_of_the_caller() {
        assert_eq!(hardened("status -s"), "SETTINGS status -s");
        assert_eq!(
            hardened("-C dir -c core.fsmonitor=x status"),
            "-C dir -c core.fsmonitor=x SETTINGS status"
        );
        assert_eq!(
            hardened("--git-dir=x.git -p log"),
            "--git-dir=x.git -p SETTINGS log --no-ext-diff --no-textconv"
        );
    }

    #[test]
    fn a_command_line_without_a_subcommand_stays_one() {
        assert_eq!(hardened("--version"), "--version SETTINGS");
        assert_eq!(hardened(""), "SETTINGS");
        assert_eq!(hardened("-C"), "-C SETTINGS");
    }

    #[test]
    fn only_what_shows_differences_gets_their_options() {
        assert_eq!(
            hardened("diff a b"),
            "SETTINGS diff --no-ext-diff --no-textconv a b"
        );
        assert_eq!(hardened("blame f"), "SETTINGS blame --no-textconv f");
        assert_eq!(
            hardened("reflog expire --all"),
            "SETTINGS reflog expire --all"
        );
        assert_eq!(hardened("commit -m diff"), "SETTINGS commit -m diff");
    }

    #[test]
    fn the_shim_does_not_find_itself() {
        let folder = env::temp_dir().join(format!("aegis-gitshim-{}", std::process::id()));
        let own = folder.join("own");
        let other = folder.join("other");
        for place in [&own, &other] {
            std::fs::create_dir_all(place).unwrap();
            std::fs::write(place.join("git"), "").unwrap();
        }
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::File::open(other.join("git"))
            .unwrap()
            .set_permissions(mode)
            .unwrap();
        let search = env::join_paths([&own, &other]).unwrap();
        assert_eq!(find(&search, &own), Some(other.join("git")));
        assert_eq!(find(own.as_os_str(), Path::new("/nowhere")), None);
        remove(&folder);
    }

    #[expect(clippy::disallowed_methods, reason = "a folder that this test made")]
    fn remove(folder: &Path) {
        std::fs::remove_dir_all(folder).unwrap();
    }
}
