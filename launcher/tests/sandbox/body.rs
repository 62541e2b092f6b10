//! A real sandbox around a plain folder, and how a test is run as two users.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use aegis_launcher::sandbox::facts::Place;
use aegis_launcher::sandbox::mount::Kind;
use aegis_launcher::sandbox::{self, Descriptors, Plan, Request, Running, Waiting};
use aegis_launcher::terminal::Stdio;
use tempfile::TempDir;

/// The ordinary user that `tests/setup.sh` makes.
const USER: &str = "aegis-test";
/// Names the launcher's program for a test that runs as that user.
const BINARY: &str = "AEGIS_TEST_BINARY";

/// Runs the test named `name` again as an ordinary user when this is root, and then `body`.
pub fn as_both_users(name: &str, body: fn()) {
    if rustix::process::getuid().is_root() {
        as_user(name);
    }
    body();
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test starts itself as another user"
)]
fn as_user(name: &str) {
    // The folder of the build may be one that the other user cannot enter.
    let folder = tempfile::tempdir().unwrap();
    open_to_all(folder.path());
    let tests = duplicate(
        &std::env::current_exe().unwrap(),
        &folder.path().join("tests"),
    );
    let binary = duplicate(&binary(), &folder.path().join("aegis-os"));
    let output = Command::new("runuser")
        .args(["-u", USER, "--"])
        .arg(tests)
        .args(["--exact", name, "--nocapture"])
        .env(BINARY, binary)
        .env("HOME", format!("/home/{USER}"))
        .current_dir("/")
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    let more = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "as {USER}: {words}{more}");
    assert!(
        words.contains("1 passed"),
        "the test `{name}` has another name: {words}"
    );
}

fn duplicate(from: &Path, to: &Path) -> PathBuf {
    io::copy(
        &mut File::open(from).unwrap(),
        &mut File::create(to).unwrap(),
    )
    .unwrap();
    open_to_all(to);
    to.to_owned()
}

pub fn open_to_all(path: &Path) {
    File::open(path)
        .unwrap()
        .set_permissions(fs::Permissions::from_mode(0o755))
        .unwrap();
}

fn binary() -> PathBuf {
    std::env::var_os(BINARY).map_or_else(|| env!("CARGO_BIN_EXE_aegis-os").into(), PathBuf::from)
}

/// A project, a private home, and what is to be run in them.
pub struct Body {
    folder: TempDir,
    pub request: Request,
    /// Files to hide beside those of the table.
    pub masks: Vec<PathBuf>,
    /// Whether bubblewrap is used as an old one that does not bind by descriptor.
    pub is_old: bool,
    /// Variables that the launcher seems to have.
    pub variables: Vec<(OsString, OsString)>,
}

/// What a script did.
#[derive(Debug)]
pub struct Ended {
    pub code: u8,
    pub said: String,
}

impl Body {
    pub fn new() -> Self {
        Self::with_project(OsStr::new("project"))
    }

    pub fn with_project(name: &OsStr) -> Self {
        Self::with_folder(tempfile::tempdir().unwrap(), name)
    }

    /// With project and private home in `folder`.
    pub fn with_folder(folder: TempDir, name: &OsStr) -> Self {
        let project = folder.path().join(name);
        for place in [
            &project,
            &folder.path().join("home"),
            &folder.path().join("real"),
        ] {
            fs::create_dir(place).unwrap();
        }
        let request = Request {
            session: "test".to_owned(),
            directory: project.clone(),
            project,
            ..Request::default()
        };
        Self {
            folder,
            request,
            masks: Vec::new(),
            is_old: false,
            variables: Vec::new(),
        }
    }

    /// A folder outside the project, on the host.
    pub fn outside(&self) -> &Path {
        self.folder.path()
    }

    pub fn private_home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Runs a shell script; what it says goes to a file of the project.
    pub fn run(&mut self, script: &str) -> Ended {
        let said = self.request.project.join(".said");
        self.request.command = vec![
            "sh".into(),
            "-c".into(),
            format!("exec >.said 2>&1\n{script}").into(),
        ];
        let code = self.wait();
        let words = fs::read(&said).unwrap_or_default();
        let _absent = fs::remove_file(said);
        Ended {
            code,
            said: String::from_utf8_lossy(&words).into_owned(),
        }
    }

    /// Starts the request's own command.
    pub fn start(&self) -> (Running, Stdio) {
        let mut stdio = Stdio::prepare().unwrap();
        (self.build(&mut stdio).unwrap().go().unwrap(), stdio)
    }

    /// Runs the request's own command; returns its exit status.
    pub fn wait(&self) -> u8 {
        let (running, _open) = self.start();
        running.wait().unwrap().code
    }

    pub fn plan(&self) -> Result<Plan, sandbox::SandboxError> {
        let mut facts = sandbox::facts::gather(&self.request)?;
        facts.environment.extend(self.variables.iter().cloned());
        facts.masks.extend(self.masks.iter().map(|path| Place {
            path: path.clone(),
            kind: Kind::File,
        }));
        facts.bubblewrap.binds_descriptors &= !self.is_old;
        facts.bubblewrap.bounds_memory &= !self.is_old;
        Plan::build(&self.request, &facts)
    }

    pub fn build(&self, stdio: &mut Stdio) -> Result<Waiting, sandbox::SandboxError> {
        let plan = self.plan()?;
        let home = open(&self.private_home());
        sandbox::home::prepare(home.as_fd(), &plan)?;
        let descriptors = Descriptors {
            view: open(&self.request.project),
            real_tree: open(&self.folder.path().join("real")),
            home,
            binary: open(&binary()),
        };
        sandbox::linux::start(&plan, descriptors, stdio)
    }
}

fn open(path: &Path) -> OwnedFd {
    File::open(path).unwrap().into()
}

/// Whether a process with this command line exists.
pub fn is_running(words: &[&str]) -> bool {
    let wanted = format!("{}\0", words.join("\0"));
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .any(|line| line == wanted.as_bytes())
}
