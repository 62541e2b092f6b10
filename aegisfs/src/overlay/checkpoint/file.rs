//! Checkpoint files: their names, their form, and how they are written so that a crash leaves a
//! whole one or none.
//!
//! `magic [u8; 8] | version u32 | length of the head u32 | BLAKE3 of the head [u8; 32] | head |
//! body`, integers little endian; head and body in postcard encoding. The form is in
//! docs/JOURNAL.md.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use aegis_policies::journal::{Position, Seq};
use rustix::fs::{
    AtFlags, Dir, Mode, OFlags, fstatvfs, fsync, mkdirat, open, openat, renameat, unlinkat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::super::relocations::Relocations;
use super::super::shadow::Shadow;
use crate::layout::SessionDir;

const MAGIC: &[u8; 8] = b"AEGISCKP";

/// The form of the file and of the shadow in it. Another shape of either is another version; a test
/// holds the two together.
pub(super) const VERSION: u32 = 1;

/// Bytes before the head.
const PREFIX: usize = 48;

/// The newest checkpoints that are kept. With two, one that turns out to be damaged costs little.
const KEPT: usize = 2;

/// So many times its own size has to be free for a checkpoint to be written.
const ROOM: u64 = 8;

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// What has to fit before the shadow is looked at.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) position: Position,
    /// What landings had made of the project; the shadow depends on it.
    pub(super) relocations: Relocations,
    length: u64,
    digest: [u8; 32],
}

/// Why a checkpoint can not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Flaw {
    #[error("{0}")]
    Form(&'static str),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// The folder of checkpoints of a session.
#[derive(Debug)]
pub(super) struct Folder(OwnedFd);

/// A checkpoint that is being read.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) head: Head,
    file: File,
}

