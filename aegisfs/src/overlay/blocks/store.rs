//! The partial files of a session, by the names of their content files.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use aegis_policies::RelPath;
use rustix::fs::{AtFlags, linkat, renameat, unlinkat};
use rustix::io::Errno;

use super::below::{Below, HostFile};
use super::keeper::Keeper;
use super::load::{Loader, Purpose, boot};
use super::map::{Header, Map, Origin};
use super::shelf::{Shelf, locked, map_name, names_of_maps};
use super::{Body, Partial};
use crate::overlay::attr::Version;
use crate::sys::lease::{self, Listener};

/// The most partial files at once: each holds three descriptors, and a lease. The next large file
/// is copied as a whole.
const MOST: usize = 512;
/// The most files that one byte may have to be looked for in.
const DEEPEST: usize = 16;

/// Opens a file of the host's by its path in the project.
pub(crate) type OpenHost<'a> = &'a dyn Fn(&RelPath) -> Result<File, Errno>;

/// The content files of a session that is served, of which some are partial.
#[derive(Debug)]
pub(crate) struct Blocks {
    // Ends before the shelf does: it looks after what is on it.
    keeper: Mutex<Option<Keeper>>,
    shelf: Arc<Shelf>,
}

impl Blocks {
    /// Those in the folder of contents.
    pub(crate) fn new(folder: OwnedFd) -> Self {
        Self {
            keeper: Mutex::default(),
            shelf: Arc::new(Shelf::new(folder)),
        }
    }

    /// Takes up what an earlier server left: under a lease again where the host's file is still
    /// what it was, else with what is missing given up.
    ///
    /// # Errors
    /// When the folder can not be read.
    pub(crate) fn resume(&self, host: OpenHost<'_>) -> Result<(), Errno> {
        let names = names_of_maps(&self.shelf.folder)?;
        if names.is_empty() {
            return Ok(());
        }
        let purpose = Purpose::Serve(self.listener());
        // A map without content is one of a copy-up that a kill cut short.
        self.load(names, host, purpose, |name| self.remove(name));
        self.wake();
        Ok(())
    }

    /// The same for a session that is only looked at: nothing is written.
    ///
    /// # Errors
    /// When the folder can not be read.
    pub(crate) fn look(&self, host: OpenHost<'_>) -> Result<(), Errno> {
        let names = names_of_maps(&self.shelf.folder)?;
        self.load(names, host, Purpose::Read, |_| ());
        Ok(())
    }

    fn load(
        &self,
        names: Vec<String>,
        host: OpenHost<'_>,
        purpose: Purpose,
        without_content: impl Fn(&str),
    ) {
        let loader = Loader {
            folder: &self.shelf.folder,
            host,
            purpose,
        };
        for name in names {
            match loader.load(&name, &self.shelf.live) {
                Ok(_) => {}
                Err(Errno::NOENT) => without_content(&name),
                Err(_) => {
                    locked(&self.shelf.unknown).insert(name);
                }
            }
        }
    }

    /// The bytes of a content file.
    ///
    /// # Errors
    /// EIO when it is not known which of them are there.
    pub(crate) fn body(&self, name: &str, file: File) -> Result<Body, Errno> {
        match self.find(name) {
            Some(partial) => Ok(Body::Partial(partial)),
            None if locked(&self.shelf.unknown).contains(name) => Err(Errno::IO),
            None => Ok(Body::Whole(Arc::new(file))),
        }
    }

