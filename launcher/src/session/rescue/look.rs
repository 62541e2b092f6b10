//! Looking at what is left of a session, through a mount that nothing can be changed in.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use aegis_policies::journal::Journal;
use aegisfs::fuse::{self, Options, Served};
use aegisfs::guard::Guard;
use aegisfs::overlay::Overlay;
use nix::sys::signal::{SigSet, Signal};
use rustix::fs::{CWD, Mode, mkdirat};

use super::Rescue;
use crate::error::CommandError;
use crate::session::config::Config;
use crate::session::repository::Whereabouts;
use crate::session::serve::ServeError;
use crate::session::{AegisHome, Lock, gate, remove_folder, view};

/// A mounted view of what is left.
#[derive(Debug)]
pub struct Looking {
    served: Served,
    mountpoint: PathBuf,
    _scratch: Scratch,
    _held: Lock,
}

/// A folder for the record of what is read here: the session's own is not written to.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Rescue {
    /// Mounts the tree as it was at the last saved entry, to be looked at.
    ///
    /// # Errors
    /// When the folder is not empty, or nothing can be mounted on it.
    pub fn look(self, mountpoint: &Path) -> Result<Looking, CommandError> {
        let Self {
            session,
            project,
            salvage,
            held,
            ..
        } = self;
        let home = AegisHome::create()?;
        let mountpoint = view::check_place(mountpoint, &home, &project)?;
        let blocked = ending().thread_block();
        blocked.map_err(|errno| CommandError::io("holding signals back", errno.into()))?;
        let scratch = Scratch::make(&home)?;
        let journal = Journal::create(&scratch.0)?;
        let repository = Whereabouts::of(&project).map_err(ServeError::Repository)?;
        let own = Config::load(&home)?.policy;
        let gate = gate::open(own.as_deref(), &repository, Arc::new(journal));
        let gate = gate.map_err(ServeError::from)?;
        let refused = |source| ServeError::Mount {
            mountpoint: mountpoint.clone(),
            source,
        };
        let project = project.directory().try_clone_to_owned().map_err(refused)?;
        let overlay = Overlay::open_salvaged(project, session.dir(), salvage, Arc::clone(&gate));
        let overlay = overlay.map_err(ServeError::from)?;
        let guard = Guard::new(overlay, gate, "recover".into()).read_only();
        let options = Options {
            read_only: true,
            ..Options::default()
        };
        let served = fuse::mount(&mountpoint, Arc::new(guard), options).map_err(refused)?;
        Ok(Looking {
            served,
            mountpoint,
            _scratch: scratch,
            _held: held,
        })
    }
}

impl Looking {
    /// Where it is mounted, free of links.
    #[must_use]
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// Serves until it is unmounted, by a signal to this process or by anything else.
    ///
    /// # Errors
    /// When the connection to the kernel broke.
    pub fn attend(self) -> Result<(), CommandError> {
        let unmounter = self.served.unmounter();
        thread::spawn(move || {
            while ending().wait().is_ok() {
                // What is still used is tried again at the next signal.
                let _tried = unmounter.as_ref().map(fuse::Unmounter::unmount);
            }
        });
        let mountpoint = self.mountpoint.clone();
        let served = self.served.wait();
        served.map_err(|source| ServeError::Mount { mountpoint, source }.into())
    }
}

impl Scratch {
    fn make(home: &AegisHome) -> Result<Self, CommandError> {
        let path = home.path().join(format!("recover-{}", std::process::id()));
        let made = mkdirat(CWD, &path, Mode::RWXU);
        made.map_err(|errno| CommandError::io("making a folder for the record", errno.into()))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays behind is small, and in nobody's way.
        let _removed = remove_folder(&self.0);
    }
}

/// The signals that unmount.
fn ending() -> SigSet {
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]
        .into_iter()
        .collect()
}
