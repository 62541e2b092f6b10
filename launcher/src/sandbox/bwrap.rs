//! Bubblewrap: finding one that can be trusted, and saying the plan in its words.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::FileType;

use super::SandboxError;
use super::mount::{Access, Mount, Source, What};
use super::place::BINARY;
use super::plan::Plan;

/// Where distributions put it. The first is the only one that Ubuntu's AppArmor profile covers.
const USUAL: [&str; 3] = ["/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"];
/// The name of the machine inside.
const HOST_NAME: &str = "aegis";
/// What numbers outside a user namespace look like (kernel.overflowuid).
const NOBODY: u32 = 65534;
/// The mode of a directory like /tmp.
const SCRATCH_MODE: &str = "1777";

/// A bubblewrap that only root can have put there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bubblewrap {
    /// The program, links resolved.
    pub path: PathBuf,
    /// Whether it binds by descriptor (0.10, and Debian's 0.8).
    pub binds_descriptors: bool,
    /// Whether it bounds the size of a directory in memory (0.7).
    pub bounds_memory: bool,
}

/// The numbers of the descriptors that bubblewrap inherits.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    pub(super) view: RawFd,
    pub(super) real_tree: RawFd,
    pub(super) home: RawFd,
    pub(super) binary: RawFd,
    /// One that reads as empty for each [`What::Empty`] of the plan.
    pub(super) empty: Vec<RawFd>,
    /// The stage's end of the channel.
    pub(super) channel: RawFd,
}

impl Bubblewrap {
    /// Finds bubblewrap and asks it what it can do.
    ///
    /// Must be called before [`super::namespace::enter`]: inside, root has no number of its own.
    ///
    /// # Errors
    /// [`SandboxError::BubblewrapMissing`], or [`SandboxError::BubblewrapUntrusted`] when others
    /// than root could have replaced the one that was found first.
    pub fn find() -> Result<Self, SandboxError> {
        let search = env::var_os("PATH").unwrap_or_default();
        let path = USUAL
            .iter()
            .map(PathBuf::from)
            .chain(env::split_paths(&search).map(|folder| folder.join("bwrap")))
            .filter(|path| path.is_absolute())
            .find_map(|path| super::facts::resolve(&path))
            .ok_or(SandboxError::BubblewrapMissing)?;
        if !is_trusted(&path) {
            return Err(SandboxError::BubblewrapUntrusted(path));
        }
        let help = help(&path)?;
        let offers = |words: &[u8]| holds(&help, words);
        Ok(Self {
            binds_descriptors: offers(b"--bind-fd FD") && offers(b"--ro-bind-fd FD"),
            bounds_memory: offers(b"--size BYTES"),
            path,
        })
    }

    /// The arguments that build `plan`, up to and including the stage's own.
    pub(super) fn arguments(&self, plan: &Plan, numbers: &Numbers) -> Vec<OsString> {
        let mut words = Words(Vec::new());
        words.all([
            "--unshare-user",
            "--unshare-pid",
            "--unshare-ipc",
            "--unshare-uts",
        ]);
        words.all(["--unshare-net", "--unshare-cgroup-try", "--die-with-parent"]);
        words.all(["--cap-drop", "ALL", "--hostname", HOST_NAME, "--clearenv"]);
        for (name, value) in &plan.environment {
            words.all([OsStr::new("--setenv"), name, value]);
        }
        let mut empty = numbers.empty.iter();
        for mount in &plan.mounts {
            self.mount(&mut words, plan, mount, numbers, &mut empty);
        }
        seal(&mut words, plan);
        words.all([OsStr::new("--chdir"), plan.directory.as_os_str()]);
        words.0
    }

    fn mount(
        &self,
        words: &mut Words,
        plan: &Plan,
        mount: &Mount,
        numbers: &Numbers,
        empty: &mut std::slice::Iter<'_, RawFd>,
    ) {
        let at = mount.at.as_os_str();
        match &mount.what {
            What::Bind { from, access, .. } => self.bind(words, from, *access, at, numbers),
            What::Hidden => words.all([OsStr::new("--tmpfs"), at]),
            What::Scratch { most } => {
                words.all(["--perms", SCRATCH_MODE]);
                if self.bounds_memory {
                    words.all(["--size", &most.to_string()]);
                }
                words.all([OsStr::new("--tmpfs"), at]);
            }
            What::Empty => {
                let number = empty.next().map(ToString::to_string).unwrap_or_default();
                words.all([OsStr::new("--ro-bind-data"), OsStr::new(&number), at]);
            }
            // The private home outlives the run, so its links are there already.
            What::Link(_) if mount.at.starts_with(&plan.home) => {}
            What::Link(target) => words.all([OsStr::new("--symlink"), target.as_os_str(), at]),
            What::Processes => words.all([OsStr::new("--proc"), at]),
            What::Devices => words.all([OsStr::new("--dev"), at]),
        }
    }

