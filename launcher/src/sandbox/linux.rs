//! The Linux carrier: bubblewrap builds what the plan says, the stage inside does the rest.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio as ChildStdio};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{CWD, MemfdFlags, Mode, OFlags};
use rustix::process::Signal;

use super::bwrap::{self, Bubblewrap, Numbers};
use super::channel::Channel;
use super::door::Door;
use super::message::{Bytes, Expected, Go, Order, Ready, Verdict};
use super::mount::{Source, What};
use super::{Plan, SandboxError};
use crate::sys;
use crate::terminal::Stdio;

/// More words than bubblewrap ever says.
const MOST_WORDS: u64 = 8192;

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

/// What the kernel really enforces inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enforced {
    /// The Landlock ABI in force; 0 when the kernel has no Landlock.
    pub landlock: i32,
    /// What is weaker than planned, in words; empty when everything holds.
    pub missing: Vec<String>,
}

/// How the command ended, as a shell would report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// 0 to 255; 128+n when signal n ended it.
    pub code: u8,
}

/// A sandbox that is built and whose command has not started.
///
/// Dropping it ends the sandbox.
#[derive(Debug)]
pub struct Waiting {
    /// The listeners for the egress proxy, in the order of the plan.
    pub doors: Vec<Door>,
    channel: Channel,
    sandbox: Sandbox,
}

/// A sandbox whose command runs. Dropping it kills everything inside.
#[derive(Debug)]
pub struct Running {
    /// What is in force inside.
    pub enforced: Enforced,
    sandbox: Sandbox,
}

/// Bubblewrap's outer process and what it watches over.
#[derive(Debug)]
struct Sandbox {
    monitor: Child,
    words: File,
    inside: Option<Inside>,
}

#[derive(Debug)]
struct Inside {
    /// The first process of the pid namespace; all others die before it is reaped.
    first: OwnedFd,
    /// The stage, which becomes the command.
    command: OwnedFd,
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
    let (channel, theirs) =
        Channel::pair().map_err(SandboxError::system("making the sandbox's socket"))?;
    let order = order(plan, &descriptors, stdio)?;
    let mut sandbox =
        spawn(plan, &descriptors, &theirs).map_err(SandboxError::system("starting bubblewrap"))?;
    drop(theirs);
    let passed: Vec<_> = stdio.passed();
    let answer = channel
        .send(&order, &passed.iter().map(AsFd::as_fd).collect::<Vec<_>>())
        .and_then(|()| channel.receive::<Ready>());
    drop(passed);
    let Ok((ready, given)) = answer else {
        return Err(sandbox.why_it_ended());
    };
    let doors = sandbox.take(ready, given, plan, stdio)?;
    Ok(Waiting {
        doors,
        channel,
        sandbox,
    })
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
    Ok(Sandbox {
        monitor,
        words: words.into(),
        inside: None,
    })
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

impl Sandbox {
    /// Takes over what the stage made.
    fn take(
        &mut self,
        ready: Ready,
        given: Vec<OwnedFd>,
        plan: &Plan,
        stdio: &mut Stdio,
    ) -> Result<Vec<Door>, SandboxError> {
        let (doors, terminal) = match ready {
            Ready::Ready { doors, terminal } => (doors, terminal),
            Ready::Refused(reason) => return Err(SandboxError::Stage(reason)),
        };
        let mut given = given.into_iter();
        let (Some(first), Some(command)) = (given.next(), given.next()) else {
            return Err(SandboxError::Protocol("its processes are missing"));
        };
        self.inside = Some(Inside { first, command });
        if doors != plan.doors.len() || terminal != stdio.has_terminal() {
            return Err(SandboxError::Protocol("doors or terminal are missing"));
        }
        let doors = plan
            .doors
            .iter()
            .zip(given.by_ref())
            .map(|(port, listener)| Door::verify(*port, listener))
            .collect::<Result<Vec<_>, _>>()?;
        if let Some(master) = given.next() {
            stdio.attach(master)?;
        }
        Ok(doors)
    }

