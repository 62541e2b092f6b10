//! Hearing a peer out, but not for ever.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What a peer says until a moment, however slowly; the end of the session waits for none of it.
pub(super) struct Patient<'a> {
    stream: &'a UnixStream,
    stop: &'a OwnedFd,
    until: Instant,
}

impl<'a> Patient<'a> {
    /// Hears a peer until `until` or until `stop` can be read. Its stream must not block.
    pub(super) const fn new(stream: &'a UnixStream, stop: &'a OwnedFd, until: Instant) -> Self {
        Self {
            stream,
            stop,
            until,
        }
    }

    /// Waits for more; an error when there is no more to wait for.
    fn wait(&self) -> io::Result<()> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left == Duration::ZERO {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut waited = [
            PollFd::new(self.stop, PollFlags::IN),
            PollFd::new(self.stream, PollFlags::IN),
        ];
        poll(&mut waited, Timespec::try_from(left).ok().as_ref())?;
        let [stopped, _said] = waited.map(|one| !one.revents().is_empty());
        if stopped {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }
}

impl Read for Patient<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            self.wait()?;
            match self.stream.read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::thread;

    use rustix::event::{EventfdFlags, eventfd};

    use super::super::message;
    use super::*;

    fn heard(patience: Duration, is_over: bool) -> io::Result<Vec<u8>> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let stop = eventfd(u32::from(is_over), EventfdFlags::CLOEXEC).unwrap();
        let dripping = thread::spawn(move || {
            while theirs.write_all(b" ").is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
        });
        let until = Instant::now() + patience;
        let heard = message::read(&mut Patient::new(&ours, &stop, until));
        drop(ours);
        dripping.join().unwrap();
        heard
    }

    #[test]
    fn whoever_never_ends_is_not_heard_for_ever() {
        let error = heard(Duration::from_millis(100), false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn the_end_of_the_session_waits_for_no_peer() {
        let error = heard(Duration::from_secs(3600), true).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
    }

    #[test]
    fn whoever_is_slow_is_heard() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let stop = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let slow = thread::spawn(move || {
            for byte in b"word\n" {
                thread::sleep(Duration::from_millis(5));
                theirs.write_all(&[*byte]).unwrap();
            }
        });
        let until = Instant::now() + Duration::from_secs(3600);
        let heard = message::read(&mut Patient::new(&ours, &stop, until)).unwrap();
        assert_eq!(heard, b"word\n");
        slow.join().unwrap();
    }
}
