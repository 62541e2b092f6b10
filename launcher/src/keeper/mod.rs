//! The process that stays when the one that serves does not.
//!
//! A session's tree is answered for by threads of one process. When that process is killed, stopped
//! or hangs, whoever waits for it would sit before a terminal that is out of order, and what runs
//! inside would wait for answers for ever. So the process that a person starts does no more than
//! watch a copy of itself, which does the work and gives a sign of life again and again. Each of the
//! two outlives the other in order: the copy ends the session when this process dies.

mod background;
mod lifeline;
mod probe;
mod watch;
mod word;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::PidfdFlags;

use crate::cli::Outcome;
use crate::error::{CommandError, OWN_FAILURE};
use crate::sandbox::Channel;
use crate::session::stale;
use crate::sys::child::{Half, divide};
use crate::terminal::{Modes, settle};
use background::Herald;
pub use background::keep_in_background;
pub use lifeline::{At, Lifeline, Vigil};
use watch::{Ending, Watch};
use word::Word;

/// How long one look lasts at most when nothing happens.
const TICK: Duration = Duration::from_secs(1);
/// How long the processes of a dead session may take to be gone before they are killed one by one.
const AFTERMATH: Duration = Duration::from_secs(2);
/// How long a killed process may take to be gone. One that waits for a disk takes as long as the disk.
const LAST_WAIT: Duration = Duration::from_secs(10);
/// How often the end of killed processes is looked for.
const PAUSE: Duration = Duration::from_millis(20);
/// The signals that this process hears instead of dying of them. SIGTTOU is not heard but held back:
/// the terminal is put in order also from the background (tcsetattr(3)).
const HEARD: [Signal; 6] = [
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGCHLD,
    Signal::SIGTTOU,
];
/// `si_code` of a signal that the kernel sent, such as for Ctrl-C: the copy got it as well.
const FROM_KERNEL: i32 = 0x80;

/// Does `work` in a copy of this process, and stays with it to its end.
///
/// Must be called while the process has one thread.
///
/// # Errors
/// What `work` says, in the copy; here, that the copy could not be made or did not end in order.
pub fn keep(work: impl FnOnce(Lifeline) -> Outcome) -> Outcome {
    keep_with(None, work)
}

fn keep_with(herald: Option<Herald>, work: impl FnOnce(Lifeline) -> Outcome) -> Outcome {
    let (ours, theirs) = Channel::pair().map_err(failed)?;
    // The writer never waits: a keeper that is stopped must not hold up who asks the tree.
    let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
    let (answers, alive) = pipe_with(flags).map_err(|errno| failed(errno.into()))?;
    let heard: SigSet = HEARD.into_iter().collect();
    let before = heard
        .thread_swap_mask(SigmaskHow::SIG_BLOCK)
        .map_err(|errno| failed(errno.into()))?;
    let keeper = rustix::process::getpid();
    match divide().map_err(failed)? {
        Half::Copy => {
            let is_heralded = herald.is_some();
            drop((ours, answers, herald));
            let unblocked = before.thread_set_mask();
            unblocked.map_err(|errno| failed(errno.into()))?;
            work(Lifeline::to(keeper, theirs, alive, is_heralded))
        }
        Half::Original { copy } => {
            drop((theirs, alive));
            let mut keeper = Keeper::of(copy, ours, answers, &heard).map_err(failed)?;
            keeper.herald = herald;
            keeper.stay()
        }
    }
}

fn failed(source: io::Error) -> CommandError {
    CommandError::io("starting a process to serve", source)
}

/// What the keeper is woken by.
#[derive(Debug)]
enum Event {
    /// A signal, and whether the kernel sent it.
    Signal(Signal, Origin),
    /// The serving process says something.
    Word(Word),
    /// The tree has answered.
    Answered,
    /// Nobody asks the tree any more.
    Unwatched,
}

/// Who sent a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Kernel,
    Process,
}

struct Keeper {
    copy: Pid,
    process: OwnedFd,
    events: Receiver<Event>,
    modes: Option<Modes>,
    herald: Option<Herald>,
    watch: Watch,
}

impl Keeper {
    fn of(copy: Pid, channel: Channel, answers: OwnedFd, heard: &SigSet) -> io::Result<Self> {
        // What is left of a session whose server died becomes a child of this process.
        nix::sys::prctl::set_child_subreaper(true)?;
        let number = rustix::process::Pid::from_raw(copy.as_raw());
        let number = number.ok_or(io::ErrorKind::NotFound)?;
        let (sender, events) = mpsc::channel();
        let signals = SignalFd::with_flags(heard, SfdFlags::SFD_CLOEXEC)?;
        rustix::io::ioctl_fionbio(&answers, false)?;
        listen(channel, sender.clone());
        feel(answers, sender.clone());
        notice(signals, sender);
        Ok(Self {
            copy,
            process: rustix::process::pidfd_open(number, PidfdFlags::empty())?,
            events,
            modes: Modes::of_input(),
            herald: None,
            watch: Watch::default(),
        })
    }

    /// Waits for the end of the copy, or makes it.
    fn stay(mut self) -> Outcome {
        let mut last = Instant::now();
        loop {
            if let Some(status) = self.reap() {
                return self.close(Ending::of(status));
            }
            if let Ok(event) = self.events.recv_timeout(self.watch.look()) {
                self.act(event);
            }
            let now = Instant::now();
            self.watch.pass(now - last);
            last = now;
            if self.watch.is_over() {
                self.kill();
                return self.close(Ending::Silent);
            }
        }
    }

