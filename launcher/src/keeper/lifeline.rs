//! The serving process's side: what it says, and what it hears.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::process::{Pid, Signal};

use super::background::leave_streams;
use super::probe::{self, Answer, Wish};
use super::word::Word;
use crate::error::CommandError;
use crate::sandbox::Channel;
use crate::session::{Bytes, Session};
use crate::sys::child::spawn_copy;

/// So many answers may be missed before patience is at its end.
const CHANCES: u32 = 6;
/// How long the asking process may take to let go of the tree.
const RELEASE: Duration = Duration::from_secs(1);

/// Tells the keeper how the session is doing; says nothing where there is no keeper.
#[derive(Clone, Debug, Default)]
pub struct Lifeline(Option<Arc<Ends>>);

#[derive(Debug)]
struct Ends {
    keeper: Pid,
    channel: Channel,
    /// What the asking process tells the keeper with, until there is one.
    alive: Mutex<Option<OwnedFd>>,
    asking: OnceLock<Channel>,
    is_heralded: bool,
}

/// Where the tree can be asked whether it is alive.
#[derive(Debug)]
pub enum At<'a> {
    /// At its root, by a handle: it can not be unmounted in order before the vigil is over.
    Root(OwnedFd),
    /// At its mount point.
    Place(&'a Path),
}

/// The time in which the tree is served and watched. When this is dropped the tree may be unmounted.
#[derive(Debug)]
pub struct Vigil {
    lifeline: Lifeline,
    is_cut: Arc<AtomicBool>,
    released: Receiver<()>,
}

impl Lifeline {
    pub(super) fn to(keeper: Pid, channel: Channel, alive: OwnedFd, is_heralded: bool) -> Self {
        Self(Some(Arc::new(Ends {
            keeper,
            channel,
            alive: Mutex::new(Some(alive)),
            asking: OnceLock::new(),
            is_heralded,
        })))
    }

    /// Ends this process in order when the keeper dies, and starts the process that asks the tree.
    ///
    /// To be called after the last change of namespaces or users, which takes the first back (prctl(2),
    /// `PR_SET_PDEATHSIG`), and while there is one thread.
    ///
    /// # Errors
    /// When the keeper is dead already, or no process can be made.
    pub fn hold(&self) -> io::Result<()> {
        let Some(ends) = &self.0 else { return Ok(()) };
        let (ours, theirs) = Channel::pair()?;
        let alive = ends.alive.lock().ok().and_then(|mut alive| alive.take());
        let alive = alive.ok_or(io::ErrorKind::AlreadyExists)?;
        spawn_copy(|| probe::live(&theirs, alive))?;
        // There is no other, and nobody else sets it.
        let _set = ends.asking.set(ours);
        rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
        if rustix::process::getppid() == Some(ends.keeper) {
            Ok(())
        } else {
            Err(io::ErrorKind::NotConnected.into())
        }
    }

    /// Whether the process that the person started returns once this one is ready.
    #[must_use]
    pub fn is_heralded(&self) -> bool {
        self.0.as_ref().is_some_and(|ends| ends.is_heralded)
    }

    /// What the person waits for is there: a process in the background lets go of what it was started
    /// from.
    ///
    /// # Errors
    /// When it can not.
    pub fn ready(&self) -> Result<(), CommandError> {
        if self.is_heralded() {
            let left = leave_streams().and_then(|()| Ok(rustix::process::chdir("/")?));
            left.map_err(|source| CommandError::io("going to the background", source))?;
            self.say(&Word::Ready);
        }
        Ok(())
    }

    /// There is a session.
    pub fn session(&self, session: &Session) {
        self.say(&Word::Session {
            id: session.id().to_string(),
            mountpoint: session.record().mountpoint.clone(),
        });
    }

    /// The tree is served: from now on silence for longer than `patience` is the end of
    /// this process. Where the connection of the tree turns out to be cut, `on_cut` is called.
    ///
    /// # Errors
    /// When the tree does not answer now.
    pub fn serving(
        &self,
        at: At<'_>,
        patience: Duration,
        on_cut: impl FnOnce() + Send + 'static,
    ) -> io::Result<Vigil> {
        let device = at.device()?;
        let is_cut = Arc::new(AtomicBool::new(false));
        let (done, released) = mpsc::channel();
        if self.ask(&at, patience / CHANCES).is_some() {
            self.say(&Word::Serving {
                patience: milliseconds(patience),
                device,
            });
            let (lifeline, flag) = (self.clone(), Arc::clone(&is_cut));
            thread::spawn(move || {
                lifeline.hear(&flag, on_cut);
                drop(done);
            });
        }
        Ok(Vigil {
            lifeline: self.clone(),
            is_cut,
            released,
        })
    }

    /// Has the tree asked from now on; `None` when there is nobody to do it.
    fn ask(&self, at: &At<'_>, interval: Duration) -> Option<()> {
        let interval = milliseconds(interval);
        let (place, beside) = match at {
            At::Root(root) => (None, vec![root.as_fd()]),
            At::Place(place) => (Some(Bytes::from(*place)), Vec::new()),
        };
        let begin = Wish::Begin { place, interval };
        self.asking()?.send(&begin, &beside).ok()
    }

    /// Listens until the asking process has let go of the tree, or is gone.
    fn hear(&self, is_cut: &AtomicBool, on_cut: impl FnOnce()) {
        let Some(asking) = self.asking() else { return };
        let mut on_cut = Some(on_cut);
        while let Ok((Answer::Cut, _)) = asking.receive::<Answer>() {
            is_cut.store(true, Ordering::SeqCst);
            if let Some(act) = on_cut.take() {
                act();
            }
        }
    }

    fn asking(&self) -> Option<&Channel> {
        self.0.as_ref()?.asking.get()
    }

    /// A keeper that is gone hears nothing, and the work goes on.
    fn say(&self, word: &Word) {
        if let Some(ends) = &self.0 {
            let _unheard = ends.channel.send(word, &[]);
        }
    }
}

impl At<'_> {
    /// The minor number of the tree's device, without asking the tree: this process would never end if
    /// it were killed while it waits for itself.
    fn device(&self) -> io::Result<u32> {
        let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
        let seen = match self {
            Self::Root(root) => statx(root, "", flags | AtFlags::EMPTY_PATH, StatxFlags::TYPE),
            Self::Place(place) => statx(CWD, *place, flags, StatxFlags::TYPE),
        };
        Ok(seen?.stx_dev_minor)
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Vigil {
    /// Whether the tree's connection was found to be cut.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::SeqCst)
    }

    /// Ends the vigil: the tree may be unmounted. Tells whether its connection was cut before.
    #[must_use]
    pub fn end(self) -> bool {
        self.is_cut()
    }
}

impl Drop for Vigil {
    fn drop(&mut self) {
        self.lifeline.say(&Word::Closing);
        let asking = self.lifeline.asking();
        if asking.is_some_and(|asking| asking.send(&Wish::End, &[]).is_ok()) {
            // It may wait for an answer that does not come; the tree is unmounted all the same.
            let _late = self.released.recv_timeout(RELEASE);
        }
    }
}
