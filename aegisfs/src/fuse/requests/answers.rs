//! The values that answers are made of, and how long the kernel may trust them.

use std::sync::LazyLock;
use std::time::Duration;

use rustix::process::{getegid, geteuid};

use crate::overlay::{self, Attr, Entry, HandleId};

/// How long the kernel may trust what the host can change without our being told.
const BRIEF: Duration = Duration::from_secs(1);
/// How long it may trust what only the session can change, which it sees itself, and what we take
/// back when the host changes it.
const LONG: Duration = Duration::from_secs(3600);

/// What stat(2) shows for an id that the user namespace does not map (user_namespaces(7)).
const UNMAPPED: u32 = 65_534;
/// The user and group of this process, where it runs in a namespace that maps only these.
///
/// The kernel refuses every change of a node whose owner it can not name (`HAS_UNMAPPED_ID`), also
/// to a member of its group. The host's tree is not written here, so whom a node of a stranger or of
/// a shared group belongs to is shown as the one user there is.
static ONLY_USER: LazyLock<Option<(u32, u32)>> = LazyLock::new(|| {
    let map = std::fs::read_to_string("/proc/self/uid_map").ok()?;
    let maps_one = map.split_whitespace().nth(2) == Some("1");
    maps_one.then(|| (geteuid().as_raw(), getegid().as_raw()))
});

/// Attributes, and how long they may be trusted.
#[derive(Clone, Copy, Debug)]
pub(in crate::fuse) struct Shown {
    /// As the asker sees them.
    pub(in crate::fuse) attr: Attr,
    /// How long they may be trusted.
    pub(in crate::fuse) lifetime: Duration,
}

/// A node under a name; the kernel holds one reference more.
#[derive(Clone, Copy, Debug)]
pub(in crate::fuse) struct Named {
    /// The node.
    pub(in crate::fuse) shown: Shown,
    /// Tells it from others that have had its number.
    pub(in crate::fuse) generation: u32,
    /// How long the name may be trusted to lead to it.
    pub(in crate::fuse) lifetime: Duration,
}

/// The answer to a lookup.
#[derive(Clone, Copy, Debug)]
pub(in crate::fuse) enum Lookup {
    /// The name leads somewhere.
    Found(Named),
    /// It does not, and may be trusted to be absent for so long.
    Missing(Duration),
}

/// An open file.
#[derive(Clone, Copy, Debug)]
pub(in crate::fuse) struct Opened {
    /// Names it in later requests.
    pub(in crate::fuse) handle: HandleId,
    /// Whether the pages that the kernel has are still right (FOPEN_KEEP_CACHE).
    pub(in crate::fuse) keep_cache: bool,
    /// Whether close(2) has nothing to tell (FOPEN_NOFLUSH).
    pub(in crate::fuse) no_flush: bool,
}

impl From<Attr> for Shown {
    fn from(mut attr: Attr) -> Self {
        attr.uid = named(attr.uid, |(user, _)| user);
        attr.gid = named(attr.gid, |(_, group)| group);
        Self {
            lifetime: trust(attr.unannounced),
            attr,
        }
    }
}

impl From<Entry> for Named {
    fn from(entry: Entry) -> Self {
        Self {
            shown: entry.attr.into(),
            generation: entry.generation,
            lifetime: trust(entry.unannounced),
        }
    }
}

impl From<overlay::Lookup> for Lookup {
    fn from(found: overlay::Lookup) -> Self {
        match found {
            overlay::Lookup::Found(entry) => Self::Found(entry.into()),
            overlay::Lookup::Missing { unannounced } => Self::Missing(trust(unannounced)),
        }
    }
}

impl From<overlay::Opened> for Opened {
    fn from(opened: overlay::Opened) -> Self {
        Self {
            handle: opened.handle,
            keep_cache: opened.keep_cache,
            // Writes have reached the content file when write(2) returns.
            no_flush: true,
        }
    }
}

/// The time for which an answer may be trusted.
const fn trust(unannounced: bool) -> Duration {
    if unannounced { BRIEF } else { LONG }
}

fn named(id: u32, own: fn((u32, u32)) -> u32) -> u32 {
    if id == UNMAPPED {
        ONLY_USER.map_or(id, own)
    } else {
        id
    }
}