    fn act(&mut self, event: Event) {
        match event {
            Event::Signal(signal, origin) => self.forward(signal, origin),
            Event::Word(Word::Ready) => self.announce(),
            Event::Word(word) => self.watch.hear(word),
            Event::Answered => self.watch.answered(),
            Event::Unwatched => self.watch.hear(Word::Closing),
        }
    }

    /// Goes to the background. When the person does not wait any more, nobody wants what was begun.
    fn announce(&mut self) {
        let announced = self.herald.take().map_or(Ok(()), Herald::announce);
        if announced.is_err() {
            self.forward(Signal::SIGTERM, Origin::Process);
        }
    }

    /// Hands on what was sent to this process, which is the one that others know.
    fn forward(&self, signal: Signal, origin: Origin) {
        let signal = match (signal, origin) {
            (Signal::SIGTERM, _) => rustix::process::Signal::TERM,
            (Signal::SIGHUP, _) => rustix::process::Signal::HUP,
            (Signal::SIGINT, Origin::Process) => rustix::process::Signal::INT,
            (Signal::SIGQUIT, Origin::Process) => rustix::process::Signal::QUIT,
            _ => return,
        };
        // ESRCH: it has ended, which is seen next.
        let _gone = rustix::process::pidfd_send_signal(&self.process, signal);
    }

    /// Reaps what has ended; the status of the copy when it is among them.
    fn reap(&self) -> Option<WaitStatus> {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) | Err(_) => return None,
                Ok(status) if status.pid() == Some(self.copy) => return Some(status),
                Ok(_) => {}
            }
        }
    }

    fn kill(&self) {
        if let Some(device) = self.watch.device() {
            stale::abort(device);
        }
        let kill = rustix::process::Signal::KILL;
        let _gone = rustix::process::pidfd_send_signal(self.process.as_fd(), kill);
    }

    /// Sees to it that nothing is left, and says what happened when it was not in order.
    fn close(mut self, ending: Ending) -> Outcome {
        if let Ending::Exited(code) = ending {
            return Ok(ExitCode::from(u8::try_from(code).unwrap_or(OWN_FAILURE)));
        }
        // Its last words may say which session it was.
        while let Ok(event) = self.events.recv_timeout(PAUSE) {
            if let Event::Word(word @ Word::Session { .. }) = event {
                self.watch.hear(word);
            }
        }
        let is_gone = clear();
        if let Some(mountpoint) = self.watch.mountpoint() {
            stale::detach_ours(mountpoint);
        }
        if let Some(modes) = &self.modes {
            modes.restore();
            settle();
        }
        match self.watch.told(ending, is_gone) {
            Ok(error) => Err(error),
            Err(status) => Ok(ExitCode::from(status)),
        }
    }
}

/// Hears what the serving process says until it is gone.
fn listen(channel: Channel, events: Sender<Event>) {
    thread::spawn(move || {
        while let Ok((word, _)) = channel.receive::<Word>() {
            if events.send(Event::Word(word)).is_err() {
                return;
            }
        }
    });
}

/// Hears the tree's answers until nobody asks it any more.
fn feel(answers: OwnedFd, events: Sender<Event>) {
    thread::spawn(move || {
        let mut some = [0_u8; 64];
        while rustix::io::read(&answers, &mut some).is_ok_and(|count| count > 0) {
            if events.send(Event::Answered).is_err() {
                return;
            }
        }
        // The keeper is at its end where this fails.
        let _over = events.send(Event::Unwatched);
    });
}

/// Hears signals.
fn notice(signals: SignalFd, events: Sender<Event>) {
    thread::spawn(move || {
        while let Ok(Some(heard)) = signals.read_signal() {
            let number = i32::try_from(heard.ssi_signo).unwrap_or(0);
            let Ok(signal) = Signal::try_from(number) else {
                continue;
            };
            let origin = if heard.ssi_code == FROM_KERNEL {
                Origin::Kernel
            } else {
                Origin::Process
            };
            if events.send(Event::Signal(signal, origin)).is_err() {
                return;
            }
        }
    });
}

/// Waits until every process of the session is gone; `false` when one stays.
fn clear() -> bool {
    let started = Instant::now();
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Err(Errno::ECHILD) => return true,
            Ok(WaitStatus::StillAlive) if started.elapsed() > LAST_WAIT => return false,
            Ok(WaitStatus::StillAlive) => {
                if started.elapsed() > AFTERMATH {
                    kill_children();
                }
                thread::sleep(PAUSE);
            }
            _ => {}
        }
    }
}

/// Kills every child of this process. They are not reaped meanwhile, so no number is used again.
fn kill_children() {
    // Each thread has children of its own (proc_pid_task_tid_children(5)); the first one has all.
    let path = format!("/proc/self/task/{}/children", std::process::id());
    let children = std::fs::read_to_string(path).unwrap_or_default();
    for child in children.split_ascii_whitespace() {
        if let Ok(number) = child.parse() {
            let _gone = nix::sys::signal::kill(Pid::from_raw(number), Signal::SIGKILL);
        }
    }
}
