//! The question whether a tree is answered for, asked again and again, by a process of its own.
//!
//! The keeper can not ask: the kernel lets nobody from outside the mount's user namespace through to
//! the server. Nor can the server: a process that is killed while it waits for an answer of its own
//! would never end, since what it waits for keeps its connection open.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{StatFs, fstatfs, statfs};
use rustix::io::Errno;
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::background::leave_streams;
use crate::sandbox::Channel;
use crate::session::Bytes;

/// What the server asks of the process, in this order.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Wish {
    /// To begin. The root of the tree comes beside it where there is no place.
    Begin {
        /// Where the tree is mounted.
        place: Option<Bytes>,
        /// How often to ask, in milliseconds.
        interval: u64,
    },
    /// To end.
    End,
}

/// What it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The tree's connection to the kernel is cut.
    Cut,
    /// The root of the tree is closed.
    Released,
}

/// Where the tree is asked.
#[derive(Debug)]
enum Target {
    /// At its root, which can not be unmounted in order meanwhile.
    Root(OwnedFd),
    /// At its mount point, or what is there by then.
    Place(PathBuf),
}

/// The whole life of the process: a byte goes to `alive` for every answer of the tree.
pub(super) fn live(server: &Channel, alive: OwnedFd) {
    // Whatever is sent to the group of processes is meant for others. This one dies with the server.
    let _held = SigSet::all().thread_block();
    // It says nothing to anybody, and must not keep open what others wait for.
    let _kept = leave_streams();
    if set_parent_process_death_signal(Some(Signal::KILL)).is_ok() {
        // The server is gone where this fails.
        let _gone = ask(server, &mut File::from(alive));
    }
}

fn ask(server: &Channel, alive: &mut File) -> io::Result<()> {
    let (Wish::Begin { place, interval }, mut beside) = server.receive()? else {
        return Ok(());
    };
    let target = match (place, beside.pop()) {
        (Some(place), _) => Target::Place(Path::new(place.as_os_str()).to_owned()),
        (None, Some(root)) => Target::Root(root),
        (None, None) => return Ok(()),
    };
    let interval = Duration::from_millis(interval);
    // Who asks at a mount point is in the way of who unmounts it, which scripts do early.
    if matches!(target, Target::Place(_)) && is_asked(server, interval)? {
        return release(server, target);
    }
    while !target.is_cut() {
        // A keeper that is stopped leaves the pipe full, and one that is gone leaves it broken.
        let _unheard = alive.write(b".");
        if is_asked(server, interval)? {
            return release(server, target);
        }
    }
    server.send(&Answer::Cut, &[])?;
    let _end: (Wish, _) = server.receive()?;
    release(server, target)
}

fn release(server: &Channel, target: Target) -> io::Result<()> {
    drop(target);
    server.send(&Answer::Released, &[])
}

/// Waits for `interval`; true when the server says something meanwhile, which can only be the end.
fn is_asked(server: &Channel, interval: Duration) -> io::Result<bool> {
    let mut polled = [PollFd::from_borrowed_fd(server.as_fd(), PollFlags::IN)];
    let interval = Timespec::try_from(interval).map_err(io::Error::other)?;
    Ok(rustix::event::poll(&mut polled, Some(&interval))? > 0)
}

impl Target {
    /// The question is statfs(2): every FUSE file system is asked for it each time, nothing is judged
    /// or recorded for it, and a thread of the server has to be free to answer.
    fn is_cut(&self) -> bool {
        let answer: Result<StatFs, Errno> = match self {
            Self::Root(root) => fstatfs(root),
            Self::Place(place) => statfs(place),
        };
        // After an abort; and for a question that was under way.
        matches!(answer, Err(Errno::NOTCONN | Errno::CONNABORTED))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::thread;

    use rustix::fs::{Mode, OFlags, open};

    use super::*;

    #[test]
    fn a_tree_is_asked_until_the_end() {
        let (ours, theirs) = Channel::pair().unwrap();
        let (heard, alive) = rustix::pipe::pipe().unwrap();
        let process = thread::spawn(move || ask(&theirs, &mut File::from(alive)));
        let root = open("/", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let begin = Wish::Begin {
            place: None,
            interval: 1,
        };
        ours.send(&begin, &[root.as_fd()]).unwrap();
        let mut three = [0; 3];
        File::from(heard).read_exact(&mut three).unwrap();
        ours.send(&Wish::End, &[]).unwrap();
        assert_eq!(ours.receive::<Answer>().unwrap().0, Answer::Released);
        process.join().unwrap().unwrap();
    }
}
