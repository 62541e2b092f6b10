//! What the content of a session takes, and who needs it.

use std::collections::BTreeMap;

use aegis_policies::RelPath;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, open, statat};
use rustix::io::Errno;

use super::attr::Stat;
use super::content::owner_of;
use super::error::OverlayError;
use super::relocations::Relocations;
use super::replay::{self, Upto};
use super::shadow::{ContentKey, Shadow, Snapshot};
use crate::layout::SessionDir;

/// One content of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Bytes that it takes on the disk.
    pub bytes: u64,
    /// The names in the present tree that lead to it.
    pub present: Vec<RelPath>,
    /// The entries of the snapshots that have it.
    pub snapshots: Vec<Snapshot>,
}

/// The contents of a session, which may be live. One that neither the tree nor a snapshot has is
/// open without a name, shows in another, or goes when the session is opened next.
///
/// # Errors
/// [`OverlayError`] when the journal or the folder of contents can not be read.
pub fn contents(
    session: &SessionDir,
    relocations: &Relocations,
) -> Result<Vec<Held>, OverlayError> {
    let shadow = replay::replay(session, relocations, Upto::End)?.shadow;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = open(session.content(), flags, Mode::empty())?;
    let mut found: BTreeMap<Option<ContentKey>, Held> = BTreeMap::new();
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => {
                let held = found.entry(owner_of(name.to_bytes())).or_default();
                held.bytes += Stat::from(stat).blocks.saturating_mul(512);
            }
            // It went meanwhile.
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    let held = found
        .into_iter()
        .map(|(key, held)| explain(&shadow, key, held));
    Ok(held.collect())
}

fn explain(shadow: &Shadow, key: Option<ContentKey>, held: Held) -> Held {
    let Some(key) = key else {
        return held;
    };
    let live = shadow.has_content(&key);
    let node = shadow.node(key.0).filter(|_| live);
    let names = node.into_iter().flat_map(|node| &node.names);
    let present = names.filter_map(|place| shadow.place_path(place)).collect();
    let snapshots = shadow.history().holders(&key, live).cloned().collect();
    Held {
        present,
        snapshots,
        ..held
    }
}
