//! A word to a person who waits.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// What is over sooner needs no word.
const PATIENCE: Duration = Duration::from_secs(1);

/// Says what is being waited for, once it has taken a while; nothing after it is dropped.
#[derive(Debug)]
pub struct Patience(#[expect(dead_code, reason = "its end is the message")] Sender<()>);

impl Patience {
    /// Starts to wait. The process has a second thread from here on.
    #[must_use]
    pub fn with(doing: &'static str, tell: fn(&str)) -> Self {
        let (waiting, over) = mpsc::channel::<()>();
        thread::spawn(move || {
            if over.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                tell(&format!("aegis-os: {doing} ..."));
            }
        });
        Self(waiting)
    }
}
