//! The file systems that are measured: each shows the project and keeps what is written to itself.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Outcome;

/// How long a mount may take to come up or go away.
const PATIENCE: Duration = Duration::from_secs(30);

/// A file system.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Aegisfs,
    Overlayfs,
    FuseOverlayfs,
}

impl Target {
    pub(crate) const ALL: [Self; 3] = [Self::Aegisfs, Self::Overlayfs, Self::FuseOverlayfs];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Aegisfs => "aegisfs",
            Self::Overlayfs => "overlayfs (kernel)",
            Self::FuseOverlayfs => "fuse-overlayfs",
        }
    }

    /// Whether this machine and this user have it; says so when not.
    pub(crate) fn is_here(self) -> bool {
        let here = match self {
            Self::Aegisfs => aegis_os().is_file(),
            Self::Overlayfs => fs::metadata("/proc/self").is_ok_and(|facts| facts.uid() == 0),
            Self::FuseOverlayfs => Command::new("fuse-overlayfs")
                .arg("--version")
                .output()
                .is_ok(),
        };
        if !here {
            crate::note(&format!(
                "{} is left out: it is not here, or not for this user",
                self.name()
            ));
        }
        here
    }

    /// Mounts a fresh view of `project`, with its state below `scratch`.
    pub(crate) fn mount(self, project: &Path, scratch: &Path) -> Outcome<Mounted> {
        let at = scratch.join("view");
        for name in ["view", "upper", "work", "sessions"] {
            fs::create_dir_all(scratch.join(name))?;
        }
        let server = self
            .command(project, scratch)
            .stdin(Stdio::null())
            .spawn()?;
        let mut mounted = Mounted { at, server };
        let started = Instant::now();
        while !mounted.is_up()? {
            if started.elapsed() > PATIENCE {
                return Err(format!("{} does not come up", self.name()).into());
            }
            if mounted
                .server
                .try_wait()?
                .is_some_and(|status| !status.success())
            {
                return Err(format!("{} could not be mounted", self.name()).into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(mounted)
    }

    fn command(self, project: &Path, scratch: &Path) -> Command {
        let view = scratch.join("view");
        let layers = format!(
            "lowerdir={},upperdir={1}/upper,workdir={1}/work",
            project.display(),
            scratch.display()
        );
        match self {
            Self::Aegisfs => {
                let mut command = Command::new(aegis_os());
                command.arg("mount").arg(project).arg(view);
                command.env("AEGIS_HOME", scratch.join("sessions"));
                command.stdout(Stdio::null()).stderr(Stdio::null());
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
        }
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
    server: Child,
}

impl Mounted {
    /// Where the view is.
    pub(crate) fn path(&self) -> &Path {
        &self.at
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
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
