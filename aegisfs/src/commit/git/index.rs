//! The index. It is read and written anew: the agent's copy could mark files as unchanged that are
//! not, or name paths inside `.git` for a later checkout to write.

use std::collections::HashMap;
use std::path::Path;

use git2::{Index, IndexEntry, IndexTime};

use super::super::names::is_dot_git;
use super::super::reason::Reason;

/// What an entry says about the next commit.
type Meaning = (Vec<u8>, u16, u32, git2::Oid);

/// Whether two index files describe the same next commit, whatever they remember about times.
pub(crate) fn same_entries(one: &Path, other: &Path) -> bool {
    let read = |path: &Path| {
        let index = Index::open(path).ok()?;
        Some(
            index
                .iter()
                .map(|entry| meaning(&entry))
                .collect::<Vec<_>>(),
        )
    };
    matches!((read(one), read(other)), (Some(one), Some(other)) if one == other)
}

/// Writes what the agent's index says to `to`. Entries that the host's index has too keep what it
/// remembers about their files; the others are left for git to look at.
pub(crate) fn sanitize(agent: &Path, host: Option<&Path>, to: &Path) -> Result<(), Reason> {
    let agent = Index::open(agent).map_err(broken)?;
    let known = host.map(remembered).unwrap_or_default();
    let mut clean = Index::open(to).map_err(broken)?;
    for entry in agent.iter() {
        check_path(&entry.path)?;
        let entry = known
            .get(&meaning(&entry))
            .map_or_else(|| forget(&entry), copy);
        clean.add(&entry).map_err(broken)?;
    }
    clean.write().map_err(broken)
}

/// An entry of an index: path, blob and mode.
pub(crate) type Staged = (Vec<u8>, git2::Oid, u32);

/// What the index at `agent` has and the one at `host` has not.
pub(crate) fn staged(agent: &Path, host: Option<&Path>) -> Result<Vec<Staged>, Reason> {
    let agent = Index::open(agent).map_err(broken)?;
    let known = host.map(remembered).unwrap_or_default();
    let new = agent
        .iter()
        .filter(|entry| !known.contains_key(&meaning(entry)));
    Ok(new
        .map(|entry| (entry.path, entry.id, entry.mode))
        .collect())
}

fn remembered(host: &Path) -> HashMap<Meaning, IndexEntry> {
    let Ok(host) = Index::open(host) else {
        return HashMap::new();
    };
    host.iter().map(|entry| (meaning(&entry), entry)).collect()
}

fn meaning(entry: &IndexEntry) -> Meaning {
    (
        entry.path.clone(),
        entry.flags & STAGE,
        entry.mode,
        entry.id,
    )
}

/// The entry with nothing but its meaning.
fn forget(entry: &IndexEntry) -> IndexEntry {
    let never = IndexTime::new(0, 0);
    IndexEntry {
        ctime: never,
        mtime: never,
        dev: 0,
        ino: 0,
        uid: 0,
        gid: 0,
        file_size: 0,
        flags: entry.flags & STAGE,
        flags_extended: entry.flags_extended & INTENT_TO_ADD,
        ..copy(entry)
    }
}

fn copy(entry: &IndexEntry) -> IndexEntry {
    IndexEntry {
        ctime: entry.ctime,
        mtime: entry.mtime,
        dev: entry.dev,
        ino: entry.ino,
        mode: entry.mode,
        uid: entry.uid,
        gid: entry.gid,
        file_size: entry.file_size,
        id: entry.id,
        flags: entry.flags,
        flags_extended: entry.flags_extended,
        path: entry.path.clone(),
    }
}

fn check_path(path: &[u8]) -> Result<(), Reason> {
    let sound = aegis_policies::RelPath::parse(path)
        .is_ok_and(|path| !path.is_root() && !path.components().any(is_dot_git));
    if sound {
        return Ok(());
    }
    let name = aegis_policies::path::escape(path);
    Err(Reason::GitBroken(format!(
        "the index names `{name}`, which no checkout may write"
    )))
}

fn broken(error: git2::Error) -> Reason {
    Reason::GitBroken(format!(
        "the index can not be read or written: {}",
        error.message()
    ))
}

/// The merge stage in an entry's flags (gitformat-index).
const STAGE: u16 = 0x3000;
/// `git add --intent-to-add`, as libgit2 keeps it.
const INTENT_TO_ADD: u16 = 1 << 13;
