//! The thread that looks after partial files: when somebody on the host wants to write to a file
//! that is below one, the rest is copied while the host's writer waits; and what has become whole
//! loses its map.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use super::below::HostFile;
use super::partial::Partial;
use super::shelf::Shelf;
use crate::sys::lease::{self, Listener};

/// How often leases are looked at when no signal comes; signals come, so this is for those that a
/// debugger or a suspended machine swallowed.
const PATIENCE: Duration = Duration::from_secs(5);

/// The thread; it ends with this value.
#[derive(Debug)]
pub(super) struct Keeper {
    listener: Listener,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts the thread.
    ///
    /// # Errors
    /// When there can not be another thread.
    pub(super) fn start(shelf: Arc<Shelf>) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (told, listeners) = mpsc::channel();
        let stopped = Arc::clone(&stop);
        let keep = move || {
            let Ok(listener) = Listener::here() else {
                return;
            };
            if told.send(listener).is_ok() {
                keep(&shelf, listener, &stopped);
            }
        };
        let thread = std::thread::Builder::new()
            .name("leases".into())
            .spawn(keep)?;
        let listener = listeners.recv().map_err(io::Error::other)?;
        Ok(Self {
            listener,
            stop,
            thread: Some(thread),
        })
    }

    /// Who is to hear of a lease.
    pub(super) const fn listener(&self) -> Listener {
        self.listener
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.listener.wake();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing to tell.
            let _ = thread.join();
        }
    }
}

fn keep(shelf: &Shelf, listener: Listener, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        for (name, partial) in shelf.all() {
            if let Some(host) = partial.host().filter(|host| !host.is_safe()) {
                come_up(&partial, host);
            }
            partial.keep_up();
            if partial.is_whole() {
                shelf.settle(&name, &partial);
            }
        }
        listener.wait(PATIENCE);
    }
    for (_, partial) in shelf.all() {
        partial.keep_up();
    }
}

/// Takes all that is below while it is still the version that it should be, and lets the host go on.
fn come_up(partial: &Partial, host: &HostFile) {
    if !partial.is_whole() && !partial.is_torn() && partial.fill().is_err() && host.is_awaited() {
        partial.tear();
    }
    if partial.is_whole() || partial.is_torn() {
        lease::release(host.file());
    }
}
