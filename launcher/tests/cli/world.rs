//! A home, a project and a person of a test's own.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::{Pid, Uid, User};

/// A bound for what must happen at all; it says nothing about speed.
const LIMIT: Duration = Duration::from_secs(60);

/// Who starts the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Person {
    /// Whoever runs the tests.
    Myself,
    /// The ordinary user that the set-up of the tests makes.
    Ordinary,
}

/// A home directory with a project in it, and the program under test.
#[derive(Debug)]
pub struct World {
    place: tempfile::TempDir,
    person: Option<(u32, u32)>,
}

/// A program that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The exit status, as a shell reports it.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// What can be seen of one name: inode, mode, times in nanoseconds, content.
type Seen = (PathBuf, u64, u32, i64, i64, Option<Vec<u8>>);

impl World {
    /// A world whose programs `person` starts. Root can start them as another user.
    pub fn of(person: Person) -> Self {
        let ordinary = User::from_name("aegis-test").unwrap();
        let switch = person == Person::Ordinary && Uid::effective().is_root();
        let ids = |user: User| (user.uid.as_raw(), user.gid.as_raw());
        let person = switch.then(|| ids(ordinary.expect("`tests/setup.sh test` makes the user")));
        let place = tempfile::Builder::new()
            .prefix("aegis-cli-")
            .tempdir()
            .unwrap();
        let world = Self { place, person };
        world.allow_passage();
        for folder in ["home", "home/project", "home/project/folder", "view"] {
            fs::create_dir(world.at(folder)).unwrap();
            world.own(&world.at(folder));
        }
        for (name, content) in [
            ("kept", "kept\n"),
            ("gone", "gone\n"),
            ("folder/file", "file\n"),
        ] {
            world.write(&format!("home/project/{name}"), content);
        }
        fs::copy(env!("CARGO_BIN_EXE_aegis-os"), world.at("aegis-os")).unwrap();
        world
    }

    /// One world for each person that can be had here.
    pub fn all() -> Vec<Self> {
        vec![Self::of(Person::Myself), Self::of(Person::Ordinary)]
    }

    /// The user and group that programs are switched to; `None` when they run as whoever tests.
    pub fn switched_to(&self) -> Option<(u32, u32)> {
        self.person
    }

    /// A path in this world.
    pub fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// The real project.
    pub fn project(&self) -> PathBuf {
        self.at("home/project")
    }

    /// Writes a file that belongs to the person.
    pub fn write(&self, name: &str, content: &str) {
        fs::write(self.at(name), content).unwrap();
        self.own(&self.at(name));
    }

    /// Gives a file to the person.
    pub fn own(&self, path: &Path) {
        if let Some((user, group)) = self.person {
            lchown(path, Some(user), Some(group)).unwrap();
        }
    }

