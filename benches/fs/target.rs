//! The file systems that are measured: each shows a tree and keeps what is written to itself.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::corpus::Corpus;
use crate::person::{Person, is_root};

/// How long a mount may take to come up or go away.
const PATIENCE: Duration = Duration::from_secs(30);

/// A file system.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// As the ordinary user.
    Aegisfs,
    /// Mounted and used by root.
    AegisfsRoot,
    Overlayfs,
    FuseOverlayfs,
    /// The rewrite in Rust; named by `AEGIS_BENCH_FUSE_OVERLAYFS2`.
    FuseOverlayfs2,
    /// Named by `AEGIS_BENCH_AGENTFS`.
    Agentfs,
}

impl Target {
    pub(crate) const ALL: [Self; 6] = [
        Self::Aegisfs,
        Self::AegisfsRoot,
        Self::Overlayfs,
        Self::FuseOverlayfs,
        Self::FuseOverlayfs2,
        Self::Agentfs,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Aegisfs => "aegisfs",
            Self::AegisfsRoot => "aegisfs as root",
            Self::Overlayfs => "overlayfs (kernel)",
            Self::FuseOverlayfs => "fuse-overlayfs 1",
            Self::FuseOverlayfs2 => "fuse-overlayfs 2",
            Self::Agentfs => "agentfs",
        }
    }

    /// Whether this machine and this user have it; says so when not.
    pub(crate) fn is_here(self) -> bool {
        let runs = |program: &OsStr| Command::new(program).arg("--version").output().is_ok();
        let here = match self {
            Self::Aegisfs => aegis_os().is_file(),
            Self::AegisfsRoot => aegis_os().is_file() && is_root(),
            Self::Overlayfs => is_root(),
            Self::FuseOverlayfs => runs("fuse-overlayfs".as_ref()),
            Self::FuseOverlayfs2 | Self::Agentfs => {
                self.named().is_some_and(|path| runs(path.as_ref()))
            }
        };
        if !here {
            crate::note(&format!(
                "{} is left out: it is not here, or not for this user",
                self.name()
            ));
        }
        here
    }

    /// Who mounts it, where that is not root, and works in it.
    pub(crate) fn person(self, corpus: &Corpus) -> Option<Person> {
        (self != Self::AegisfsRoot).then(|| corpus.person())
    }

    /// Mounts a fresh view of `tree`, with its state below `scratch`.
    pub(crate) fn mount(self, corpus: &Corpus, tree: &Path, scratch: &Path) -> Outcome<Mounted> {
        for name in ["view", "upper", "work"] {
            let folder = scratch.join(name);
            fs::create_dir_all(&folder)?;
            if self != Self::AegisfsRoot {
                corpus.person().owns(&folder)?;
            }
        }
        self.prepare(corpus, tree, scratch)?;
        let mut command = self.command(tree, scratch);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let started = Instant::now();
        let server = self.dropped(corpus, &mut command).spawn()?;
        let mut mounted = Mounted {
            at: scratch.join("view"),
            state: scratch.join("upper"),
            server,
            is_process: self.is_process(),
            came_up: Duration::ZERO,
        };
        while !mounted.is_up()? {
            let ended = mounted.server.try_wait()?;
            if started.elapsed() > PATIENCE || ended.is_some_and(|status| !status.success()) {
                return Err(format!("{} could not be mounted", self.name()).into());
            }
            std::thread::sleep(Duration::from_micros(300));
        }
        mounted.came_up = started.elapsed();
        Ok(mounted)
    }

    fn prepare(self, corpus: &Corpus, tree: &Path, scratch: &Path) -> Outcome<()> {
        let (Self::Agentfs, Some(program)) = (self, self.named()) else {
            return Ok(());
        };
        let mut command = Command::new(program);
        command.args(["init", "--base"]).arg(tree).arg("bench");
        command
            .current_dir(scratch.join("upper"))
            .env("HOME", scratch.join("work"));
        let output = self.dropped(corpus, &mut command).output()?;
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned().into())
        }
    }

    fn command(self, tree: &Path, scratch: &Path) -> Command {
        let view = scratch.join("view");
        let layers = format!(
            "lowerdir={},upperdir={1}/upper,workdir={1}/work",
            tree.display(),
            scratch.display()
        );
        let named = self.named().unwrap_or_default();
        match self {
            Self::Aegisfs | Self::AegisfsRoot => {
                let mut command = Command::new(aegis_os());
                command.arg("mount").arg(tree).arg(view);
                command.env("AEGIS_HOME", scratch.join("upper"));
                command
            }
            Self::Overlayfs => {
                let mut command = Command::new("mount");
                command
                    .args(["-t", "overlay", "overlay", "-o", &layers])
                    .arg(view);
                command
            }
            Self::FuseOverlayfs => {
                let mut command = Command::new("fuse-overlayfs");
                command.args(["-f", "-o", &layers]).arg(view);
                command
            }
            Self::FuseOverlayfs2 => {
                let mut command = Command::new(named);
                command.args(["-f", "-o", &layers]).arg(view);
                command
            }
            Self::Agentfs => {
                let mut command = Command::new(named);
                command.args(["mount", "-f", ".agentfs/bench.db"]).arg(view);
                command
                    .current_dir(scratch.join("upper"))
                    .env("HOME", scratch.join("work"));
                command
            }
        }
    }

    fn dropped<'a>(self, corpus: &Corpus, command: &'a mut Command) -> &'a mut Command {
        match self {
            Self::AegisfsRoot | Self::Overlayfs => command,
            _ => corpus.person().takes(command),
        }
    }

    /// The variable that names a program that is not found by its usual name.
    fn named(self) -> Option<PathBuf> {
        let variable = match self {
            Self::FuseOverlayfs2 => "AEGIS_BENCH_FUSE_OVERLAYFS2",
            Self::Agentfs => "AEGIS_BENCH_AGENTFS",
            _ => return None,
        };
        std::env::var_os(variable).map(PathBuf::from)
    }

    /// Whether the program that mounts it serves it as well.
    const fn is_process(self) -> bool {
        !matches!(self, Self::Overlayfs)
    }
}

