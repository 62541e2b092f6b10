//! Partial files that are read back from the disk: by the server that goes on with them, and by
//! whoever reads what a session left.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use aegis_policies::RelPath;
use dashmap::DashMap;
use rustix::fs::{AtFlags, Mode, OFlags, fstat, openat, unlinkat};
use rustix::io::Errno;

use super::below::{Below, HostFile};
use super::map::{Block, Map, Origin, read_header};
use super::shelf::{map_name, names_of_maps};
use super::store::OpenHost;
use super::{Body, Partial};
use crate::overlay::attr::{Stat, Version};
use crate::overlay::bytes::{next_data, next_hole};
use crate::sys::lease::{self, Listener};

/// Reads partial files back.
pub(super) struct Loader<'a> {
    pub(super) folder: &'a OwnedFd,
    pub(super) host: OpenHost<'a>,
    pub(super) purpose: Purpose,
}

/// What a partial file is read back for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// To be served; this thread looks after it.
    Serve(Option<Listener>),
    /// To be completed, while nobody serves it.
    Complete,
    /// To be read, whoever serves it.
    Read,
}

/// Opens the content of this name in a folder of contents for reading, whoever writes it meanwhile.
///
/// # Errors
/// What the file system said; EUCLEAN when the map is not one.
pub(crate) fn read_content(
    folder: &OwnedFd,
    name: &str,
    host: OpenHost<'_>,
) -> Result<Body, Errno> {
    let purpose = Purpose::Read;
    let loader = Loader {
        folder,
        host,
        purpose,
    };
    loader.load(name, &DashMap::new())
}

/// Copies what is missing of every content file that shows a file of the host's for whose path
/// `goes` holds. Nobody serves the session.
///
/// # Errors
/// The path of the host's file, and what the file system said. What is lost already is no error.
pub(crate) fn complete(
    folder: &OwnedFd,
    host: OpenHost<'_>,
    goes: &dyn Fn(&RelPath) -> bool,
) -> Result<(), (RelPath, Errno)> {
    let purpose = Purpose::Complete;
    let loader = Loader {
        folder,
        host,
        purpose,
    };
    for (name, path) in loader.over_host() {
        if goes(&path) {
            let done = loader.complete(&name);
            done.map_err(|errno| (path, errno))?;
        }
    }
    Ok(())
}

/// When the machine was started, as a name that no other start has; empty where that is not known.
pub(super) fn boot() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    boot.unwrap_or_default().trim().to_owned()
}

impl Loader<'_> {
    /// The content of this name; what is partial is put on `live`.
    pub(super) fn load(
        &self,
        name: &str,
        live: &DashMap<String, Arc<Partial>>,
    ) -> Result<Body, Errno> {
        if let Some(partial) = live.get(name) {
            return Ok(Body::Partial(Arc::clone(&partial)));
        }
        // A map is there before its content, and goes when the content is whole: so content that
        // was there and has no map by now is whole.
        let file = Arc::new(self.open(name)?);
        let map = match self.open(&map_name(name)) {
            Err(Errno::NOENT) => return Ok(Body::Whole(file)),
            opened => opened?,
        };
        let header = read_header(&map)?;
        let below = match &header.below {
            Origin::Host { path, version } => self.host_below(path, *version),
            Origin::Content(older) => self.load(older, live).map_or(Below::Lost, Below::Older),
        };
        let map = Map::load(map)?;
        if self.writes() {
            map.cut(Stat::from(fstat(&*file)?).size)?;
            distrust(&file, &map)?;
        }
        let partial = Arc::new(Partial::new(file, map, below, self.keeper()));
        live.insert(name.to_owned(), Arc::clone(&partial));
        Ok(Body::Partial(partial))
    }

    fn host_below(&self, path: &RelPath, version: Version) -> Below {
        let Ok(file) = (self.host)(path) else {
            return Below::Lost;
        };
        let leased = self
            .keeper()
            .is_some_and(|keeper| lease::take(&file, keeper).is_ok());
        // Under the lease the file can not change any more, so now is the time to look.
        let now = fstat(file.as_fd()).map(|stat| Stat::from(stat).version());
        match now {
            Ok(now) if is_same(now, version) => {
                Below::Host(HostFile::new(Arc::new(file), path.clone(), now, leased))
            }
            _ => Below::Lost,
        }
    }

    /// The content files that show a file of the host's, and its path.
    fn over_host(&self) -> Vec<(String, RelPath)> {
        let names = names_of_maps(self.folder).unwrap_or_default();
        let shown = names.into_iter().filter_map(|name| {
            let header = read_header(&self.open(&map_name(&name)).ok()?).ok()?;
            match header.below {
                Origin::Host { path, .. } => Some((name, path)),
                Origin::Content(_) => None,
            }
        });
        shown.collect()
    }

    fn complete(&self, name: &str) -> Result<(), Errno> {
        let Ok(Body::Partial(partial)) = self.load(name, &DashMap::new()) else {
            return Ok(());
        };
        match partial.fill() {
            Err(Errno::IO) if partial.is_torn() => return Ok(()),
            filled => filled?,
        }
        partial.sync()?;
        unlinkat(self.folder, map_name(name), AtFlags::empty())
    }

    fn keeper(&self) -> Option<Listener> {
        match self.purpose {
            Purpose::Serve(keeper) => keeper,
            Purpose::Complete | Purpose::Read => None,
        }
    }

    const fn writes(&self) -> bool {
        !matches!(self.purpose, Purpose::Read)
    }

    fn open(&self, name: &str) -> Result<File, Errno> {
        let access = if self.writes() {
            OFlags::RDWR
        } else {
            OFlags::RDONLY
        };
        let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(self.folder, name, flags, Mode::empty())?.into())
    }
}

/// Whether the content is the same. Devices can have other numbers after a start of the machine.
fn is_same(one: Version, other: Version) -> bool {
    (one.1, one.2, one.3, one.4) == (other.1, other.2, other.3, other.4)
}

/// After a power failure the map may speak of blocks whose bytes never reached the disk. Blocks that
/// were written as a whole and are holes now are such: they are taken from below again.
fn distrust(file: &File, map: &Map) -> Result<(), Errno> {
    let now = boot();
    if map.header().boot == now {
        return Ok(());
    }
    let limit = map.limit();
    let mut hole = next_hole(file, 0, limit);
    while hole < limit {
        let end = next_data(file, hole, limit);
        for block in hole / map.block()..end.div_ceil(map.block()) {
            if map.is_full(block) {
                map.note(block, block + 1, Block::Below)?;
            }
        }
        hole = next_hole(file, end, limit);
    }
    map.sync()?;
    map.change(|header| header.boot = now)
}
