//! How commands reach a session that is live: a socket in its directory, where no sandbox has a name
//! for it, and the thread that answers there. It never answers the kernel, so it may wait for it.

mod client;
mod message;
mod patient;
mod peer;
mod quiet;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use aegis_policies::journal::SnapshotCause;
use aegisfs::commit;
use aegisfs::guard::Guard;
use aegisfs::layout::SessionDir;
use aegisfs::overlay::{OverlayError, Rewind, SnapshotName};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{AtFlags, Mode, chmodat, unlinkat};

use super::serve::ServeError;
use crate::error::CommandError;
pub use client::ask;
pub use message::{Answer, Ask};
use patient::Patient;
use quiet::Quiet;

/// The socket's name in the session's directory.
const NAME: &str = "control";
/// How long a peer may take in all to say what it wants.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the tree is looked at.
const LOOK: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// The thread that answers commands; it ends with this.
#[derive(Debug)]
pub struct Control {
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
    directory: OwnedFd,
}

struct Server {
    listener: UnixListener,
    guard: Arc<Guard>,
    session: SessionDir,
    quiet: Quiet,
}

impl Control {
    /// Answers for the tree behind `guard`, of the session in `directory`, which the caller has the
    /// lock of.
    ///
    /// # Errors
    /// When the socket can not be made.
    pub fn start(
        directory: BorrowedFd<'_>,
        session: SessionDir,
        guard: Arc<Guard>,
    ) -> io::Result<Self> {
        let directory = directory.try_clone_to_owned()?;
        // Left by a server that was killed.
        let _gone = unlinkat(&directory, NAME, AtFlags::empty());
        let listener = UnixListener::bind(client::path(directory.as_fd()))?;
        chmodat(&directory, NAME, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
        listener.set_nonblocking(true)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        let stopped = stop.try_clone()?;
        let quiet = Quiet::new(guard.overlay().pulse());
        let server = Server {
            listener,
            guard,
            session,
            quiet,
        };
        let thread = thread::Builder::new().name("control".to_owned());
        Ok(Self {
            stop,
            thread: Some(thread.spawn(move || server.run(&stopped))?),
            directory,
        })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // A descriptor of our own takes the one number that is ever written to it.
        let _written = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // It has no answer to give any more, however it ended.
            let _ended = thread.join();
        }
        let _gone = unlinkat(&self.directory, NAME, AtFlags::empty());
    }
}

impl Server {
    fn run(mut self, stop: &OwnedFd) {
        let mut turned_away = None;
        loop {
            let mut waited = [
                PollFd::new(stop, PollFlags::IN),
                PollFd::new(&self.listener, PollFlags::IN),
            ];
            // What went wrong comes again, or is over.
            let _woken = poll(&mut waited, Some(&LOOK));
            let [stopped, asked] = waited.map(|one| !one.revents().is_empty());
            drop(turned_away.take());
            if stopped {
                return;
            }
            if asked && let Ok((stream, _)) = self.listener.accept() {
                // An error: the peer has gone or took too long, and there is nobody to tell.
                turned_away = self.answer(stream, stop).unwrap_or_default();
            }
            self.look();
        }
    }

    /// Answers a peer. One that is not listened to is returned: closed at once, it might fail to say
    /// what it wants before it hears the answer.
    fn answer(&self, mut stream: UnixStream, stop: &OwnedFd) -> io::Result<Option<UnixStream>> {
        let until = Instant::now() + PATIENCE;
        // Nor does the answer wait: it is the only one, and there is room for it.
        stream.set_nonblocking(true)?;
        if let Some(why) = peer::objection(&stream)? {
            let next = "ask as the user whose session it is, outside of every sandbox";
            message::write(&mut stream, &refused(why, Some(next)))?;
            return Ok(Some(stream));
        }
        let asked = message::read(&mut Patient::new(&stream, stop, until))?;
        let answer = self.carry_out(message::parse(&asked)?);
        message::write(&mut stream, &answer)?;
        Ok(None)
    }

    fn carry_out(&self, ask: Ask) -> Answer {
        let done = match ask {
            Ask::Snapshot { name } => self.snapshot(name),
            Ask::Rewind { to, approximate } => self.rewind(to, approximate),
        };
        done.map_or_else(|refused| refused, |snapshot| Answer::Done { snapshot })
    }

    fn snapshot(&self, name: Option<String>) -> Result<u64, Answer> {
        let name = name.map(|name| SnapshotName::parse(&name)).transpose();
        let name = name.map_err(|error| refused(error, Some("choose another name")))?;
        let overlay = self.guard.overlay();
        overlay.fetch_dirty();
        let taken = overlay.snapshot(name, SnapshotCause::Requested);
        taken.map(|taken| taken.seq).map_err(failed)
    }

    fn rewind(&self, to: u64, approximate: bool) -> Result<u64, Answer> {
        let relocations =
            commit::relocations(&self.session).map_err(|error| refused(error, None))?;
        let rewind = Rewind::plan(&self.session, &relocations, to).map_err(failed)?;
        if !approximate && !rewind.losses().is_empty() {
            let next = "add `--yes` to agree to that, or choose another snapshot";
            return Err(refused(
                "some files would not be what they were",
                Some(next),
            ));
        }
        let before = self.guard.rewind(rewind).map_err(failed)?;
        Ok(before.seq)
    }

    fn look(&mut self) {
        let overlay = self.guard.overlay();
        if let Some(cause) = self.quiet.look(overlay.pulse(), Instant::now()) {
            // On a full disk there is none; what is changed later brings the next.
            let _taken = overlay.snapshot_changes(cause);
        }
    }
}

fn failed(error: OverlayError) -> Answer {
    let why = error.to_string();
    let next = CommandError::from(ServeError::from(error)).next();
    Answer::Refused { why, next }
}

fn refused(why: impl ToString, next: Option<&str>) -> Answer {
    Answer::Refused {
        why: why.to_string(),
        next: next.map(str::to_owned),
    }
}
