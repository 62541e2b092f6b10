//! The session's own files: one flat file per node with content of its own, and what the host had
//! before. Nothing here has a name that the agent chose.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::ops::Bound;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use aegis_policies::journal::{Baseline, Generation, NodeId};
use aegis_policies::path::hex;
use rustix::fs::{
    AtFlags, Dir, Mode, OFlags, fstat, linkat, mkdirat, open, openat, renameat, statat, symlinkat,
    unlinkat,
};
use rustix::io::Errno;

use super::attr::Stat;
use super::blocks::{Blocks, Body, OpenHost, content_of};
use super::shadow::ContentKey;
use crate::layout::SessionDir;

/// Times of files come from the kernel's coarse clock, which is behind that of the entries by a tick
/// at most: within one, in nanoseconds, the two are not told apart.
pub(super) const TICK: i64 = 10_000_000;

/// Content up to this many bytes is kept as the base of a merge.
pub(crate) const LARGEST_BASE: u64 = 4 << 20;
/// Only the owner may look: the modes that the agent sees are in the shadow.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// The `content` and `base` folders of a session.
#[derive(Debug)]
pub(crate) struct ContentStore {
    content: OwnedFd,
    base: OwnedFd,
    blocks: Blocks,
    parts: AtomicU64,
}

impl ContentStore {
    /// Opens the folders, making them when this is a new session.
    pub(crate) fn open(session: &SessionDir) -> Result<Self, Errno> {
        let root = open(session.root(), DIRECTORY, Mode::empty())?;
        let content = folder(&root, "content")?;
        Ok(Self {
            blocks: Blocks::new(folder(&root, "content")?),
            content,
            base: folder(&root, "base")?,
            parts: AtomicU64::new(0),
        })
    }

    /// Opens the folders of a session that is only looked at.
    pub(crate) fn look(session: &SessionDir) -> Result<Self, Errno> {
        let content = || open(session.content(), DIRECTORY, Mode::empty());
        Ok(Self {
            blocks: Blocks::new(content()?),
            content: content()?,
            base: open(session.root(), DIRECTORY, Mode::empty())?,
            parts: AtomicU64::new(0),
        })
    }

    /// A new, empty file for a node. One left by a crash between file and record is replaced.
    pub(crate) fn create(&self, id: NodeId, generation: Generation) -> Result<File, Errno> {
        self.create_named(&file_name(id, generation))
    }

    /// The content of a node, for reading and writing.
    pub(crate) fn file(&self, id: NodeId, generation: Generation) -> Result<File, Errno> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = file_name(id, generation);
        Ok(openat(&self.content, name, flags, Mode::empty())?.into())
    }

    /// The bytes of a node's content.
    pub(crate) fn body(&self, id: NodeId, generation: Generation) -> Result<Body, Errno> {
        let file = self.file(id, generation)?;
        self.blocks.body(&file_name(id, generation), file)
    }

    /// Attributes of a node's content.
    pub(crate) fn stat(&self, id: NodeId, generation: Generation) -> Result<Stat, Errno> {
        let name = file_name(id, generation);
        let mut stat: Stat = statat(&self.content, &name, AtFlags::SYMLINK_NOFOLLOW)?.into();
        if let Some(partial) = self.blocks.find(&name) {
            stat.blocks += partial.blocks_below();
        }
        Ok(stat)
    }

    /// Content by blocks.
    pub(crate) const fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Takes up the partial files that an earlier server left.
    pub(crate) fn resume(&self, host: OpenHost<'_>) -> Result<(), Errno> {
        self.blocks.resume(host)
    }

    /// The same for a session that is only looked at: nothing is written.
    pub(crate) fn look_below(&self, host: OpenHost<'_>) -> Result<(), Errno> {
        self.blocks.look(host)
    }

    /// A file that becomes a node's content with [`ContentStore::publish`].
    pub(crate) fn prepare(&self, id: NodeId) -> Result<File, Errno> {
        self.create_named(&part_name(id))
    }

    /// Makes the prepared file the content of its node.
    pub(crate) fn publish(&self, id: NodeId, generation: Generation) -> Result<(), Errno> {
        let (part, name) = (part_name(id), file_name(id, generation));
        // Content whose map is missing would pass for whole, so the map goes first.
        self.blocks.rename(&part, &name)?;
        renameat(&self.content, part, &self.content, name)
    }

    /// Makes content of one generation that of another as well; no snapshot may need the former.
    pub(crate) fn carry(&self, id: NodeId, from: Generation, to: Generation) -> Result<(), Errno> {
        let (from, to) = (file_name(id, from), file_name(id, to));
        self.blocks.link(&from, &to)?;
        match linkat(&self.content, &from, &self.content, &to, AtFlags::empty()) {
            Err(Errno::EXIST) => {
                unlinkat(&self.content, &to, AtFlags::empty())?;
                linkat(&self.content, &from, &self.content, &to, AtFlags::empty())
            }
            linked => linked,
        }
    }

    /// Removes a prepared file.
    pub(crate) fn abandon(&self, id: NodeId) {
        self.blocks.remove(&part_name(id));
    }

    /// Removes content that nothing needs.
    pub(crate) fn remove(&self, id: NodeId, generation: Generation) {
        self.blocks.remove(&file_name(id, generation));
    }

    /// Removes every file that is no content for which `keep` holds, and that no such content shows
    /// in part.
    pub(crate) fn collect(&self, keep: impl Fn(&ContentKey) -> bool) -> Result<(), Errno> {
        let names = names(&self.content)?;
        let mut kept = BTreeSet::new();
        for name in &names {
            if key_of(name).is_some_and(|key| keep(&key)) {
                self.blocks.add_needed(name, &mut kept);
            }
        }
        for name in names {
            let content = content_of(&name).unwrap_or(&name);
            if !kept.contains(content) {
                unlinkat(&self.content, &*name, AtFlags::empty())?;
            }
        }
        self.collect_parts()
    }

    /// Removes the bases that a crash left half written. Whole ones stay: what the journal tells of
    /// can be gone back to, and merged from there.
    fn collect_parts(&self) -> Result<(), Errno> {
        for name in names(&self.base)? {
            if name.contains(&b'.') {
                unlinkat(&self.base, &*name, AtFlags::empty())?;
            }
        }
        Ok(())
    }

    /// Keeps what the host had, under its hash in hexadecimal.
    pub(crate) fn keep_base(&self, hash: &[u8; 32], bytes: &[u8]) -> Result<(), Errno> {
        let name = hex(hash);
        if statat(&self.base, &name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            return Ok(());
        }
        // Two threads may keep the same content at once; each writes a file of its own.
        let part = format!("{name}.{}", self.parts.fetch_add(1, Ordering::Relaxed));
        let _ = unlinkat(&self.base, &part, AtFlags::empty());
        let written = create_in(&self.base, &part).and_then(|mut file| {
            file.write_all(bytes)
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        });
        let kept = written.and_then(|()| renameat(&self.base, &part, &self.base, &name));
        if kept.is_err() {
            let _ = unlinkat(&self.base, &part, AtFlags::empty());
        }
        kept
    }

    /// Notes which content a file of the host's had whose baseline does not say so.
    pub(crate) fn note_base(&self, baseline: &Baseline, hash: &[u8; 32]) -> Result<(), Errno> {
        match symlinkat(hex(hash), &self.base, base_note(baseline)) {
            Err(Errno::EXIST) => Ok(()),
            other => other,
        }
    }

    fn create_named(&self, name: &str) -> Result<File, Errno> {
        match create_in(&self.content, name) {
            Err(Errno::EXIST) => {
                unlinkat(&self.content, name, AtFlags::empty())?;
                create_in(&self.content, name)
            }
            made => made,
        }
    }
}

