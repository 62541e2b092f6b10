//! One direction of the relay: bytes from one descriptor to another.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::event::PollFlags;
use rustix::io::Errno;

/// At most this much is written at once: a pipe that polls as writable takes PIPE_BUF bytes without
/// blocking (pipe(7)), and the host's descriptors must stay in blocking mode, because others share
/// them.
const CHUNK: usize = 4096;

/// A descriptor at the end of a lane.
#[derive(Clone, Debug)]
pub(super) enum End {
    /// The launcher's standard input.
    Input,
    /// The launcher's standard output.
    Output,
    /// The launcher's standard error.
    Error,
    /// A descriptor of our own.
    Own(Rc<OwnedFd>),
}

impl End {
    pub(super) fn borrow(&self) -> BorrowedFd<'_> {
        match self {
            Self::Input => rustix::stdio::stdin(),
            Self::Output => rustix::stdio::stdout(),
            Self::Error => rustix::stdio::stderr(),
            Self::Own(descriptor) => descriptor.as_fd(),
        }
    }
}

/// Bytes on their way. When it ends it lets go of its descriptors, so that the other side sees the
/// end of the file, or a broken pipe.
#[derive(Debug)]
pub(super) struct Lane {
    ends: Option<(End, End)>,
    pending: Vec<u8>,
}

impl Lane {
    pub(super) fn new(from: End, to: End) -> Self {
        Self {
            ends: Some((from, to)),
            pending: Vec::new(),
        }
    }

    /// A lane on which nothing comes.
    pub(super) fn closed() -> Self {
        Self {
            ends: None,
            pending: Vec::new(),
        }
    }

    /// Whether nothing more will come.
    pub(super) fn is_done(&self) -> bool {
        self.ends.is_none()
    }

    /// What to wait for; `None` when the lane is done.
    pub(super) fn wants(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let (from, to) = self.ends.as_ref()?;
        Some(if self.pending.is_empty() {
            (from.borrow(), PollFlags::IN)
        } else {
            (to.borrow(), PollFlags::OUT)
        })
    }

    /// Moves some bytes, after `wants` has been met.
    pub(super) fn advance(&mut self) {
        let step = if self.pending.is_empty() {
            self.read()
        } else {
            self.write()
        };
        match step {
            Ok(0) => self.ends = None,
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
            // EIO: the terminal's other side is closed. EPIPE: nobody reads any more.
            Err(_) => self.ends = None,
        }
    }

    fn read(&mut self) -> Result<usize, Errno> {
        let Some((from, _)) = &self.ends else {
            return Ok(0);
        };
        let mut buffer = [0_u8; CHUNK];
        let count = rustix::io::read(from.borrow(), &mut buffer)?;
        self.pending.extend(buffer.iter().take(count));
        Ok(count)
    }

    fn write(&mut self) -> Result<usize, Errno> {
        let Some((_, to)) = &self.ends else {
            return Ok(0);
        };
        let chunk = self.pending.get(..CHUNK).unwrap_or(&self.pending);
        let count = rustix::io::write(to.borrow(), chunk)?;
        self.pending.drain(..count);
        Ok(count)
    }
}
