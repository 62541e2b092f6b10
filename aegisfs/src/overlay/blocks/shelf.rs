//! The partial files that the keeper looks after, and their maps on the disk.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dashmap::DashMap;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, fdatasync, openat, unlinkat};
use rustix::io::Errno;

use super::Partial;
use super::map::{Origin, read_header};
use crate::sys::lease;

const SUFFIX: &str = ".map";

/// What the keeper looks after.
#[derive(Debug)]
pub(super) struct Shelf {
    pub(super) folder: OwnedFd,
    pub(super) live: DashMap<String, Arc<Partial>>,
    /// Content whose map can not be read: nobody knows what of it is there.
    pub(super) unknown: Mutex<BTreeSet<String>>,
    /// Content that is to be removed and still shows in newer content.
    pub(super) doomed: Mutex<BTreeSet<String>>,
}

impl Shelf {
    pub(super) fn new(folder: OwnedFd) -> Self {
        Self {
            folder,
            live: DashMap::new(),
            unknown: Mutex::default(),
            doomed: Mutex::default(),
        }
    }

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

    pub(super) fn remove(&self, name: &str) {
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

    pub(super) fn is_below(&self, name: &str) -> bool {
        self.live.iter().any(|partial| partial.shows(name))
    }

    /// The content that shows in that of this name, by its map on the disk.
    pub(super) fn below(&self, name: &[u8]) -> Option<String> {
        let name = map_name(std::str::from_utf8(name).ok()?);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let map = File::from(openat(&self.folder, name, flags, Mode::empty()).ok()?);
        match read_header(&map).ok()?.below {
            Origin::Content(below) => Some(below),
            Origin::Host { .. } => None,
        }
    }

    pub(super) fn make_map(&self, name: &str) -> Result<File, Errno> {
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
    for entry in Dir::read_from(folder)? {
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

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
