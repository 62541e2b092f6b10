//! `aegis-os mount`: the view without a sandbox.

pub mod helper;
mod options;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use super::audit::copy::AuditFile;
use super::{Outcome, talk};
use crate::keeper::{self, Lifeline};
use crate::session::config::Config;
use crate::session::home::shown;
use crate::session::project::Project;
use crate::session::view::{Access, Continue, End, View, Wanted};
use crate::session::{AegisHome, SessionId};

/// Mounts a view of a project for your own programs, without a sandbox.
///
/// With --shadow (which is the default) what is written below MOUNTPOINT stays in a session that
/// `diff`, `land` and `discard` work on. With --ro nothing can be written. Either way secrets can not
/// be read, and everything that is opened is on record. Nothing is confined: a program that knows
/// the real path can still use the real project.
/// Runs until Ctrl-C, or until something unmounts it (`aegis-os unmount MOUNTPOINT`).
#[derive(Debug, clap::Args)]
#[command(after_long_help = help())]
pub struct Args {
    /// The project.
    pub project: PathBuf,
    /// An empty folder outside the project.
    pub mountpoint: PathBuf,
    /// Nothing can be written.
    #[arg(long, conflicts_with = "shadow")]
    pub ro: bool,
    /// What is written stays in a session.
    #[arg(long)]
    pub shadow: bool,
    /// Returns once the view can be used, and serves it in the background.
    #[arg(long)]
    pub daemon: bool,
    /// Goes on with a session: its id or the first letters of it, or `last` for the newest one of the
    /// project that was made by `mount` (a new one where there is none).
    #[arg(long, short, value_name = "ID")]
    pub session: Option<String>,
    /// Further rules, in the Cedar language, from a file outside the project.
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Appends every effect to FILE as it happens, one JSON object per line (as `audit --json`).
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
    /// Options as in /etc/fstab, separated by commas.
    #[arg(short = 'o', value_name = "OPTIONS")]
    pub options: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  mkdir /tmp/view && aegis-os mount . /tmp/view
  aegis-os mount --ro --daemon --audit ~/audit.jsonl . /tmp/view
  aegis-os unmount /tmp/view

Options of -o (`aegis-os status` shows what is in force):
{OPTIONS}
From /etc/fstab, after `ln -s $(which aegis-os) /sbin/mount.aegisfs`:
  /home/me/project  /mnt/view  aegisfs  ro,noauto,audit=/var/log/aegis.jsonl  0  0
Or, where mount.fuse3 is installed, with `fuse.aegis-os` for the type. mount(8) gives its helpers no
HOME: what it mounts is in the ~/.aegis of the user that mounts, unless home=DIR says where.";

fn help() -> String {
    EXAMPLES.replace("{OPTIONS}", &options::help())
}

/// Mounts and serves until unmounted.
///
/// # Errors
/// When the view can not be mounted; no session is then left behind.
pub fn run(args: &Args) -> Outcome {
    let mut wanted = Wanted::default();
    for options in &args.options {
        options::apply(options, &mut wanted)?;
    }
    if args.ro {
        wanted.access = Access::ReadOnly;
    }
    if args.shadow {
        wanted.access = Access::Shadow;
    }
    match args.session.as_deref() {
        Some("last") => wanted.session = Continue::Last,
        Some(id) => wanted.session = Continue::Named(id.to_owned()),
        None => {}
    }
    wanted.policy = args.policy.clone().or(wanted.policy);
    wanted.audit = args.audit.clone().or(wanted.audit);
    let (project, mountpoint) = (args.project.clone(), args.mountpoint.clone());
    if args.daemon {
        return in_background(project, mountpoint, wanted);
    }
    keeper::keep(|lifeline| serve(project, mountpoint, wanted, &lifeline))
}

/// Returns once the view can be used, with status 0.
fn in_background(project: PathBuf, mountpoint: PathBuf, wanted: Wanted) -> Outcome {
    keeper::keep_in_background(|lifeline| serve(project, mountpoint, wanted, &lifeline))
}

fn serve(project: PathBuf, mountpoint: PathBuf, wanted: Wanted, lifeline: &Lifeline) -> Outcome {
    let project = Project::at(&project)?;
    project.check_apart(&AegisHome::place_at(wanted.home.as_deref())?)?;
    let home = AegisHome::create_at(wanted.home.as_deref())?;
    let config = Config::load(&home)?;
    let audit = wanted.audit.as_deref();
    let audit = audit
        .map(|path| AuditFile::open(path, project.path(), &mountpoint))
        .transpose()?;
    let view = View::open(home, project, &mountpoint, wanted, &config, lifeline)?;
    let copying = audit.map(|file| view.copy_audit(file)).transpose()?;
    talk::say(&format!(
        "aegis-os: session {} is mounted on `{}`; {}",
        view.session().id(),
        shown(view.mountpoint()),
        if lifeline.is_heralded() {
            "`aegis-os unmount` ends it"
        } else {
            "Ctrl-C unmounts it"
        }
    ));
    lifeline.ready()?;
    let access = view.access();
    let (session, end) = view.attend()?;
    let copied = copying.map_or(Ok(()), |copying| copying.finish());
    tell(session.id(), access, end);
    copied?;
    Ok(ExitCode::SUCCESS)
}

fn tell(id: &SessionId, access: Access, end: End) {
    let how = match end {
        End::Asked => "unmounted",
        End::Outside => "something else unmounted the view",
        End::Torn => "unmounted; what still used the view gets errors from now on",
    };
    let next = match access {
        Access::ReadOnly => format!("`aegis-os audit {id}`"),
        Access::Shadow => format!(
            "`aegis-os diff --session {id}`, `aegis-os land --session {id}` or \
             `aegis-os discard {id}`"
        ),
    };
    talk::say(&format!("aegis-os: {how}; {next}"));
}
