//! Staying with a view until it is unmounted, by whomever.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use aegisfs::fuse::Unmounter;
use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags};

use super::place::is_mounted;
use crate::cli::talk;
use crate::session::home::shown;
use crate::session::serve::{ServeError, Serving};

/// How long those who use the view may take to end after it was to be unmounted, in all.
const LAST_REQUESTS: Duration = Duration::from_secs(5);

/// How a view ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By a signal to this process.
    Asked,
    /// By somebody who unmounted it.
    Outside,
    /// By a signal to this process, while others use the view; their requests fail from now on.
    Torn,
}

/// What the wait is woken by.
enum Event {
    /// Somebody asks for the end.
    Asked,
    /// Nobody can reach the view any more.
    Unreachable,
    /// And everything is on the disk.
    Ended(Result<(), ServeError>),
    /// It is not mounted any more, and may still be used.
    Gone,
}

/// A view that is waited for.
pub(super) struct Attendance {
    events: Receiver<Event>,
    unmounter: Option<Unmounter>,
    mountpoint: PathBuf,
    asked: Option<Instant>,
    is_reachable: bool,
}

impl Attendance {
    /// Starts to wait: for `signals`, for the end of `serving`, and for the mount `id` to be gone.
    pub(super) fn begin(signals: SigSet, serving: Serving, mountpoint: &Path, id: u64) -> Self {
        let (sender, events) = mpsc::channel();
        let unmounter = serving.unmounter();
        hear(signals, sender.clone());
        look(id, sender.clone());
        thread::spawn(move || {
            // Nobody waits any more where these fail.
            let unreachable = || drop(sender.send(Event::Unreachable));
            let ended = serving.wait(unreachable);
            sender.send(Event::Ended(ended))
        });
        Self {
            events,
            unmounter,
            mountpoint: mountpoint.to_owned(),
            asked: None,
            is_reachable: true,
        }
    }

    /// Waits until the view has ended.
    pub(super) fn wait(mut self) -> Result<End, ServeError> {
        loop {
            match self.next() {
                Ok(Event::Unreachable) => self.is_reachable = false,
                Ok(Event::Ended(ended)) => return ended.map(|()| self.end()),
                Ok(Event::Asked) if self.asked.is_some() => return Ok(End::Torn),
                Ok(Event::Asked) => self.unmount(),
                Ok(Event::Gone) if self.asked.is_none() => talk::say(&format!(
                    "aegis-os: something else has taken the view from `{}`; it goes on for the \
                     programs that still use it",
                    shown(&self.mountpoint)
                )),
                Ok(Event::Gone) => {}
                Err(_late) => return Ok(End::Torn),
            }
        }
    }

    fn next(&self) -> Result<Event, RecvTimeoutError> {
        // The disk takes the time that it takes.
        let Some(asked) = self.asked.filter(|_| self.is_reachable) else {
            return Ok(self.events.recv()?);
        };
        let left = LAST_REQUESTS.saturating_sub(asked.elapsed());
        self.events.recv_timeout(left)
    }

    fn end(&self) -> End {
        if self.asked.is_some() {
            End::Asked
        } else {
            End::Outside
        }
    }

    /// Unmounts from a thread of its own: nothing that is in the way holds this one up.
    fn unmount(&mut self) {
        self.asked = Some(Instant::now());
        if let Some(unmounter) = self.unmounter.take() {
            // What does not work shows as a view that does not end.
            thread::spawn(move || unmounter.unmount());
        }
    }
}

/// Hears the signals that end a view; they are blocked in every thread.
fn hear(signals: SigSet, events: Sender<Event>) {
    thread::spawn(
        move || {
            while signals.wait().is_ok() && events.send(Event::Asked).is_ok() {}
        },
    );
}

/// Looks whether the mount `id` is still there whenever the table of mounts changes (proc(5):
/// mountinfo polls as exceptional then).
fn look(id: u64, events: Sender<Event>) {
    thread::spawn(move || {
        let Ok(table) = File::open("/proc/self/mountinfo") else {
            return;
        };
        while is_mounted(id) {
            let mut polled = [PollFd::new(&table, PollFlags::PRI)];
            if rustix::event::poll(&mut polled, None).is_err() {
                thread::sleep(Duration::from_secs(1));
            }
        }
        // Nobody waits any more where this fails.
        let _over = events.send(Event::Gone);
    });
}
