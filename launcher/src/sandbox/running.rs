//! A sandbox that exists: waiting for the word, running, ended.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;

use super::channel::Channel;
use super::door::Door;
use super::message::{Go, Ready, Verdict};
use super::{Plan, SandboxError};
use crate::terminal::Stdio;

/// More words than bubblewrap ever says.
const MOST_WORDS: u64 = 8192;

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

/// The end of a sandbox, in the hand of another thread.
#[derive(Debug)]
pub struct Killer(Option<Arc<OwnedFd>>);

/// Bubblewrap's outer process and what it watches over.
#[derive(Debug)]
pub(super) struct Sandbox {
    monitor: Child,
    words: File,
    inside: Option<Inside>,
}

#[derive(Debug)]
struct Inside {
    /// The first process of the pid namespace; all others die before it is reaped.
    first: Arc<OwnedFd>,
    /// The stage, which becomes the command.
    command: OwnedFd,
}

impl Waiting {
    pub(super) fn new(doors: Vec<Door>, channel: Channel, sandbox: Sandbox) -> Self {
        Self {
            doors,
            channel,
            sandbox,
        }
    }

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
            kill(&inside.first);
        }
    }

    /// What kills everything inside from another thread.
    #[must_use]
    pub fn killer(&self) -> Killer {
        let inside = self.sandbox.inside.as_ref();
        Killer(inside.map(|inside| Arc::clone(&inside.first)))
    }

    /// Readable once the command has ended.
    pub(crate) fn ended(&self) -> Option<BorrowedFd<'_>> {
        self.sandbox
            .inside
            .as_ref()
            .map(|inside| inside.command.as_fd())
    }
}

impl Killer {
    /// Kills everything inside.
    pub fn kill(&self) {
        self.0.iter().for_each(|first| kill(first));
    }
}

fn kill(first: &OwnedFd) {
    // ESRCH: it is gone already.
    let _gone = rustix::process::pidfd_send_signal(first, Signal::KILL);
}

impl Sandbox {
    /// Bubblewrap has been started; `words` is what it complains to.
    pub(super) fn new(monitor: Child, words: OwnedFd) -> Self {
        Self {
            monitor,
            words: words.into(),
            inside: None,
        }
    }

    /// Takes over what the stage made.
    pub(super) fn take(
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
        self.inside = Some(Inside {
            first: Arc::new(first),
            command,
        });
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
    pub(super) fn why_it_ended(&mut self) -> SandboxError {
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
            kill(&inside.first);
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
