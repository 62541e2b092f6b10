//! What a person wants of a view.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use aegisfs::fuse::{Options, Terms};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::process::geteuid;

use crate::error::CommandError;
use crate::session::Access;
use crate::session::config::Config;
use crate::session::home::{real_path, shown};

/// No honest policy is longer than this, in bytes.
const LONGEST_POLICY: u64 = 1 << 20;

/// What a view is to be like.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Whether it can be changed.
    pub access: Access,
    /// Which session keeps what is changed.
    pub session: Continue,
    /// A file with further policies.
    pub policy: Option<PathBuf>,
    /// A file that the audit is copied to.
    pub audit: Option<PathBuf>,
    /// The folder of sessions, where it is not the usual one: mount(8) starts its helpers without the
    /// environment that says where that is.
    pub home: Option<PathBuf>,
    /// How the mount looks to others.
    pub looks: Terms,
    /// How it is served.
    pub options: Options,
}

/// Which session a view belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Continue {
    /// A new one.
    #[default]
    New,
    /// The newest one of the project that was made for a view; a new one where there is none.
    Last,
    /// The one whose id starts so.
    Named(String),
}

/// The person's own policies: those of `config`, and those of `file`, which may not lie in `project`.
/// A project can not bring rules, because what works on it could change them.
pub(super) fn policies(
    config: &Config,
    file: Option<&Path>,
    project: &Path,
) -> Result<Option<String>, CommandError> {
    let Some(file) = file else {
        return Ok(config.policy.clone());
    };
    let refuse = |why: String| {
        let what = format!("the policy `{}` can not be used", shown(file));
        CommandError::told(&what, why, "name a file of your own outside of the project")
    };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = openat(CWD, file, flags, Mode::empty());
    let opened = opened.map_err(|errno| refuse(errno.to_string()))?;
    let status = fstat(&opened).map_err(|errno| refuse(errno.to_string()))?;
    let real = real_path(opened.as_fd()).map_err(|error| refuse(error.to_string()))?;
    if real.starts_with(project) {
        return Err(refuse("it lies in the project".to_owned()));
    }
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Err(refuse("it is no regular file".to_owned()));
    }
    let is_ours = status.st_uid == geteuid().as_raw() || status.st_uid == 0;
    let others = Mode::WGRP | Mode::WOTH;
    if !is_ours || Mode::from_raw_mode(status.st_mode).intersects(others) {
        return Err(refuse("others can change it".to_owned()));
    }
    let mut text = config.policy.clone().unwrap_or_default();
    text.push('\n');
    let mut limited = File::from(opened).take(LONGEST_POLICY);
    limited
        .read_to_string(&mut text)
        .map_err(|error| refuse(error.to_string()))?;
    if limited.limit() == 0 {
        return Err(refuse("it is longer than 1 MiB".to_owned()));
    }
    Ok(Some(text))
}