    /// A content file that is partial.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Partial>> {
        self.shelf
            .live
            .get(name)
            .map(|partial| Arc::clone(&partial))
    }

    /// Takes a lease on a file of the host's that is to go below a content file. False where there
    /// is none to be had, or where there are enough partial files.
    pub(crate) fn lease(&self, lower: &File) -> bool {
        let room = self.shelf.live.len() < MOST;
        room && self
            .listener()
            .is_some_and(|listener| lease::take(lower, listener).is_ok())
    }

    /// Makes `file`, which is to be the content of this name, partial over a leased file of the
    /// host's, of which `limit` bytes show.
    ///
    /// # Errors
    /// ENOSPC, EIO.
    pub(crate) fn over_host(
        &self,
        name: &str,
        file: File,
        (lower, path): (Arc<File>, RelPath),
        version: Version,
        limit: u64,
    ) -> Result<Body, Errno> {
        let host = HostFile::new(lower, path, version, true);
        self.begin(name, file, host.origin(), Below::Host(host), limit)
    }

    /// Makes `file`, which is to be the content of this name, partial over older content, which
    /// nobody writes any more.
    ///
    /// # Errors
    /// ENOSPC, EIO.
    pub(crate) fn over_older(
        &self,
        name: &str,
        file: File,
        (older, body): (&str, Body),
        limit: u64,
    ) -> Result<Body, Errno> {
        let origin = Origin::Content(older.to_owned());
        self.begin(name, file, origin, Below::Older(body), limit)
    }

    /// Whether there may be another partial file, over this content.
    pub(crate) fn has_room_over(&self, older: &Body) -> bool {
        self.shelf.live.len() < MOST && older.depth() < DEEPEST
    }

    /// Gives the map of a content file another name, before the content gets it.
    ///
    /// # Errors
    /// What the file system said.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        let folder = &self.shelf.folder;
        let _ = unlinkat(folder, map_name(to), AtFlags::empty());
        if let Some(partial) = self.find(from) {
            self.shelf.live.insert(to.to_owned(), partial);
            let moved = renameat(folder, map_name(from), folder, map_name(to));
            self.shelf.live.remove(from);
            return unless_whole(moved);
        }
        Ok(())
    }

    /// Makes the map of a content file that of another name as well, before the content gets it.
    ///
    /// # Errors
    /// What the file system said.
    pub(crate) fn link(&self, from: &str, to: &str) -> Result<(), Errno> {
        let folder = &self.shelf.folder;
        let _ = unlinkat(folder, map_name(to), AtFlags::empty());
        if let Some(partial) = self.find(from) {
            self.shelf.live.insert(to.to_owned(), partial);
            let (from, to) = (map_name(from), map_name(to));
            return unless_whole(linkat(folder, from, folder, to, AtFlags::empty()));
        }
        Ok(())
    }

    /// Removes a content file; one that shows in newer content goes with that.
    pub(crate) fn remove(&self, name: &str) {
        if self.is_below(name) {
            locked(&self.shelf.doomed).insert(name.to_owned());
            return;
        }
        self.shelf.remove(name);
    }

    /// Whether content shows in newer content.
    pub(crate) fn is_below(&self, name: &str) -> bool {
        self.shelf.is_below(name)
    }

    /// Adds a content file to those that are needed, and what shows in it.
    pub(crate) fn add_needed(&self, name: &[u8], needed: &mut BTreeSet<Box<[u8]>>) {
        let mut next = Some(name.to_vec());
        while let Some(name) = next
            .take()
            .filter(|name| needed.insert(name.as_slice().into()))
        {
            next = self.shelf.below(&name).map(String::into_bytes);
        }
    }

    fn begin(
        &self,
        name: &str,
        file: File,
        origin: Origin,
        below: Below,
        limit: u64,
    ) -> Result<Body, Errno> {
        rustix::fs::ftruncate(&file, limit)?;
        let map = self.shelf.make_map(name)?;
        let map = Map::create(map, Header::new(origin, limit, boot()))?;
        let partial = Arc::new(Partial::new(Arc::new(file), map, below, self.listener()));
        self.shelf
            .live
            .insert(name.to_owned(), Arc::clone(&partial));
        Ok(Body::Partial(partial))
    }

    /// Who is to hear of leases; the thread is started when it is first needed.
    fn listener(&self) -> Option<Listener> {
        let mut keeper = locked(&self.keeper);
        if keeper.is_none() {
            *keeper = Keeper::start(Arc::clone(&self.shelf)).ok();
        }
        keeper.as_ref().map(Keeper::listener)
    }

    fn wake(&self) {
        if let Some(listener) = self.listener() {
            listener.wake();
        }
    }
}

/// The map of what has just become whole is gone.
fn unless_whole(done: Result<(), Errno>) -> Result<(), Errno> {
    match done {
        Err(Errno::NOENT) => Ok(()),
        done => done,
    }
}
