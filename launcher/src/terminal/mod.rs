//! Standing between the user's terminal and the command: nothing of the host's descriptors goes in.
//!
//! A standard stream that is a terminal becomes the sandbox's own terminal, whose other end is
//! here; any other stream becomes a pipe of ours. The relay copies between the two sides.

mod lane;
mod raw;
mod relay;
mod settle;

use std::io::{self, IsTerminal};
use std::os::fd::OwnedFd;

use rustix::pipe::PipeFlags;
use rustix::termios::OptionalActions;

use crate::sandbox::{Exit, Running, SandboxError, Stream};
use lane::End;
pub(crate) use raw::Modes;
pub use settle::settle;

/// Our ends of the command's standard streams.
#[derive(Debug)]
pub struct Stdio {
    streams: [Stream; 3],
    /// Ours of each pipe, in the order of the streams.
    pipes: [Option<OwnedFd>; 3],
    /// Theirs, until the sandbox has them.
    passed: Vec<OwnedFd>,
    /// The other end of the sandbox's terminal.
    master: Option<OwnedFd>,
}

impl Stdio {
    /// Looks at the launcher's own descriptors 0, 1 and 2 and prepares a stream of ours for each.
    ///
    /// # Errors
    /// [`SandboxError::System`] when pipes cannot be made.
    pub fn prepare() -> Result<Self, SandboxError> {
        let terminals = [
            io::stdin().is_terminal(),
            io::stdout().is_terminal(),
            io::stderr().is_terminal(),
        ];
        Self::of(terminals).map_err(SandboxError::system("making pipes for the command"))
    }

    fn of(terminals: [bool; 3]) -> io::Result<Self> {
        let mut stdio = Self {
            streams: terminals.map(|is_terminal| {
                if is_terminal {
                    Stream::Terminal
                } else {
                    Stream::Passed
                }
            }),
            pipes: [None, None, None],
            passed: Vec::new(),
            master: None,
        };
        for (number, (stream, ours)) in stdio.streams.iter().zip(&mut stdio.pipes).enumerate() {
            if *stream == Stream::Passed {
                let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
                let (kept, passed) = if number == 0 {
                    (writer, reader)
                } else {
                    (reader, writer)
                };
                rustix::io::ioctl_fionbio(&kept, true)?;
                *ours = Some(kept);
                stdio.passed.push(passed);
            }
        }
        Ok(stdio)
    }

    /// Copies both ways until the command has ended and its output is drained.
    ///
    /// The user's terminal is in raw mode meanwhile, when standard input is one, and restored on
    /// every way out. SIGTERM and SIGHUP to the launcher end the session.
    ///
    /// # Errors
    /// [`SandboxError::System`] when polling fails; the sandbox is dead then.
    pub fn relay(self, running: Running) -> Result<Exit, SandboxError> {
        relay::run(self, running)
    }

    pub(crate) fn streams(&self) -> [Stream; 3] {
        self.streams
    }

    pub(crate) fn has_terminal(&self) -> bool {
        self.streams.contains(&Stream::Terminal)
    }

    /// The ends for the command; they are given once.
    pub(crate) fn passed(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.passed)
    }

    /// Takes the other end of the sandbox's terminal and makes it like the user's.
    pub(crate) fn attach(&mut self, master: OwnedFd) -> Result<(), SandboxError> {
        self.make_alike(&master)
            .map_err(SandboxError::system("setting up the command's terminal"))?;
        self.master = Some(master);
        Ok(())
    }

    fn make_alike(&self, master: &OwnedFd) -> io::Result<()> {
        rustix::io::ioctl_fionbio(master, true)?;
        if let Some(user) = self.user_terminal() {
            let settings = rustix::termios::tcgetattr(user.borrow())?;
            rustix::termios::tcsetattr(master, OptionalActions::Now, &settings)?;
            copy_size(&user, master)?;
        }
        Ok(())
    }

    /// The descriptor of ours that is the user's terminal; output is shown there.
    fn user_terminal(&self) -> Option<End> {
        let [input, output, error] = self.streams;
        [
            (output, End::Output),
            (error, End::Error),
            (input, End::Input),
        ]
        .into_iter()
        .find(|(stream, _)| *stream == Stream::Terminal)
        .map(|(_, end)| end)
    }
}

fn copy_size(user: &End, master: &OwnedFd) -> io::Result<()> {
    let size = rustix::termios::tcgetwinsize(user.borrow())?;
    Ok(rustix::termios::tcsetwinsize(master, size)?)
}
