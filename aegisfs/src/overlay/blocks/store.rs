//! The partial files of a session, by the names of their content files.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aegis_policies::RelPath;
use dashmap::DashMap;
use rustix::fs::{AtFlags, Mode, OFlags, fdatasync, linkat, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::below::{Below, HostFile};
use super::keeper::Keeper;
use super::load::{Loader, Purpose, boot};
use super::map::{Header, Map, Origin, read_header};
use super::{Body, Partial};
use crate::overlay::attr::Version;
use crate::sys::lease::{self, Listener};

/// The most partial files at once: each holds three descriptors, and a lease. The next large file
/// is copied as a whole.
const MOST: usize = 512;
/// The most files that one byte may have to be looked for in.
const DEEPEST: usize = 16;
const SUFFIX: &str = ".map";

/// Opens a file of the host's by its path in the project.
pub(crate) type OpenHost<'a> = &'a dyn Fn(&RelPath) -> Result<File, Errno>;

/// The content files of a session that is served, of which some are partial.
#[derive(Debug)]
pub(crate) struct Blocks {
    // Ends before the shelf does: it looks after what is on it.
    keeper: Mutex<Option<Keeper>>,
    shelf: Arc<Shelf>,
}

/// What the keeper looks after.
#[derive(Debug)]
pub(super) struct Shelf {
    folder: OwnedFd,
    live: DashMap<String, Arc<Partial>>,
    /// Content whose map can not be read: nobody knows what of it is there.
    unknown: Mutex<BTreeSet<String>>,
    /// Content that is to be removed and still shows in newer content.
    doomed: Mutex<BTreeSet<String>>,
}

impl Blocks {
    /// Those in the folder of contents.
    pub(crate) fn new(folder: OwnedFd) -> Self {
        Self {
            keeper: Mutex::default(),
            shelf: Arc::new(Shelf {
                folder,
                live: DashMap::new(),
                unknown: Mutex::default(),
                doomed: Mutex::default(),
            }),
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
        let loader = Loader {
            folder: &self.shelf.folder,
            host,
            purpose: Purpose::Serve(self.listener()),
        };
        for name in names {
            // A map without content is one of a copy-up that a kill cut short.
            match loader.load(&name, &self.shelf.live) {
                Ok(_) => {}
                Err(Errno::NOENT) => self.remove(&name),
                Err(_) => {
                    locked(&self.shelf.unknown).insert(name);
                }
            }
        }
        self.wake();
        Ok(())
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

impl Shelf {
    /// All of them.
    pub(super) fn all(&self) -> Vec<(String, Arc<Partial>)> {
        let entries = self.live.iter();
        entries
            .map(|entry| (entry.key().clone(), Arc::clone(entry.value())))
            .collect()
    }

    /// Takes the map of a content file away that has become whole, once its content is durable.
    pub(super) fn settle(&self, name: &str, partial: &Arc<Partial>) {
        if let Some(host) = partial.host() {
            lease::release(host.file());
        }
        // Tried again when it fails; the file is whole with the map as well.
        if fdatasync(&**partial.file()).is_ok() {
            let same = |_: &String, live: &Arc<Partial>| Arc::ptr_eq(live, partial);
            if self.live.remove_if(name, same).is_some() {
                let _ = unlinkat(&self.folder, map_name(name), AtFlags::empty());
                self.remove_doomed();
            }
        }
    }

    fn remove(&self, name: &str) {
        self.live.remove(name);
        locked(&self.unknown).remove(name);
        // What stays behind is collected at the next start. Content without its map would pass for
        // whole, so it goes first.
        let _ = unlinkat(&self.folder, name, AtFlags::empty());
        let _ = unlinkat(&self.folder, map_name(name), AtFlags::empty());
        self.remove_doomed();
    }

    /// Removes what shows in nothing any more.
    fn remove_doomed(&self) {
        let free = |name: &String| !self.is_below(name);
        let found = locked(&self.doomed).iter().find(|name| free(name)).cloned();
        if let Some(name) = found {
            locked(&self.doomed).remove(&name);
            self.remove(&name);
        }
    }

    fn is_below(&self, name: &str) -> bool {
        self.live.iter().any(|partial| partial.shows(name))
    }

    /// The content that shows in that of this name, by its map on the disk.
    fn below(&self, name: &[u8]) -> Option<String> {
        let name = map_name(std::str::from_utf8(name).ok()?);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let map = File::from(openat(&self.folder, name, flags, Mode::empty()).ok()?);
        match read_header(&map).ok()?.below {
            Origin::Content(below) => Some(below),
            Origin::Host { .. } => None,
        }
    }

    fn make_map(&self, name: &str) -> Result<File, Errno> {
        let _ = unlinkat(&self.folder, map_name(name), AtFlags::empty());
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(openat(&self.folder, map_name(name), flags, mode)?.into())
    }
}

/// The content files in a folder that have maps.
pub(super) fn names_of_maps(folder: &OwnedFd) -> Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        let name = content_of(entry.file_name().to_bytes());
        names.extend(name.and_then(|name| Some(std::str::from_utf8(name).ok()?.to_owned())));
    }
    Ok(names)
}

/// The name of the map of a content file.
pub(super) fn map_name(name: &str) -> String {
    format!("{name}{SUFFIX}")
}

/// The content file that a file name is the map of.
pub(crate) fn content_of(name: &[u8]) -> Option<&[u8]> {
    name.strip_suffix(SUFFIX.as_bytes())
}

/// The map of what has just become whole is gone.
fn unless_whole(done: Result<(), Errno>) -> Result<(), Errno> {
    match done {
        Err(Errno::NOENT) => Ok(()),
        done => done,
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
