//! Whether objects are what their names say. git checks that for loose objects when it reads them
//! and never for packed ones, so a pack is indexed anew and its index compared.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use git2::{Indexer, ObjectType, Odb, Oid};

use super::super::error::{CommitError, Doing as _};
use super::super::reason::Reason;
use super::super::site::open_directory;

/// A place to check objects in: a directory of ours that looks like `.git/objects`.
#[derive(Debug)]
pub(crate) struct Bench {
    root: PathBuf,
}

impl Bench {
    /// Makes the directory `root`.
    pub(crate) fn new(root: PathBuf) -> Result<Self, CommitError> {
        open_directory(&root).doing("make", &root.display())?;
        Ok(Self { root })
    }

    /// Takes a loose object (`ab/cdef...`) or a part of a pack (`pack/pack-....pack`) in.
    pub(crate) fn add(&self, name: &[u8], content: OwnedFd) -> Result<(), CommitError> {
        let name = String::from_utf8_lossy(name).into_owned();
        let path = self.root.join(&name);
        if let Some(parent) = path.parent() {
            open_directory(parent).doing("make", &parent.display())?;
        }
        let mut to = std::fs::File::create(&path).doing("make", &path.display())?;
        std::io::copy(&mut std::fs::File::from(content), &mut to).doing("copy", &path.display())?;
        Ok(())
    }

    /// Checks the object or the part of a pack that was added under `name`.
    pub(crate) fn check(&self, name: &[u8]) -> Result<(), Reason> {
        let name = String::from_utf8_lossy(name).into_owned();
        let verdict = match name.strip_prefix("pack/") {
            Some(pack) => self.check_pack(pack),
            None => self.check_loose(&name.replace('/', "")),
        };
        verdict.map_err(|why| Reason::GitBroken(format!("`.git/objects/{name}`: {why}")))
    }

    fn check_loose(&self, hash: &str) -> Result<(), String> {
        let told = |error: git2::Error| error.message().to_owned();
        let id = Oid::from_str(hash).map_err(told)?;
        let store = self.store().map_err(told)?;
        let (size, kind) = store.read_header(id).map_err(told)?;
        if size > LARGEST {
            return Err(format!(
                "it says that it holds {size} bytes, which is too many"
            ));
        }
        if size > WHOLE {
            return self.check_stream(&store, id, kind, size);
        }
        self.require_packed_size(hash, size)?;
        // libgit2 hashes what it reads and compares it with the name.
        store.read(id).map(drop).map_err(told)
    }

    /// What is compressed is hardly larger than what comes out; the whole file is read.
    fn require_packed_size(&self, hash: &str, size: usize) -> Result<(), String> {
        let (prefix, rest) = hash.split_at_checked(2).unwrap_or_default();
        let path = self.root.join(prefix).join(rest);
        let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
        if usize::try_from(metadata.len()).unwrap_or(usize::MAX) > size.saturating_mul(2) + WHOLE {
            return Err("it is followed by what does not belong to it".to_owned());
        }
        Ok(())
    }

    /// A large object goes through a file, so that memory does not have to hold it.
    fn check_stream(
        &self,
        store: &Odb<'_>,
        id: Oid,
        kind: ObjectType,
        size: usize,
    ) -> Result<(), String> {
        let told = |error: git2::Error| error.message().to_owned();
        let path = self.root.join("whole");
        let mut to = std::fs::File::create(&path).map_err(|error| error.to_string())?;
        let (mut from, _, _) = store.reader(id).map_err(told)?;
        let mut buffer = vec![0; 128 << 10];
        let mut left = size;
        while left > 0 {
            let most = buffer.len().min(left);
            let part = buffer.get_mut(..most).unwrap_or_default();
            let read = from.read(part).map_err(|error| error.to_string())?;
            if read == 0 {
                return Err("it ends early".to_owned());
            }
            let part = part.get(..read).unwrap_or_default();
            to.write_all(part).map_err(|error| error.to_string())?;
            left -= read;
        }
        let found = Oid::hash_file(kind, &path).map_err(told)?;
        std::fs::remove_file(&path).map_err(|error| error.to_string())?;
        if found == id {
            Ok(())
        } else {
            Err(format!("it is in truth `{found}`"))
        }
    }

    fn check_pack(&self, file: &str) -> Result<(), String> {
        let stem = file.trim_end_matches(".pack").trim_end_matches(".idx");
        let [pack, index] =
            ["pack", "idx"].map(|kind| self.root.join(format!("pack/{stem}.{kind}")));
        let again = self.root.join("again");
        open_directory(&again).map_err(|error| error.to_string())?;
        let named = reindex(&pack, &again)?;
        if stem != format!("pack-{named}") {
            return Err(format!("the pack is in truth `pack-{named}`"));
        }
        let ours =
            std::fs::read(again.join(format!("{stem}.idx"))).map_err(|error| error.to_string())?;
        let theirs = std::fs::read(index).map_err(|_| "its index is missing".to_owned())?;
        if ours == theirs {
            Ok(())
        } else {
            Err("the index does not describe the pack".to_owned())
        }
    }

    fn store(&self) -> Result<Odb<'static>, git2::Error> {
        let store = Odb::new()?;
        store.add_disk_alternate(&self.root.to_string_lossy())?;
        Ok(store)
    }
}

fn reindex(pack: &Path, into: &Path) -> Result<String, String> {
    let mut from = std::fs::File::open(pack).map_err(|_| "the pack is missing".to_owned())?;
    let mut indexer =
        Indexer::new(None, into, 0o600, false).map_err(|error| error.message().to_owned())?;
    let mut buffer = vec![0; 128 << 10];
    loop {
        let read = from.read(&mut buffer).map_err(|error| error.to_string())?;
        if read == 0 {
            break;
        }
        let chunk = buffer.get(..read).unwrap_or_default();
        indexer
            .write_all(chunk)
            .map_err(|error| error.to_string())?;
    }
    indexer.commit().map_err(|error| error.message().to_owned())
}

/// The largest loose object that is checked in memory, in bytes.
const WHOLE: usize = 8 << 20;
/// The largest loose object that lands, in bytes.
const LARGEST: usize = 256 << 20;