impl Folder {
    /// The folder; `None` when the session has none.
    pub(super) fn open(session: &SessionDir) -> Result<Option<Self>, Errno> {
        match open(session.checkpoints(), DIRECTORY, Mode::empty()) {
            Ok(folder) => Ok(Some(Self(folder))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// The folder, made when the session has none.
    pub(super) fn make(session: &SessionDir) -> Result<Self, Errno> {
        let root = open(session.root(), DIRECTORY, Mode::empty())?;
        match mkdirat(&root, "checkpoints", Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        Ok(Self(openat(
            &root,
            "checkpoints",
            DIRECTORY,
            Mode::empty(),
        )?))
    }

    /// The entries behind which there are checkpoints, newest first.
    pub(super) fn list(&self) -> Result<Vec<Seq>, Errno> {
        let mut found: Vec<Seq> = self
            .names()?
            .iter()
            .filter_map(|name| seq_of(name))
            .collect();
        found.sort_unstable_by(|one, other| other.cmp(one));
        Ok(found)
    }

    /// Opens a checkpoint and reads its head.
    pub(super) fn read(&self, seq: Seq) -> Result<Opened, Flaw> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.0, file_name(seq), flags, Mode::empty());
        let mut file = File::from(file.map_err(io::Error::from)?);
        let head = read_head(&mut file)?;
        if head.position.next() != seq {
            return Err(Flaw::Form("it is not the one that its name says"));
        }
        Ok(Opened { head, file })
    }

    /// Writes a checkpoint and drops older ones; its size in bytes.
    pub(super) fn write(
        &self,
        position: &Position,
        relocations: &Relocations,
        shadow: &Shadow,
    ) -> io::Result<u64> {
        let body = postcard::to_stdvec(shadow).map_err(io::Error::other)?;
        let head = Head {
            position: position.clone(),
            relocations: relocations.clone(),
            length: body.len() as u64,
            digest: *blake3::hash(&body).as_bytes(),
        };
        let head = postcard::to_stdvec(&head).map_err(io::Error::other)?;
        let size = (PREFIX + head.len() + body.len()) as u64;
        self.check_room(size)?;
        let name = file_name(position.next());
        let part = format!("{name}.part");
        let written = self
            .create(&part)
            .and_then(|file| write_parts(file, &[&prefix(&head)?, &head, &body]))
            .and_then(|()| Ok(renameat(&self.0, &part, &self.0, &name)?));
        if let Err(error) = written {
            let _ = unlinkat(&self.0, &part, AtFlags::empty());
            return Err(error);
        }
        fsync(&self.0)?;
        self.thin(position.next());
        Ok(size)
    }

    /// What makes a start faster must not take the room of what is written now.
    fn check_room(&self, size: u64) -> io::Result<()> {
        let disk = fstatvfs(&self.0)?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free < size.saturating_mul(ROOM) {
            return Err(Errno::NOSPC.into());
        }
        Ok(())
    }

    fn create(&self, name: &str) -> io::Result<File> {
        // One left by a crash; the session's lock says that nobody else writes it.
        let _ = unlinkat(&self.0, name, AtFlags::empty());
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Drops what is older than the newest few, what claims to be newer than `newest` (the journal
    /// lost what it was taken from), and what was left half written.
    fn thin(&self, newest: Seq) {
        let Ok(names) = self.names() else {
            return;
        };
        let mut kept: Vec<Seq> = names.iter().filter_map(|name| seq_of(name)).collect();
        kept.retain(|seq| *seq <= newest);
        kept.sort_unstable_by(|one, other| other.cmp(one));
        kept.truncate(KEPT);
        for name in names {
            if !seq_of(&name).is_some_and(|seq| kept.contains(&seq)) {
                let _ = unlinkat(&self.0, name.as_slice(), AtFlags::empty());
            }
        }
    }

    fn names(&self) -> Result<Vec<Vec<u8>>, Errno> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(name);
            }
        }
        Ok(names)
    }
}

impl Opened {
    /// Reads the shadow.
    pub(super) fn shadow(mut self) -> Result<Shadow, Flaw> {
        let mut body = Vec::new();
        body.try_reserve_exact(usize::try_from(self.head.length).unwrap_or(usize::MAX))
            .map_err(|_| Flaw::Form("it is larger than memory"))?;
        self.file.read_to_end(&mut body)?;
        if body.len() as u64 != self.head.length
            || *blake3::hash(&body).as_bytes() != self.head.digest
        {
            return Err(Flaw::Form("its digest does not match"));
        }
        match postcard::take_from_bytes::<Shadow>(&body) {
            Ok((shadow, [])) => Ok(shadow.with(self.head.relocations)),
            _ => Err(Flaw::Form("it does not hold the state of a tree")),
        }
    }
}

fn read_head(file: &mut File) -> Result<Head, Flaw> {
    let size = file.metadata()?.len();
    let mut prefix = [0; PREFIX];
    let cut = || Flaw::Form("it is cut off");
    file.read_exact(&mut prefix).map_err(|_| cut())?;
    let (magic, rest) = prefix.split_first_chunk::<8>().ok_or_else(cut)?;
    if magic != MAGIC {
        return Err(Flaw::Form(
            "it does not start with the magic of checkpoints",
        ));
    }
    let (version, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
    if *version != VERSION.to_le_bytes() {
        return Err(Flaw::Form("it has a version that this build does not read"));
    }
    let (length, digest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
    let length = u32::from_le_bytes(*length);
    if PREFIX as u64 + u64::from(length) > size {
        return Err(cut());
    }
    let mut head = Vec::new();
    file.take(u64::from(length)).read_to_end(&mut head)?;
    if blake3::hash(&head).as_bytes() != digest {
        return Err(Flaw::Form("the digest of its head does not match"));
    }
    match postcard::take_from_bytes(&head) {
        Ok((head, [])) => Ok(head),
        _ => Err(Flaw::Form("its head can not be understood")),
    }
}

fn prefix(head: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(head.len()).map_err(io::Error::other)?;
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(blake3::hash(head).as_bytes());
    Ok(bytes)
}

fn write_parts(mut file: File, parts: &[&[u8]]) -> io::Result<()> {
    for part in parts {
        file.write_all(part)?;
    }
    file.sync_data()
}

pub(super) fn file_name(seq: Seq) -> String {
    format!("{seq:016x}.aec")
}

/// The entry that a name of [`file_name`]'s is about.
fn seq_of(name: &[u8]) -> Option<Seq> {
    let text = std::str::from_utf8(name).ok()?;
    let seq = u64::from_str_radix(text.strip_suffix(".aec")?, 16).ok()?;
    (file_name(seq) == text).then_some(seq)
}
