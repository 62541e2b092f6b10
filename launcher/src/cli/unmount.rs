//! `aegis-os unmount`: ends a view.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::{Outcome, talk};
use crate::error::CommandError;
use crate::session::home::{real_path, shown};
use crate::session::stale::{self, Left};
use crate::session::{self, Session};

/// How long the server of an unmounted view may take to write down its end.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// How long a view that is in use is tried again.
const LAST_LOOKS: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(10);

/// Unmounts a view that `aegis-os mount` made, and waits until its session can be landed. Where there
/// is none, nothing is to be done.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where the view is mounted.
    pub mountpoint: PathBuf,
    /// Also while programs use it: it is gone from its place at once, and ends with them.
    #[arg(long)]
    pub lazy: bool,
}

/// Unmounts.
///
/// # Errors
/// When the view is in use, or somebody else's.
pub fn run(args: &Args) -> Outcome {
    let place = locate(&args.mountpoint);
    let left = leave(&place, args.lazy).map_err(|error| refused(&place, &error))?;
    if left == Left::Nothing {
        talk::say(&format!(
            "aegis-os: no view is mounted on `{}`",
            shown(&place)
        ));
        return Ok(ExitCode::SUCCESS);
    }
    if !args.lazy {
        wait(&place)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Unmounts. Somebody may just be looking at it, as the process that watches it does.
fn leave(place: &Path, lazily: bool) -> io::Result<Left> {
    let started = Instant::now();
    loop {
        match stale::leave(place, lazily) {
            Err(error)
                if error.kind() == io::ErrorKind::ResourceBusy
                    && started.elapsed() < LAST_LOOKS =>
            {
                sleep(PAUSE);
            }
            left => return left,
        }
    }
}

/// The place, free of links; the mount itself is not looked at, since nobody may answer for it.
fn locate(mountpoint: &Path) -> PathBuf {
    let absolute = std::path::absolute(mountpoint).unwrap_or_else(|_| mountpoint.to_owned());
    let (Some(folder), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        return absolute;
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(CWD, folder, flags, Mode::empty()).ok();
    let real = folder.and_then(|folder| real_path(folder.as_fd()).ok());
    real.map_or(absolute.clone(), |real| real.join(name))
}

/// Waits until nobody serves a session on `place`.
fn wait(place: &Path) -> Result<(), CommandError> {
    let started = Instant::now();
    let is_here = |session: &Session| session.record().mountpoint() == place && session.is_live();
    while started.elapsed() < LAST_WORDS {
        if !session::list()?.sessions.iter().any(is_here) {
            return Ok(());
        }
        sleep(PAUSE);
    }
    talk::say("aegis-os: unmounted; its session has not ended yet");
    Ok(())
}

fn refused(place: &Path, error: &io::Error) -> CommandError {
    let what = format!("`{}` can not be unmounted", shown(place));
    let next = if error.kind() == io::ErrorKind::ResourceBusy {
        "end the programs that use it (`fuser -vm` lists them), or unmount it with `--lazy`"
    } else {
        "unmount it as the user who mounted it"
    };
    CommandError::told(&what, error, next)
}
