//! Reading events, and what they say has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;

use aegis_policies::journal::NodeId;
use rustix::fs::inotify::{ReadFlags, Reader};

use super::table::Table;

/// Room for some hundred events.
const BUFFER: usize = 32 << 10;
/// Buffers read into one batch; what is left makes the next.
const BUFFERS: usize = 16;

/// A name came, went, or leads elsewhere now.
const RENAMED: ReadFlags = ReadFlags::CREATE
    .union(ReadFlags::DELETE)
    .union(ReadFlags::MOVED_FROM)
    .union(ReadFlags::MOVED_TO);

type Name = Box<[u8]>;

/// What has changed since the last batch.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Events were lost, or something was mounted or unmounted: anything may have changed.
    pub(super) lost: bool,
    /// A directory was moved, removed or put in place.
    pub(super) folders_moved: bool,
    pub(super) folders: BTreeMap<NodeId, Changes>,
}

/// What has changed in a directory.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Names that came, went, or lead elsewhere.
    pub(super) names: BTreeSet<Name>,
    /// Of these, directories that were moved here.
    pub(super) arrived: BTreeSet<Name>,
    /// Names of what has other content or attributes.
    pub(super) contents: BTreeSet<Name>,
}

impl Batch {
    /// Reads the events that are there.
    pub(super) fn read(table: &Table) -> Self {
        let mut batch = Self::default();
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut reader = Reader::new(table.inotify(), &mut buffer);
        let mut buffers = 0;
        loop {
            if reader.is_buffer_empty() {
                buffers += 1;
            }
            if buffers > BUFFERS {
                return batch;
            }
            let Ok(event) = reader.next() else {
                return batch;
            };
            let name = event.file_name().map(|name| name.to_bytes());
            batch.add(table, event.wd(), event.events(), name);
        }
    }

    fn add(&mut self, table: &Table, descriptor: i32, events: ReadFlags, name: Option<&[u8]>) {
        if events.intersects(ReadFlags::QUEUE_OVERFLOW | ReadFlags::UNMOUNT) {
            self.lost = true;
        }
        let nodes = table.nodes(descriptor);
        if events.contains(ReadFlags::IGNORED) {
            table.ended(descriptor);
            return;
        }
        if events.contains(ReadFlags::ISDIR) && events.intersects(RENAMED) {
            self.folders_moved = true;
        }
        for node in nodes {
            self.folders.entry(node).or_default().add(events, name);
        }
    }
}

impl Changes {
    /// An event without a name is about the directory itself, which is forgotten in any case.
    fn add(&mut self, events: ReadFlags, name: Option<&[u8]>) {
        let Some(name) = name else { return };
        if !events.intersects(RENAMED) {
            self.contents.insert(name.into());
            return;
        }
        self.names.insert(name.into());
        if events.contains(ReadFlags::ISDIR | ReadFlags::MOVED_TO) {
            self.arrived.insert(name.into());
        }
    }
}