    /// Bubblewrap's own words, after it has ended.
    fn why_it_ended(&mut self) -> SandboxError {
        // It ended, or says nothing more because it is killed here.
        let _dead = self.monitor.kill();
        let status = self.monitor.wait();
        let mut words = String::new();
        let _partly = (&self.words).take(MOST_WORDS).read_to_string(&mut words);
        let words = words.trim().trim_start_matches("bwrap: ");
        if words.is_empty() {
            return SandboxError::Bubblewrap(match status {
                Ok(status) => format!("it ended without a word ({status})"),
                Err(error) => error.to_string(),
            });
        }
        SandboxError::Bubblewrap(words.to_owned())
    }

    /// Waits for the command, then for the death of everything inside.
    fn wait(&mut self) -> Result<Exit, SandboxError> {
        let status = self
            .monitor
            .wait()
            .map_err(SandboxError::system("waiting for the sandbox"))?;
        self.end();
        Ok(exit(status))
    }

    /// Kills everything inside and waits until it is gone. INVARIANT: nothing of the session runs
    /// after this, so what the journal holds is final.
    fn end(&mut self) {
        if let Some(inside) = self.inside.take() {
            // ESRCH: it is gone already.
            let _gone = rustix::process::pidfd_send_signal(&inside.first, Signal::KILL);
            wait_for_end(&inside.first);
        }
    }
}

/// A pidfd can be read once the process is gone; the first process of a pid namespace goes last.
fn wait_for_end(process: &OwnedFd) {
    let mut polled = [PollFd::new(process, PollFlags::IN)];
    while let Err(rustix::io::Errno::INTR) = rustix::event::poll(&mut polled, None) {}
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.end();
        // Harmless when it was waited for.
        let _dead = self.monitor.kill();
        let _reaped = self.monitor.wait();
    }
}

impl Waiting {
    /// Lets the command start.
    ///
    /// # Errors
    /// [`SandboxError::Stage`] when the last steps inside were refused.
    pub fn go(mut self) -> Result<Running, SandboxError> {
        let answer = self
            .channel
            .send(&Go, &[])
            .and_then(|()| self.channel.receive::<Verdict>());
        let Ok((verdict, _)) = answer else {
            return Err(self.sandbox.why_it_ended());
        };
        match verdict {
            Verdict::Enforced { landlock, missing } => Ok(Running {
                enforced: Enforced { landlock, missing },
                sandbox: self.sandbox,
            }),
            Verdict::Refused(reason) => Err(SandboxError::Stage(reason)),
        }
    }
}

impl Running {
    /// Waits for the command and then for the death of every process inside.
    ///
    /// # Errors
    /// [`SandboxError::System`] when waiting fails.
    pub fn wait(mut self) -> Result<Exit, SandboxError> {
        self.sandbox.wait()
    }

    /// Sends a signal to the command.
    pub fn signal(&self, signal: Signal) {
        if let Some(inside) = &self.sandbox.inside {
            // ESRCH: it has ended, which the relay is about to see.
            let _gone = rustix::process::pidfd_send_signal(&inside.command, signal);
        }
    }

    /// Kills everything inside.
    pub fn kill(&self) {
        if let Some(inside) = &self.sandbox.inside {
            // ESRCH: it is gone already.
            let _gone = rustix::process::pidfd_send_signal(&inside.first, Signal::KILL);
        }
    }

    /// Readable once the command has ended.
    pub(crate) fn ended(&self) -> Option<BorrowedFd<'_>> {
        self.sandbox
            .inside
            .as_ref()
            .map(|inside| inside.command.as_fd())
    }
}

/// Bubblewrap reports the command's status as a shell does; its own death is one by signal.
fn exit(status: ExitStatus) -> Exit {
    let signalled = status.signal().map(|signal| 128 + signal);
    let code = status
        .code()
        .or(signalled)
        .and_then(|code| u8::try_from(code).ok());
    Exit {
        code: code.unwrap_or(u8::MAX),
    }
}
