//! The probes: each does what a session does and says what came of it.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};

use aegisfs::fuse::{Options, fusermount, mount_in_namespace};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{Resource, getrlimit};

use super::{Finding, Need, Problem};
use crate::sandbox::Bubblewrap;
use crate::sandbox::namespace;
use crate::session::AegisHome;
use crate::session::home::shown;

pub(super) mod options;
mod trial;

pub(super) use trial::session;

/// A parallel build has more files open than this.
const FEW_FILES: u64 = 4096;
/// Where the private mount is tried: a folder that every system has. Only the probe sees it.
const TRIED_ON: &str = "/tmp";

/// Whether the launcher can have namespaces of its own.
pub(super) fn namespaces() -> Finding {
    let next = "without them aegisfs is mounted by fusermount3; bubblewrap needs them too, unless \
                the system grants them to it alone (Ubuntu: an AppArmor profile)";
    let result = in_child("namespaces").map_err(|why| Problem {
        why,
        next: next.to_owned(),
    });
    Finding {
        name: "namespaces",
        need: Need::Useful,
        result,
    }
}

/// Whether `/dev/fuse` can be opened.
pub(super) fn device() -> Finding {
    let opened = openat(
        CWD,
        "/dev/fuse",
        OFlags::RDWR | OFlags::CLOEXEC,
        Mode::empty(),
    );
    let result = opened
        .map(|_| "can be opened".to_owned())
        .map_err(|errno| Problem {
            why: io::Error::from(errno).to_string(),
            next:
                "`modprobe fuse` and `chmod 0666 /dev/fuse` as root; in a container, start it with \
               `--device /dev/fuse`"
                    .to_owned(),
        });
    Finding {
        name: "/dev/fuse",
        need: Need::Required,
        result,
    }
}

/// Whether a FUSE file system can be mounted without a set-uid helper.
#[must_use]
pub fn private_mount() -> Finding {
    let next = "without it aegisfs is mounted by fusermount3".to_owned();
    let result = in_child("mount").map_err(|why| Problem { why, next });
    Finding {
        name: "private mount",
        need: Need::Useful,
        result,
    }
}

/// Whether the set-uid helper of FUSE is there.
pub(super) fn helper() -> Finding {
    let problem = |why: &str| Problem {
        why: why.to_owned(),
        next: "install it (`apt install fuse3`, `dnf install fuse3`); `aegis-os mount` needs it"
            .to_owned(),
    };
    let result = fusermount()
        .ok_or_else(|| problem("it is not installed"))
        .and_then(|path| {
            let status = path
                .metadata()
                .map_err(|error| problem(&error.to_string()))?;
            if status.permissions().mode() & 0o4000 == 0 {
                return Err(problem("it is installed without its set-uid bit"));
            }
            Ok(shown(path))
        });
    Finding {
        name: "fusermount3",
        need: Need::Useful,
        result,
    }
}

/// Whether bubblewrap is there.
pub(super) fn bubblewrap() -> Finding {
    let result = Bubblewrap::find()
        .map(|found| shown(&found.path))
        .map_err(|error| Problem {
            why: error.to_string(),
            next: "install it (`apt install bubblewrap`, `dnf install bubblewrap`)".to_owned(),
        });
    Finding {
        name: "bubblewrap",
        need: Need::Required,
        result,
    }
}

/// Whether sessions have a place.
pub(super) fn sessions() -> Finding {
    let result = AegisHome::create()
        .map(|home| shown(home.path()))
        .map_err(|error| Problem {
            why: error.to_string(),
            next: error.next().unwrap_or_default(),
        });
    Finding {
        name: "sessions",
        need: Need::Required,
        result,
    }
}

/// How many files a session may have open at once: all that the processes inside have open.
pub(super) fn open_files() -> Finding {
    let most = getrlimit(Resource::Nofile).maximum;
    let shown = most.map_or_else(|| "any number".to_owned(), |most| most.to_string());
    let result = if most.is_none_or(|most| most >= FEW_FILES) {
        Ok(format!("{shown} in a session at once"))
    } else {
        Err(Problem {
            why: format!("only {shown} in a session at once"),
            next:
                "raise the hard limit of `nofile` (/etc/security/limits.conf, `LimitNOFILE=` of a \
                   service, `--ulimit nofile=` of a container)"
                    .to_owned(),
        })
    };
    Finding {
        name: "open files",
        need: Need::Useful,
        result,
    }
}

/// The part of a probe that can not be undone in its process: it runs in one of its own.
#[must_use]
pub fn child(arguments: &[OsString]) -> ExitCode {
    let found = match arguments.first().and_then(|name| name.to_str()) {
        Some("namespaces") => enter(),
        Some("mount") => enter().and_then(|_| mount()),
        _ => Err("there is no such probe".to_owned()),
    };
    let (text, code) = match found {
        Ok(text) => (text, ExitCode::SUCCESS),
        Err(why) => (why, ExitCode::FAILURE),
    };
    // The parent reads nothing where this fails, and says so.
    let _heard = io::stdout().write_all(text.as_bytes());
    code
}

fn enter() -> Result<String, String> {
    namespace::enter()
        .map(|_| "the launcher can have its own".to_owned())
        .map_err(|error| error.to_string())
}

fn mount() -> Result<String, String> {
    mount_in_namespace(Path::new(TRIED_ON), Options::default())
        .map(|_| "works without a set-uid helper".to_owned())
        .map_err(|error| error.to_string())
}

fn in_child(probe: &str) -> Result<String, String> {
    let output = ourselves()
        .args(["__probe", probe])
        .output()
        .map_err(|error| error.to_string())?;
    answer(&output)
}

fn answer(output: &Output) -> Result<String, String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match (output.status.success(), text.is_empty()) {
        (true, _) => Ok(text),
        (false, false) => Err(text),
        (false, true) => Err(format!("the probe ended with {}", output.status)),
    }
}

/// This program, by the file that runs and not by a name.
fn ourselves() -> Command {
    #[expect(
        clippy::disallowed_methods,
        reason = "a probe that can not be undone needs a process"
    )]
    let mut command = Command::new("/proc/self/exe");
    command.stdin(Stdio::null());
    command
}
