//! A home and a project of a test's own, and the program under test.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process::Finished;
use crate::user::User;

/// A hermetic environment: a home directory, a project inside it, and a clean process environment.
/// Everything is removed at the end of the test.
#[derive(Debug)]
pub struct TestEnv {
    /// The user that owns everything here.
    pub user: User,
    home: PathBuf,
    project: PathBuf,
    binary: PathBuf,
    _root: tempfile::TempDir,
}

impl TestEnv {
    /// An empty home and an empty project.
    ///
    /// # Panics
    /// When the test user or the built program is missing.
    #[must_use]
    pub fn new() -> Self {
        let user = User::ordinary();
        let base = user.home.join("aegis-tests");
        make_directory(&base, &user);
        let root = tempfile::Builder::new()
            .prefix("t")
            .tempdir_in(&base)
            .unwrap();
        user.own(root.path());
        let home = root.path().join("home");
        let project = home.join("src/project");
        for directory in [&home, &home.join("src"), &project] {
            make_directory(directory, &user);
        }
        let binary = shared_binary(&base);
        Self {
            user,
            home,
            project,
            binary,
            _root: root,
        }
    }

    /// An environment whose project is a git repository with one commit of a few files.
    #[must_use]
    pub fn with_repository() -> Self {
        let env = Self::new();
        env.write(
            "src/greet.py",
            "def greet(name):\n    return 'hello ' + name\n",
        );
        env.write("README.md", "# project\n\none\ntwo\nthree\n");
        env.write("keep.txt", "keep\n");
        env.write(".gitignore", "target/\n__pycache__/\n");
        let _ = env
            .sh("git init -q -b main && git config user.name Tester \
                 && git config user.email tester@example.org \
                 && git add -A && git commit -q -m 'first' && git status --porcelain")
            .ok();
        env
    }

    /// The home directory (`$HOME`).
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The project: the directory that commands start in.
    #[must_use]
    pub fn project(&self) -> &Path {
        &self.project
    }

    /// The program under test.
    #[must_use]
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Writes a file of the project, as the user.
    pub fn write(&self, relative: &str, content: impl AsRef<[u8]>) {
        self.write_at(&self.project.join(relative), content);
    }

    /// Writes a file of the home directory, as the user.
    pub fn write_home(&self, relative: &str, content: impl AsRef<[u8]>) {
        self.write_at(&self.home.join(relative), content);
    }

    fn write_at(&self, path: &Path, content: impl AsRef<[u8]>) {
        self.make_parents(path);
        fs::write(path, content).unwrap();
        self.user.own(path);
    }

    fn make_parents(&self, path: &Path) {
        let parent = path.parent().unwrap();
        if !parent.exists() {
            self.make_parents(parent);
            make_directory(parent, &self.user);
        }
    }

    /// Reads a file of the project.
    ///
    /// # Panics
    /// When it can not be read.
    #[must_use]
    #[track_caller]
    pub fn read(&self, relative: &str) -> String {
        fs::read_to_string(self.project.join(relative))
            .unwrap_or_else(|error| panic!("`{relative}` of the project: {error}"))
    }

    /// A command of the user in the project, with nothing of the suite's own environment.
    #[must_use]
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.command_as_root(program);
        self.user.apply(&mut command);
        command
    }

    /// The same as whoever runs the suite: for what has to be prepared around the user.
    #[must_use]
    pub fn command_as_root(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let path = format!(
            "{}/.cargo/bin:/usr/local/bin:/usr/bin:/bin",
            self.home.display()
        );
        command
            .env_clear()
            .env("PATH", path)
            .env("HOME", &self.home)
            .env("USER", &self.user.name)
            .env("LOGNAME", &self.user.name)
            .env("LANG", "C.UTF-8")
            .env("TERM", "dumb")
            .env("SHELL", "/bin/bash")
            .current_dir(&self.project);
        command
    }

    /// `aegis-os` with these arguments.
    #[must_use]
    pub fn aegis(&self, arguments: &[&str]) -> Finished {
        Finished::of(self.command(&self.binary).args(arguments))
    }

    /// A shell script outside any sandbox; it stops at the first command that fails.
    #[must_use]
    pub fn sh(&self, script: &str) -> Finished {
        Finished::of(self.command("bash").args(["-euc", script]))
    }

    /// A shell script inside `aegis-os run`.
    #[must_use]
    pub fn run(&self, script: &str) -> Finished {
        self.run_with(&[], script)
    }

    /// A shell script inside `aegis-os run` with further options.
    #[must_use]
    pub fn run_with(&self, options: &[&str], script: &str) -> Finished {
        Finished::of(self.run_command(options, script).args(["-euc", script]))
    }

    /// The same, unfinished: for tests that add variables or descriptors.
    #[must_use]
    pub fn run_command(&self, options: &[&str], _script: &str) -> Command {
        let mut command = self.command(&self.binary);
        command.arg("run").args(options).args(["--", "bash"]);
        command
    }

    /// Lands everything that the newest session of the project changed.
    ///
    /// # Panics
    /// When it is refused.
    #[track_caller]
    pub fn land(&self) -> Finished {
        self.aegis(&["land", "--yes"]).ok()
    }
}

impl Default for TestEnv {
    fn default() -> Self {
        Self::new()
    }
}

fn make_directory(path: &Path, user: &User) {
    if !path.exists() {
        // Another test may make the shared one at the same moment.
        let _ = fs::create_dir(path);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        user.own(path);
    }
}

/// The program under test, where the ordinary user can read it: a fresh clone of root's can not be.
///
/// Every test process shares one copy, named by size and time of the original.
fn shared_binary(base: &Path) -> PathBuf {
    let built = built_binary();
    let facts = fs::metadata(&built).unwrap_or_else(|error| {
        panic!(
            "`{}` ({error}); build it first: `make test` does",
            built.display()
        )
    });
    let name = format!(
        "aegis-os-{}-{}",
        facts.size(),
        facts.mtime_nsec() ^ facts.mtime()
    );
    let directory = base.join(name);
    let shared = directory.join("aegis-os");
    if !shared.exists() {
        forget_old_copies(base);
        let draft = tempfile::Builder::new()
            .prefix("draft-")
            .tempdir_in(base)
            .unwrap();
        fs::copy(&built, draft.path().join("aegis-os")).unwrap();
        for path in [draft.path(), &draft.path().join("aegis-os")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        // Two tests may get here at once; the loser's copy is as good as the winner's.
        let _ = fs::rename(draft.path(), &directory);
    }
    shared
}

/// Removes copies of earlier builds; a fresh one may belong to another run of the suite.
fn forget_old_copies(base: &Path) {
    const OLD: Duration = Duration::from_secs(3600);
    for entry in fs::read_dir(base).unwrap().flatten() {
        let made = entry.metadata().and_then(|facts| facts.modified());
        let is_old = made.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > OLD));
        if is_old && entry.file_name().to_string_lossy().starts_with("aegis-os-") {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// `AEGIS_OS_BIN`, else the program beside this test in the target directory.
fn built_binary() -> PathBuf {
    std::env::var_os("AEGIS_OS_BIN").map_or_else(
        || {
            let test = std::env::current_exe().unwrap();
            test.parent().unwrap().parent().unwrap().join("aegis-os")
        },
        PathBuf::from,
    )
}