    /// `aegis-os` with these arguments, in the project.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.program(&self.at("aegis-os"));
        command.args(arguments);
        command
    }

    /// A program that the person starts in the project.
    pub fn program(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().current_dir(self.project());
        command
            .env("HOME", self.at("home"))
            .env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.stdin(Stdio::null());
        if let Some((user, group)) = self.person {
            command.uid(user).gid(group);
        }
        command
    }

    /// Runs `aegis-os` with these arguments to its end.
    pub fn aegis(&self, arguments: &[&str]) -> Ended {
        Ended::of(self.command(arguments).output().unwrap())
    }

    /// `aegis-os run -- sh -c SCRIPT`.
    pub fn run(&self, script: &str) -> Ended {
        self.aegis(&["run", "--", "sh", "-c", script])
    }

    /// Starts a session and waits until its script has made `~/up`.
    pub fn start(&self, arguments: &[&str]) -> Child {
        let before = self.up();
        let mut command = self.command(arguments);
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually(|| self.up() > before);
        child
    }

    /// The directories of all sessions, oldest first.
    pub fn sessions(&self) -> Vec<PathBuf> {
        let folder = fs::read_dir(self.at("home/.aegis/sessions"))
            .into_iter()
            .flatten();
        let mut found: Vec<_> = folder.flatten().map(|entry| entry.path()).collect();
        found.sort();
        found
    }

    /// The process that serves the newest session that has one.
    pub fn server(&self) -> u32 {
        let records = self.sessions().into_iter().rev().map(|session| {
            let record = fs::read(session.join("session.json")).unwrap();
            serde_json::from_slice::<serde_json::Value>(&record).unwrap()
        });
        let mut running = records.filter(|record| record["state"] == "running");
        let server = running.next().expect("no session runs")["server"].as_u64();
        u32::try_from(server.unwrap()).unwrap()
    }

    /// Kills the server of the newest running session, as the kernel would for want of memory, and
    /// waits for the end of `session`, the process that watches it.
    pub fn cut(&self, session: &mut Child) {
        send(self.server(), Signal::SIGKILL);
        session.wait().unwrap();
    }

    /// Writes the person's `config.toml`.
    pub fn settings(&self, text: &str) {
        let folder = self.at("home/.aegis");
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        self.own(&folder);
        self.write("home/.aegis/config.toml", text);
    }

    /// The id of the only session.
    pub fn only_session(&self) -> String {
        let sessions = self.sessions();
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        sessions[0]
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    }

    /// Everything that can be seen of the real project without opening it for writing.
    pub fn fingerprint(&self) -> Vec<Seen> {
        let mut all = Vec::new();
        let mut waiting = vec![self.project()];
        while let Some(path) = waiting.pop() {
            let status = fs::symlink_metadata(&path).unwrap();
            let content = status.is_file().then(|| fs::read(&path).unwrap());
            let changed = status.ctime() * 1_000_000_000 + status.ctime_nsec();
            let modified = status.mtime() * 1_000_000_000 + status.mtime_nsec();
            if status.is_dir() {
                waiting.extend(
                    fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            }
            all.push((
                path,
                status.ino(),
                status.mode(),
                modified,
                changed,
                content,
            ));
        }
        all.sort();
        all
    }

    fn up(&self) -> usize {
        self.sessions()
            .iter()
            .filter(|session| session.join("home/up").exists())
            .count()
    }

    /// Lets the ordinary user through to what is his.
    fn allow_passage(&self) {
        let passage = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.place.path(), passage).unwrap();
    }
}

impl Ended {
    /// What came of a program.
    pub fn of(output: Output) -> Self {
        use std::os::unix::process::ExitStatusExt;
        let signal = output.status.signal().map(|signal| 128 + signal);
        Self {
            status: output.status.code().or(signal).unwrap(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Expects status 0.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.status, 0, "{self:#?}");
        self
    }

    /// Expects a failure of the launcher's own, with these words.
    #[track_caller]
    pub fn refused_plainly(self, words: &[&str]) -> Self {
        assert_eq!(self.status, 125, "{self:#?}");
        let missing = words.iter().find(|word| !self.stderr.contains(*word));
        assert_eq!(missing, None, "{}", self.stderr);
        self
    }

    /// Expects a failure of the launcher's own, with these words and with advice.
    #[track_caller]
    pub fn refused(self, words: &[&str]) -> Self {
        assert_eq!(self.status, 125, "{self:#?}");
        for word in words.iter().chain(&["aegis-os: ", "what to do: "]) {
            assert!(
                self.stderr.contains(word),
                "`{word}` is missing: {}",
                self.stderr
            );
        }
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }
}

/// Sends a signal.
pub fn send(process: u32, signal: Signal) {
    let process = Pid::from_raw(i32::try_from(process).unwrap());
    nix::sys::signal::kill(process, signal).unwrap();
}

/// Waits for what has to happen.
#[track_caller]
pub fn eventually(condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < LIMIT, "it did not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}