    fn bind(
        &self,
        words: &mut Words,
        from: &Source,
        access: Access,
        at: &OsStr,
        numbers: &Numbers,
    ) {
        let number = match from {
            Source::Host(path) => {
                words.all([OsStr::new(by_path(access)), path.as_os_str(), at]);
                return;
            }
            Source::View => numbers.view,
            Source::RealTree => numbers.real_tree,
            Source::Home => numbers.home,
            Source::Binary => numbers.binary,
        };
        if self.binds_descriptors {
            let number = number.to_string();
            words.all([OsStr::new(by_descriptor(access)), OsStr::new(&number), at]);
        } else {
            // Bubblewrap resolves the name itself; the stage compares what it got.
            let name = format!("/proc/self/fd/{number}");
            words.all([OsStr::new(by_path(access)), OsStr::new(&name), at]);
        }
    }
}

/// The command line that follows the arguments: the stage, and where it finds the channel.
pub(super) fn stage_command(numbers: &Numbers) -> [String; 3] {
    [
        BINARY.to_owned(),
        "__stage".to_owned(),
        numbers.channel.to_string(),
    ]
}

/// After the last mount nothing is to be made in the directories that hold the mounts.
fn seal(words: &mut Words, plan: &Plan) {
    let hidden = plan
        .mounts
        .iter()
        .filter(|mount| mount.what == What::Hidden);
    for mount in hidden {
        words.all([OsStr::new("--remount-ro"), mount.at.as_os_str()]);
    }
    words.all(["--remount-ro", "/dev", "--remount-ro", "/"]);
}

const fn by_path(access: Access) -> &'static str {
    match access {
        Access::ReadOnly => "--ro-bind",
        Access::ReadWrite => "--bind",
    }
}

const fn by_descriptor(access: Access) -> &'static str {
    match access {
        Access::ReadOnly => "--ro-bind-fd",
        Access::ReadWrite => "--bind-fd",
    }
}

fn is_trusted(path: &Path) -> bool {
    let others_may_write = 0o022;
    rustix::fs::stat(path).is_ok_and(|status| {
        FileType::from_raw_mode(status.st_mode) == FileType::RegularFile
            && (status.st_uid == 0 || is_foreign(path, status.st_uid))
            && status.st_mode & others_may_write == 0
    })
}

/// In a user namespace without root, root's files are nobody's. Then a place of the system counts
/// in which this user cannot put anything.
fn is_foreign(path: &Path, owner: u32) -> bool {
    let folder = path.parent().unwrap_or(Path::new("/"));
    owner == NOBODY
        && path.starts_with("/usr")
        && rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_err()
}

/// What bubblewrap says that it can do. The words are part of the program, so it need not be run,
/// unless what is installed is a wrapper around it.
fn help(path: &Path) -> Result<Vec<u8>, SandboxError> {
    let asking = || SandboxError::system("asking bubblewrap what it can do");
    let program = fs::read(path).map_err(asking())?;
    if holds(&program, b"--ro-bind SRC DEST") {
        return Ok(program);
    }
    asked(path).map_err(asking())
}

fn holds(text: &[u8], words: &[u8]) -> bool {
    text.windows(words.len()).any(|window| window == words)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the sandbox room starts bubblewrap"
)]
fn asked(path: &Path) -> io::Result<Vec<u8>> {
    let output = Command::new(path)
        .arg("--help")
        .env_clear()
        .stdin(Stdio::null())
        .output()?;
    Ok(output.stdout)
}

struct Words(Vec<OsString>);

impl Words {
    fn all<const COUNT: usize, W: AsRef<OsStr>>(&mut self, words: [W; COUNT]) {
        self.0
            .extend(words.iter().map(|word| word.as_ref().to_owned()));
    }
}

/// The arguments as `--args` reads them: each ended by a NUL.
pub(super) fn to_bytes(arguments: &[OsString]) -> Vec<u8> {
    arguments
        .iter()
        .flat_map(|word| word.as_bytes().iter().copied().chain([0]))
        .collect()
}