/// The content files that there are.
#[derive(Debug)]
pub(crate) struct ContentFiles {
    folder: OwnedFd,
    found: BTreeSet<ContentKey>,
}

impl ContentFiles {
    /// Lists those of a session, which may be live.
    pub(crate) fn list(session: &SessionDir) -> Result<Self, Errno> {
        let folder = open(session.content(), DIRECTORY, Mode::empty())?;
        let mut found = BTreeSet::new();
        for entry in Dir::read_from(&folder)? {
            found.extend(key_of(entry?.file_name().to_bytes()));
        }
        Ok(Self { folder, found })
    }

    /// Attributes of a content file, if it is there.
    pub(crate) fn stat(&self, key: ContentKey) -> Option<Stat> {
        let name = file_name(key.0, key.1);
        let stat = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(stat.into())
    }

    /// The generation nearest to that of `key` in which there is content of its node: one after it
    /// if there is any, for it was made from what is missing.
    pub(crate) fn nearest(&self, key: ContentKey) -> Option<Generation> {
        let (id, generation) = key;
        let last = (id, Generation(u64::MAX));
        let mut later = self
            .found
            .range((Bound::Excluded(key), Bound::Included(last)));
        let mut earlier = self.found.range((id, Generation::FIRST)..key);
        let found = later.next().or_else(|| earlier.next_back());
        found
            .map(|(_, found)| *found)
            .filter(|found| *found != generation)
    }
}

/// The name, in the folder of bases, of the link that holds the hash of a file of the host's: by
/// what tells its content from any other (a status change time can not be set back).
pub(crate) fn base_note(baseline: &Baseline) -> String {
    format!(
        "at-{:x}-{:x}-{:x}",
        baseline.dev, baseline.ino, baseline.ctime
    )
}

/// The name of the file that holds the content of a node in a generation.
pub(crate) fn file_name(id: NodeId, generation: Generation) -> String {
    match generation {
        Generation::FIRST => format!("{:x}", id.0),
        Generation(later) => format!("{:x}.{later:x}", id.0),
    }
}

pub(super) fn part_name(id: NodeId) -> String {
    format!("{:x}.part", id.0)
}

/// The content that a file in the folder of contents belongs to: its own, or that of its map.
pub(crate) fn owner_of(name: &[u8]) -> Option<ContentKey> {
    key_of(content_of(name).unwrap_or(name))
}

/// What a file name stands for, when it is one of [`file_name`]'s.
pub(crate) fn key_of(name: &[u8]) -> Option<ContentKey> {
    let text = std::str::from_utf8(name).ok()?;
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    let (id, generation) = match text.split_once('.') {
        Some((id, generation)) => (number(id)?, number(generation)?),
        None => (number(text)?, 0),
    };
    let (id, generation) = (NodeId(id), Generation(generation));
    (file_name(id, generation) == text).then_some((id, generation))
}

fn names(folder: &OwnedFd) -> Result<Vec<Box<[u8]>>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name: Box<[u8]> = entry?.file_name().to_bytes().into();
        if !matches!(&*name, b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}

fn create_in(folder: &OwnedFd, name: &str) -> Result<File, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, PRIVATE)?;
    Ok(file.into())
}

fn folder(root: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    match mkdirat(root, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    let folder = openat(root, name, DIRECTORY, Mode::empty())?;
    fstat(&folder)?;
    Ok(folder)
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
