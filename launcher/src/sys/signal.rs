//! Signals: seen as bytes on a pipe by the relay, and set back to default for the command.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction, sigprocmask};
use rustix::pipe::PipeFlags;

/// The write end of the pipe that the handler writes to; -1 while nobody listens.
static LISTENER: AtomicI32 = AtomicI32::new(-1);

/// Signals of the launcher as bytes on a descriptor that can be polled.
///
/// Dropping it puts the former dispositions back. There is one at a time.
#[derive(Debug)]
pub(crate) struct SignalPipe {
    reader: OwnedFd,
    _writer: OwnedFd,
    former: Vec<(Signal, SigAction)>,
}

impl SignalPipe {
    /// Routes `signals` to a new pipe, and unblocks them for the calling thread: those that were
    /// held back arrive now.
    ///
    /// # Errors
    /// When a pipe or a handler is refused.
    pub(crate) fn listen(signals: &[Signal]) -> io::Result<Self> {
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        LISTENER.store(writer.as_raw_fd(), Ordering::SeqCst);
        let mut pipe = Self {
            reader,
            _writer: writer,
            former: Vec::new(),
        };
        let action = SigAction::new(
            SigHandler::Handler(forward),
            SaFlags::SA_RESTART,
            SigSet::empty(),
        );
        for signal in signals {
            // SAFETY: the handler calls write(2) and touches one atomic, both safe in a handler.
            let former = unsafe { sigaction(*signal, &action) }?;
            pipe.former.push((*signal, former));
        }
        signals
            .iter()
            .copied()
            .collect::<SigSet>()
            .thread_unblock()?;
        Ok(pipe)
    }

    /// The descriptor to poll.
    pub(crate) fn reader(&self) -> &OwnedFd {
        &self.reader
    }

    /// The signals that have arrived since the last call.
    pub(crate) fn arrived(&self) -> Vec<Signal> {
        let mut numbers = [0_u8; 64];
        let count = rustix::io::read(&self.reader, &mut numbers).unwrap_or(0);
        numbers
            .iter()
            .take(count)
            .filter_map(|number| Signal::try_from(i32::from(*number)).ok())
            .collect()
    }
}

impl Drop for SignalPipe {
    fn drop(&mut self) {
        for (signal, former) in &self.former {
            // SAFETY: puts back a disposition that was in force before `listen`.
            // A refusal leaves our handler, which does nothing once LISTENER is -1.
            let _refused = unsafe { sigaction(*signal, former) };
        }
        LISTENER.store(-1, Ordering::SeqCst);
    }
}

/// Gives every signal its default disposition and unblocks all, as a new program expects.
///
/// # Errors
/// When the signal mask cannot be changed.
pub(crate) fn restore_defaults() -> io::Result<()> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    for signal in Signal::iterator().filter(|signal| !is_fixed(*signal)) {
        // SAFETY: the default disposition runs no code of ours.
        unsafe { sigaction(signal, &default) }?;
    }
    sigprocmask(
        nix::sys::signal::SigmaskHow::SIG_SETMASK,
        Some(&SigSet::empty()),
        None,
    )?;
    Ok(())
}

fn is_fixed(signal: Signal) -> bool {
    matches!(signal, Signal::SIGKILL | Signal::SIGSTOP)
}

extern "C" fn forward(number: libc::c_int) {
    let listener = LISTENER.load(Ordering::SeqCst);
    let byte = [u8::try_from(number).unwrap_or(0)];
    if listener >= 0 {
        // SAFETY: the buffer is valid for one byte; a closed descriptor is answered with EBADF.
        // A full pipe loses a repeat of a signal that is waiting to be read anyway.
        let _written = unsafe { libc::write(listener, byte.as_ptr().cast(), 1) };
    }
}