/// The program under test, beside this one.
pub(crate) fn aegis_os() -> PathBuf {
    std::env::current_exe()
        .unwrap_or_default()
        .with_file_name("aegis-os")
}

/// A view that is taken down when it goes out of scope.
pub(crate) struct Mounted {
    at: PathBuf,
    state: PathBuf,
    server: Child,
    /// Whether the server is the program that was started.
    is_process: bool,
    came_up: Duration,
}

impl Mounted {
    /// Where the view is.
    pub(crate) fn path(&self) -> &Path {
        &self.at
    }

    /// From the start of the program until the view was there.
    pub(crate) const fn came_up(&self) -> Duration {
        self.came_up
    }

    /// Bytes on the disk that the view holds.
    pub(crate) fn allocated(&self) -> Outcome<u64> {
        allocated(&self.state)
    }

    /// The most memory that the server had, in bytes.
    pub(crate) fn memory(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.server.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
        let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
        self.is_process.then_some(kibibytes << 10)
    }

    fn is_up(&self) -> Outcome<bool> {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        Ok(self.at.to_str().is_some_and(|at| mounts.contains(at)))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let quiet = |program: &str, option: &str| {
            let mut command = Command::new(program);
            command.arg(option).arg(&self.at).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let _ = quiet("umount", "--") || quiet("fusermount3", "-u") || quiet("umount", "-l");
        let started = Instant::now();
        while matches!(self.server.try_wait(), Ok(None)) {
            if started.elapsed() > PATIENCE {
                let _ = self.server.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn allocated(folder: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let facts = entry.metadata()?;
        bytes += facts.blocks() * 512;
        if facts.is_dir() {
            bytes += allocated(&entry.path())?;
        }
    }
    Ok(bytes)
}
