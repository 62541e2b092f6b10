//! The loop that copies between the user and the command, and hears the launcher's signals.

use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::lane::{End, Lane};
use super::raw::Raw;
use super::settle::settle;
use super::{Stdio, copy_size};
use crate::sandbox::{Exit, Running, SandboxError, Stream};
use crate::sys::signal::SignalPipe;

/// What the launcher hears while a command runs.
const HEARD: [Signal; 5] = [
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGWINCH,
];
/// How long a command may take to end after SIGTERM before everything inside is killed.
const GRACE: Duration = Duration::from_secs(3);
/// How long what the command has said may take to be shown after somebody asked for the end.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// What Ctrl-C and Ctrl-\ send, unless the user changed it (termios(3), VINTR and VQUIT).
const INTERRUPT: u8 = 0x03;
const QUIT: u8 = 0x1c;

/// Runs until the command has ended and its output is drained.
pub(super) fn run(stdio: Stdio, running: Running) -> Result<Exit, SandboxError> {
    let failed = || SandboxError::system("standing between the terminal and the command");
    let signals = SignalPipe::listen(&HEARD).map_err(failed())?;
    let is_interactive = stdio.streams.first() == Some(&Stream::Terminal);
    let raw = is_interactive
        .then(Raw::enter)
        .transpose()
        .map_err(failed())?;
    let mut relay = Relay::new(stdio, signals);
    // The size may have changed before anybody listened.
    relay.resize();
    relay.copy_until_end(&running).map_err(failed())?;
    let exit = running.wait()?;
    relay.drain().map_err(failed())?;
    if relay.terminals.is_some() {
        settle();
    }
    if let Some(raw) = &raw {
        raw.discard();
    }
    drop(raw);
    // Who asked for the end sees that signal, whatever the command made of it.
    let asked = relay
        .ended_by
        .and_then(|signal| u8::try_from(128 + signal as i32).ok());
    Ok(asked.map_or(exit, |code| Exit { code }))
}

struct Relay {
    signals: SignalPipe,
    input: Lane,
    outputs: Vec<Lane>,
    /// The user's terminal and the command's, whose sizes are the same.
    terminals: Option<(End, Rc<std::os::fd::OwnedFd>)>,
    ended_by: Option<Signal>,
    deadline: Option<Instant>,
}

/// What a wait was woken by.
#[derive(Debug, Default)]
struct Woken {
    ended: bool,
    signalled: bool,
}

impl Relay {
    fn new(mut stdio: Stdio, signals: SignalPipe) -> Self {
        let master = stdio.master.take().map(Rc::new);
        let user = stdio.user_terminal();
        let [input, output, error] = std::mem::take(&mut stdio.pipes).map(|pipe| pipe.map(Rc::new));
        let to_command = input.or_else(|| master.clone());
        let lane = |from: Option<Rc<_>>, to| from.map(|from| Lane::new(End::Own(from), to));
        let shown = user.clone().unwrap_or(End::Output);
        Self {
            input: to_command.map_or_else(Lane::closed, |to| Lane::new(End::Input, End::Own(to))),
            outputs: [
                lane(output, End::Output),
                lane(error, End::Error),
                lane(master.clone(), shown),
            ]
            .into_iter()
            .flatten()
            .collect(),
            terminals: user.zip(master),
            signals,
            ended_by: None,
            deadline: None,
        }
    }

    fn copy_until_end(&mut self, running: &Running) -> std::io::Result<()> {
        loop {
            let woken = self.step(Some(running))?;
            if woken.signalled {
                self.hear(running);
            }
            if self.is_late() {
                running.kill();
                return Ok(());
            }
            if woken.ended {
                return Ok(());
            }
        }
    }

    /// Everything inside is dead, so each output ends, unless nobody reads it. Who asks for the end
    /// does not wait for such a reader.
    fn drain(&mut self) -> std::io::Result<()> {
        self.input = Lane::closed();
        self.deadline = self.ended_by.map(|_| Instant::now() + LAST_WORDS);
        while self.outputs.iter().any(|lane| !lane.is_done()) && !self.is_late() {
            let woken = self.step(None)?;
            let is_asked = |signal: &Signal| matches!(signal, Signal::SIGTERM | Signal::SIGHUP);
            if woken.signalled {
                let asked = self.signals.arrived().into_iter().find(is_asked);
                self.ended_by = self.ended_by.or(asked);
                if asked.is_some() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn is_late(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Waits for anything to happen and moves what can be moved.
    fn step(&mut self, running: Option<&Running>) -> std::io::Result<Woken> {
        let lanes = || std::iter::once(&self.input).chain(&self.outputs);
        let ended = running.and_then(Running::ended);
        let mut polled = vec![PollFd::new(self.signals.reader(), PollFlags::IN)];
        polled.extend(
            ended
                .iter()
                .map(|process| PollFd::new(process, PollFlags::IN)),
        );
        let fixed = polled.len();
        polled.extend(
            lanes()
                .filter_map(Lane::wants)
                .map(|(end, flags)| PollFd::from_borrowed_fd(end, flags)),
        );
        let timeout = self.timeout();
        match rustix::event::poll(&mut polled, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Woken::default()),
            Err(other) => return Err(other.into()),
        }
        let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(polled);
        self.move_ready(ready.get(fixed..).unwrap_or_default());
        let is_ready = |at: usize| ready.get(at).copied().unwrap_or(false);
        Ok(Woken {
            signalled: is_ready(0),
            ended: fixed == 2 && is_ready(1),
        })
    }

    /// `ready` has one entry for each lane that is not done, in order.
    fn move_ready(&mut self, ready: &[bool]) {
        let lanes = std::iter::once(&mut self.input).chain(&mut self.outputs);
        let waiting = lanes.filter(|lane| !lane.is_done());
        waiting
            .zip(ready)
            .filter(|(_, is_ready)| **is_ready)
            .for_each(|(lane, _)| lane.advance());
    }

    fn timeout(&self) -> Option<Timespec> {
        let left = self.deadline?.saturating_duration_since(Instant::now());
        Timespec::try_from(left).ok()
    }

    fn hear(&mut self, running: &Running) {
        for signal in self.signals.arrived() {
            match signal {
                Signal::SIGWINCH => self.resize(),
                Signal::SIGINT => self.interrupt(running, INTERRUPT, rustix::process::Signal::INT),
                Signal::SIGQUIT => self.interrupt(running, QUIT, rustix::process::Signal::QUIT),
                Signal::SIGHUP => self.end(running, signal, rustix::process::Signal::HUP),
                _ => self.end(running, signal, rustix::process::Signal::TERM),
            }
        }
    }

    fn resize(&self) {
        if let Some((user, master)) = &self.terminals {
            // A terminal that is gone has no size; SIGHUP follows.
            let _gone = copy_size(user, master);
        }
    }

    /// Through the command's terminal when it has one, so that its foreground job is meant.
    fn interrupt(&mut self, running: &Running, key: u8, signal: rustix::process::Signal) {
        match &self.terminals {
            Some((_, master)) if rustix::io::write(master, &[key]).is_ok() => {}
            _ => running.signal(signal),
        }
    }

    fn end(&mut self, running: &Running, heard: Signal, signal: rustix::process::Signal) {
        running.signal(signal);
        self.ended_by.get_or_insert(heard);
        self.deadline.get_or_insert_with(|| Instant::now() + GRACE);
    }
}
