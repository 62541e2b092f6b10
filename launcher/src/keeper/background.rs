//! Going on in the background, once there is something to go on with.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use super::{Lifeline, failed, keep_with};
use crate::cli::Outcome;
use crate::error::OWN_FAILURE;
use crate::sys::child::{Half, divide};

/// Tells the process that the person started that it can return.
#[derive(Debug)]
pub(super) struct Herald(File);

/// As [`super::keep`], but returns as soon as the copy says that it is ready, with status 0; when the copy
/// ends before, with its status.
///
/// # Errors
/// As there.
pub fn keep_in_background(work: impl FnOnce(Lifeline) -> Outcome) -> Outcome {
    let (told, herald) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?;
    match divide().map_err(failed)? {
        Half::Original { copy } => {
            drop(herald);
            Ok(wait(told, copy))
        }
        Half::Copy => {
            drop(told);
            // Away from the terminal, its signals and its end.
            rustix::process::setsid().map_err(|errno| failed(errno.into()))?;
            keep_with(Some(Herald(herald.into())), work)
        }
    }
}

impl Herald {
    /// Says that the work is done as far as the person waits for it.
    ///
    /// # Errors
    /// When nobody waits any more.
    pub(super) fn announce(mut self) -> io::Result<()> {
        leave_streams()?;
        self.0.write_all(b".")
    }
}

/// Lets go of the standard streams, whose other ends may be waited for.
pub(super) fn leave_streams() -> io::Result<()> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let nothing = openat(CWD, "/dev/null", flags, Mode::empty())?;
    dup2_stdin(&nothing)?;
    dup2_stdout(&nothing)?;
    Ok(dup2_stderr(&nothing)?)
}

fn wait(told: OwnedFd, copy: Pid) -> ExitCode {
    if File::from(told).read_exact(&mut [0]).is_ok() {
        return ExitCode::SUCCESS;
    }
    match waitpid(copy, None) {
        Ok(WaitStatus::Exited(_, status)) => {
            ExitCode::from(u8::try_from(status).unwrap_or(OWN_FAILURE))
        }
        _ => ExitCode::from(OWN_FAILURE),
    }
}
