//! The Linux carrier: bubblewrap builds what the plan says, the stage inside does the rest.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio as ChildStdio};

use rustix::fs::{CWD, MemfdFlags, Mode, OFlags};

use super::bwrap::{self, Bubblewrap, Numbers};
use super::channel::Channel;
use super::message::{Bytes, Expected, Order, Ready};
use super::mount::{Source, What};
use super::running::{Sandbox, Waiting};
use super::{Plan, SandboxError};
use crate::sys;
use crate::terminal::Stdio;

/// The directories and the file that are bound by descriptor, so that no name can be swapped.
#[derive(Debug)]
pub struct Descriptors {
    /// The root of the aegisfs view.
    pub view: OwnedFd,
    /// The project's real directory.
    pub real_tree: OwnedFd,
    /// The session's private home.
    pub home: OwnedFd,
    /// The program that is the stage and the shims: `own_binary()`.
    pub binary: OwnedFd,
}

/// The program that this process runs, whatever its name means by now.
///
/// # Errors
/// [`SandboxError::System`] when /proc is not mounted.
pub fn own_binary() -> Result<OwnedFd, SandboxError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, "/proc/self/exe", flags, Mode::empty())
        .map_err(SandboxError::system("opening the launcher's own program"))
}

/// Builds the sandbox and stops before the command.
///
/// Call it from the thread that lives as long as the launcher: the sandbox dies with it. The view
/// must be served by then.
///
/// # Errors
/// [`SandboxError`] in every case in which the sandbox would be weaker than the plan.
pub fn start(
    plan: &Plan,
    descriptors: Descriptors,
    stdio: &mut Stdio,
) -> Result<Waiting, SandboxError> {
    let passed = stdio.passed();
    let mut plan = without_vanished(plan);
    loop {
        let failure = match build(&plan, &descriptors, stdio, &passed) {
            Err(SandboxError::Bubblewrap(words)) => SandboxError::Bubblewrap(words),
            other => return other,
        };
        // The host goes on: a socket that was to be hidden may be gone by the time it is covered.
        let left = without_vanished(&plan);
        if left.mounts.len() == plan.mounts.len() {
            return Err(failure);
        }
        plan = left;
    }
}

/// Leaves out the covers of what the host no longer has; there is nothing to hide.
fn without_vanished(plan: &Plan) -> Plan {
    let mut left = plan.clone();
    left.mounts.retain(|mount| {
        let is_cover = matches!(mount.what, What::Hidden | What::Empty);
        !is_cover || mount.at.symlink_metadata().is_ok()
    });
    left
}

fn build(
    plan: &Plan,
    descriptors: &Descriptors,
    stdio: &mut Stdio,
    passed: &[OwnedFd],
) -> Result<Waiting, SandboxError> {
    let (channel, theirs) =
        Channel::pair().map_err(SandboxError::system("making the sandbox's socket"))?;
    let order = order(plan, descriptors, stdio)?;
    let mut sandbox =
        spawn(plan, descriptors, &theirs).map_err(SandboxError::system("starting bubblewrap"))?;
    drop(theirs);
    let passed: Vec<_> = passed.iter().map(AsFd::as_fd).collect();
    let answer = channel
        .send(&order, &passed)
        .and_then(|()| channel.receive::<Ready>());
    let Ok((ready, given)) = answer else {
        return Err(sandbox.why_it_ended());
    };
    let doors = sandbox.take(ready, given, plan, stdio)?;
    Ok(Waiting::new(doors, channel, sandbox))
}

fn order(plan: &Plan, held: &Descriptors, stdio: &Stdio) -> Result<Order, SandboxError> {
    let paths = |paths: &[PathBuf]| {
        paths
            .iter()
            .map(|path| Bytes::from(path.as_path()))
            .collect()
    };
    Ok(Order {
        command: plan
            .command
            .iter()
            .map(|word| Bytes::from(word.as_os_str()))
            .collect(),
        doors: plan.doors.clone(),
        writable: paths(&plan.writable),
        unreadable: paths(&plan.unreadable),
        expected: expected(plan, held)
            .map_err(SandboxError::system("looking at what is to be bound"))?,
        streams: stdio.streams(),
        terminal: stdio.has_terminal(),
    })
}

fn expected(plan: &Plan, held: &Descriptors) -> io::Result<Vec<Expected>> {
    let mut all = Vec::new();
    for mount in &plan.mounts {
        let descriptor = match &mount.what {
            What::Bind {
                from: Source::View, ..
            } => &held.view,
            What::Bind {
                from: Source::RealTree,
                ..
            } => &held.real_tree,
            What::Bind {
                from: Source::Home, ..
            } => &held.home,
            What::Bind {
                from: Source::Binary,
                ..
            } => &held.binary,
            _ => continue,
        };
        let status = rustix::fs::fstat(descriptor)?;
        let at = Bytes::from(mount.at.as_path());
        all.push(Expected {
            at,
            device: status.st_dev,
            inode: status.st_ino,
        });
    }
    Ok(all)
}

fn spawn(plan: &Plan, held: &Descriptors, theirs: &Channel) -> io::Result<Sandbox> {
    let empty = plan
        .mounts
        .iter()
        .filter(|mount| mount.what == What::Empty)
        .map(|_| File::open("/dev/null"))
        .collect::<io::Result<Vec<_>>>()?;
    let numbers = Numbers {
        view: held.view.as_raw_fd(),
        real_tree: held.real_tree.as_raw_fd(),
        home: held.home.as_raw_fd(),
        binary: held.binary.as_raw_fd(),
        empty: empty.iter().map(AsRawFd::as_raw_fd).collect(),
        channel: theirs.as_fd().as_raw_fd(),
    };
    let arguments = in_memory(&bwrap::to_bytes(&plan.bubblewrap.arguments(plan, &numbers)))?;
    let (words, their_words) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let monitor = command(&plan.bubblewrap, &numbers, arguments.as_fd(), their_words).spawn()?;
    Ok(Sandbox::new(monitor, words))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the sandbox room starts bubblewrap"
)]
fn command(
    bubblewrap: &Bubblewrap,
    numbers: &Numbers,
    arguments: BorrowedFd<'_>,
    words: OwnedFd,
) -> Command {
    let mut command = Command::new(&bubblewrap.path);
    // Without the host's variables: what a process was started with stays readable in /proc.
    command
        .env_clear()
        .current_dir("/")
        .stdin(ChildStdio::null())
        .stdout(ChildStdio::null())
        .stderr(words)
        .args(["--args", &arguments.as_raw_fd().to_string(), "--"])
        .args(bwrap::stage_command(numbers));
    let named = [
        numbers.view,
        numbers.real_tree,
        numbers.home,
        numbers.binary,
        numbers.channel,
    ];
    let inherited = named
        .into_iter()
        .chain([arguments.as_raw_fd()])
        .chain(numbers.empty.iter().copied());
    sys::child::isolate(&mut command, inherited.collect());
    command
}

/// A file without a name, which nobody can change while bubblewrap reads it.
fn in_memory(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("arguments", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}
