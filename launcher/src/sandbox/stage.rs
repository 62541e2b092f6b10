//! The first process inside the sandbox (`aegis-os __stage FD`): it becomes the command.
//!
//! Bubblewrap has built the mounts and namespaces by then. The stage opens the doors, hands them
//! out, and gives away everything that the command must not have.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use aegis_policies::path::escape;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::process::{Pid, PidfdFlags};
use rustix::pty::OpenptFlags;

use super::channel::Channel;
use super::message::{Bytes, Expected, Go, Order, Ready, Stream, Verdict};
use super::running::Enforced;
use super::{restrict, seccomp};
use crate::session::home::shown;
use crate::sys;

/// The sandbox is not what it should be.
const BROKEN: u8 = 125;
/// As shells say it (POSIX, Shell Command Language 2.8.2).
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;
/// What to say about a program that may well be on the host.
const NOWHERE: &str = "not found in the sandbox; `aegis-os run --ro PATH` shows what lies outside of \
                       the system's own directories";
/// Connections that wait while the proxy is busy (net.core.somaxconn is 4096 by default).
const BACKLOG: i32 = 256;

/// Runs the stage; returns only when the command could not be started.
///
/// `arguments` are those after `__stage`. Exit status 127: not found; 126: not executable; 125: the
/// sandbox is not what it should be.
#[must_use]
pub fn main(arguments: &[OsString]) -> ExitCode {
    let channel = match inherited(arguments) {
        Ok(channel) => channel,
        Err(error) => return broken(&format!("this is no command for people: {error}")),
    };
    match Stage::set(&channel) {
        Ok(stage) => stage.begin(&channel),
        Err(error) => {
            // The launcher may be gone; there is nobody else to tell.
            let _gone = channel.send(&Ready::Refused(error.to_string()), &[]);
            ExitCode::from(BROKEN)
        }
    }
}

fn inherited(arguments: &[OsString]) -> io::Result<Channel> {
    let number = arguments
        .first()
        .and_then(|text| text.to_str())
        .and_then(|text| text.parse().ok());
    let number = number.ok_or(io::ErrorKind::InvalidInput)?;
    Ok(Channel::from_inherited(sys::descriptor::adopt(number)?))
}

/// Everything is made and nothing is given away yet.
struct Stage {
    order: Order,
    passed: Vec<OwnedFd>,
    terminal: Option<OwnedFd>,
}

impl Stage {
    /// Receives the order, makes what it asks for and hands it out.
    fn set(channel: &Channel) -> io::Result<Self> {
        let (order, passed): (Order, _) = channel.receive()?;
        for expected in &order.expected {
            compare(expected)?;
        }
        let doors = order
            .doors
            .iter()
            .map(|port| listen(*port))
            .collect::<io::Result<Vec<_>>>()?;
        let (master, terminal) = order.terminal.then(terminal).transpose()?.unzip();
        let first = rustix::process::pidfd_open(Pid::INIT, PidfdFlags::empty())?;
        let own = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
        let given: Vec<BorrowedFd<'_>> = [&first, &own]
            .into_iter()
            .chain(&doors)
            .chain(&master)
            .map(AsFd::as_fd)
            .collect();
        channel.send(
            &Ready::Ready {
                doors: doors.len(),
                terminal: master.is_some(),
            },
            &given,
        )?;
        let (Go, _) = channel.receive()?;
        Ok(Self {
            order,
            passed,
            terminal,
        })
    }

    /// Gives everything away and becomes the command.
    fn begin(self, channel: &Channel) -> ExitCode {
        let verdict = self.restrict();
        let said = match &verdict {
            Ok(enforced) => Verdict::Enforced {
                landlock: enforced.landlock,
                missing: enforced.missing.clone(),
            },
            Err(error) => Verdict::Refused(error.clone()),
        };
        if channel.send(&said, &[]).is_err() || verdict.is_err() {
            return ExitCode::from(BROKEN);
        }
        run(self.order)
    }

    fn restrict(&self) -> Result<Enforced, String> {
        let words = |error: io::Error| error.to_string();
        self.take_streams().map_err(words)?;
        sys::keyring::join_fresh()
            .or_else(without_keyrings)
            .map_err(words)?;
        restrict::limits().map_err(|error| error.to_string())?;
        sys::signal::restore_defaults().map_err(words)?;
        sys::descriptor::close_on_exec_from(3).map_err(words)?;
        let table = aegis_policies::tables::seccomp().map_err(|error| error.to_string())?;
        let programs = seccomp::compile(&table).map_err(|error| error.to_string())?;
        let paths = |paths: &[Bytes]| paths.iter().map(Bytes::to_path).collect::<Vec<_>>();
        let enforced =
            restrict::landlock(&paths(&self.order.writable), &paths(&self.order.unreadable))
                .map_err(|error| error.to_string())?;
        seccomp::install(&programs).map_err(|error| error.to_string())?;
        Ok(enforced)
    }

    /// A session of its own, so that job control counts in the sandbox's pid namespace and the
    /// user's terminal is not the controlling one.
    fn take_streams(&self) -> io::Result<()> {
        rustix::process::setsid()?;
        if let Some(terminal) = &self.terminal {
            rustix::process::ioctl_tiocsctty(terminal)?;
        }
        let mut passed = self.passed.iter();
        let mut next = |stream: &Stream| match stream {
            Stream::Terminal => self.terminal.as_ref(),
            Stream::Passed => passed.next(),
        };
        let missing = || io::Error::from(io::ErrorKind::InvalidData);
        let [input, output, error] = &self.order.streams;
        rustix::stdio::dup2_stdin(next(input).ok_or_else(missing)?)?;
        rustix::stdio::dup2_stdout(next(output).ok_or_else(missing)?)?;
        rustix::stdio::dup2_stderr(next(error).ok_or_else(missing)?)?;
        Ok(())
    }
}

/// A kernel without keyrings has none to leave.
fn without_keyrings(error: io::Error) -> io::Result<()> {
    if error.raw_os_error() == Some(libc::ENOSYS) {
        Ok(())
    } else {
        Err(error)
    }
}

fn compare(expected: &Expected) -> io::Result<()> {
    let path = expected.at.to_path();
    let found = rustix::fs::stat(&path)?;
    if (found.st_dev, found.st_ino) == (expected.device, expected.inode) {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "`{}` is not what was to be bound there",
        shown(&path)
    )))
}

fn listen(port: u16) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    let address = std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, port);
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// A terminal of the sandbox's own: it is in the devpts that only the sandbox has.
fn terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags)?;
    rustix::pty::unlockpt(&master)?;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
    Ok((master, slave))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the sandbox room starts the command"
)]
fn run(order: Order) -> ExitCode {
    let mut words = order.command.into_iter().map(Bytes::into_text);
    let Some(program) = words.next() else {
        return ExitCode::from(BROKEN);
    };
    let error = Command::new(&program).args(words).exec();
    let (code, reason) = match error.kind() {
        io::ErrorKind::NotFound => (NOT_FOUND, NOWHERE.to_owned()),
        io::ErrorKind::PermissionDenied => (NOT_EXECUTABLE, "is not executable".to_owned()),
        _ => (NOT_EXECUTABLE, error.to_string()),
    };
    say(&format!(
        "aegis-os: `{}`: {reason}",
        escape(program.as_bytes())
    ));
    ExitCode::from(code)
}

fn broken(reason: &str) -> ExitCode {
    say(&format!("aegis-os: {reason}"));
    ExitCode::from(BROKEN)
}

fn say(words: &str) {
    // Standard error may be closed; the exit status says it too.
    let _closed = writeln!(io::stderr(), "{words}");
}
