//! What lands with the agent's commits and index beyond the files that lie in the work tree: git
//! brings it there later, with a reset or a checkout.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;

use aegis_policies::{Labels, RelPath};
use git2::{ObjectType, Oid};

use super::freeze::Freezer;
use super::frozen::Entry;
use super::git::{self, History, Leaf, Value};
use super::item::{Group, is_sensitive};
use super::names::is_dot_git;
use super::reason::Reason;
use super::site::open_private;
use super::state::State;

/// A reference that moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Its name below `.git`, such as `refs/heads/main`.
    pub name: String,
    /// What it holds on the host: the first digits of an object's name, or a reference's.
    pub old: Option<String>,
    /// What it would hold.
    pub new: Option<String>,
}

/// A path that a commit or the index brings, and that does not lie in the work tree like that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The path.
    pub path: RelPath,
    /// What brings it: a reference, or `index`.
    pub within: String,
    /// Whether it takes a file away that the work tree has.
    pub removes: bool,
    /// What kind of name it is.
    pub labels: Labels,
    /// Whether a person's own tools will execute or trust it. Everything counts as such before it
    /// has been labelled.
    pub sensitive: bool,
}

/// All of that.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) moves: Vec<Move>,
    pub(crate) carried: Vec<Carried>,
    pub(crate) tips: Vec<Tip>,
    /// What the host's HEAD is at.
    pub(crate) head: Option<Oid>,
}

/// Where a branch is and would be.
#[derive(Debug)]
pub(crate) struct Tip {
    pub(crate) name: String,
    pub(crate) old: Option<Oid>,
    pub(crate) new: Oid,
}

impl Carried {
    /// Says what kind of name it is.
    pub(crate) fn label(&mut self, labels: &dyn Fn(&RelPath) -> Labels) {
        self.labels = labels(&self.path);
        self.sensitive = is_sensitive(self.labels) || self.path.components().any(is_dot_git);
    }
}

/// Looks at every reference, note and index that would land.
///
/// # Errors
/// The reason for which none of them may.
pub(crate) fn look(freezer: &Freezer<'_>) -> Result<View, Reason> {
    let records = Records::read(freezer)?;
    if records.entries.is_empty() {
        return Ok(View::default());
    }
    let [host, bench] = stores(freezer);
    let known = records.host_tips()?;
    let mut looking = Looking {
        history: History::new(&[&host, &bench], &known)?,
        work: WorkTree::new(freezer),
        records: &records,
        carried: BTreeMap::new(),
        tips: Vec::new(),
    };
    let moves = looking.references()?;
    looking.notes()?;
    looking.index()?;
    Ok(View {
        moves,
        carried: looking.carried.into_values().collect(),
        tips: looking.tips,
        head: records.resolve(Side::Host, "HEAD").ok().flatten(),
    })
}

/// Where the host's and the agent's objects are.
pub(crate) fn stores(freezer: &Freezer<'_>) -> [PathBuf; 2] {
    let root = freezer.site.tree().root().as_raw_fd();
    let host = PathBuf::from(format!("/proc/self/fd/{root}/.git/objects"));
    [host, freezer.stage.bench().join("objects")]
}

/// The repository's records on both sides.
struct Records<'a> {
    freezer: &'a Freezer<'a>,
    /// What lands, by the name below `.git`.
    entries: BTreeMap<&'a [u8], &'a Entry>,
    host_packed: BTreeMap<String, Oid>,
    packed: BTreeMap<String, Oid>,
}

/// Which side's records are meant.
#[derive(Clone, Copy)]
enum Side {
    Host,
    Landing,
}

impl<'a> Records<'a> {
    fn read(freezer: &'a Freezer<'a>) -> Result<Self, Reason> {
        let entries = freezer.entries.iter().filter_map(|entry| {
            let is_record = entry.group == Group::Git && !entry.new.is_directory();
            is_record.then_some((git::inside(&entry.path)?, entry))
        });
        let mut records = Self {
            freezer,
            entries: entries.collect(),
            host_packed: BTreeMap::new(),
            packed: BTreeMap::new(),
        };
        let packed = |side| -> Result<_, Reason> {
            let content = records.content(side, b"packed-refs")?;
            Ok(git::packed(&content.unwrap_or_default()))
        };
        let (host_packed, packed) = (packed(Side::Host)?, packed(Side::Landing)?);
        records.host_packed = host_packed;
        records.packed = packed;
        Ok(records)
    }

    fn content(&self, side: Side, rest: &[u8]) -> Result<Option<Vec<u8>>, Reason> {
        let tree = self.freezer.site.tree();
        let file = match (side, self.entries.get(rest)) {
            (Side::Landing, Some(entry)) => match entry.new.sha256() {
                Some(sha256) => open_private(&self.freezer.stage.path(sha256))
                    .or_else(|_| tree.file(&entry.path))?,
                None => return Ok(None),
            },
            _ => match tree.file(&below_git(rest)?) {
                Ok(file) => file,
                // A directory of that name holds references, and is none.
                Err(_) => return Ok(None),
            },
        };
        bounded(file).map(Some)
    }

    fn value(&self, side: Side, name: &str) -> Result<Option<Value>, Reason> {
        if let Some(content) = self.content(side, name.as_bytes())? {
            return match git::value(&content) {
                None if matches!(side, Side::Landing) => Err(undescribed(name)),
                value => Ok(value),
            };
        }
        let packed = match side {
            Side::Host => &self.host_packed,
            Side::Landing => &self.packed,
        };
        Ok(packed.get(name).copied().map(Value::Id))
    }

    /// The object that a reference leads to; none when it leads nowhere.
    fn resolve(&self, side: Side, name: &str) -> Result<Option<Oid>, Reason> {
        let mut at = name.to_owned();
        for _ in 0..LINKS {
            match self.value(side, &at)? {
                None => return Ok(None),
                Some(Value::Id(id)) => return Ok(Some(id)),
                Some(Value::Link(next)) => at = next,
            }
        }
        Err(undescribed(name))
    }

    /// The references that may differ.
    fn names(&self) -> Result<BTreeSet<String>, Reason> {
        let mut names = BTreeSet::new();
        for rest in self.entries.keys() {
            if *rest == b"HEAD" || rest.starts_with(b"refs/") {
                let name = std::str::from_utf8(rest);
                names.insert(name.map_err(|_| undescribed("refs"))?.to_owned());
            }
        }
        let differing = |one: &BTreeMap<String, Oid>, other: &BTreeMap<String, Oid>| {
            let of_one = one
                .iter()
                .filter(|(name, id)| other.get(*name) != Some(*id));
            of_one.map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        names.extend(differing(&self.host_packed, &self.packed));
        names.extend(differing(&self.packed, &self.host_packed));
        Ok(names)
    }

    /// What the host's references name.
    fn host_tips(&self) -> Result<Vec<Oid>, Reason> {
        let mut tips: Vec<Oid> = self.host_packed.values().copied().collect();
        tips.extend(self.resolve(Side::Host, "HEAD").ok().flatten());
        let tree = self.freezer.site.tree();
        let mut open = vec![below_git(b"refs")?];
        while let Some(directory) = open.pop() {
            for name in tree.names(&directory).unwrap_or_default() {
                let Ok(path) = directory.join(&name) else {
                    continue;
                };
                let Ok(file) = tree.file(&path) else {
                    open.push(path);
                    continue;
                };
                if let Some(Value::Id(id)) = bounded(file).ok().and_then(|text| git::value(&text)) {
                    tips.push(id);
                }
            }
        }
        Ok(tips)
    }
}

struct Looking<'a> {
    history: History,
    work: WorkTree<'a>,
    records: &'a Records<'a>,
    carried: BTreeMap<RelPath, Carried>,
    tips: Vec<Tip>,
}

impl Looking<'_> {
    fn references(&mut self) -> Result<Vec<Move>, Reason> {
        let mut moves = Vec::new();
        for name in self.records.names()? {
            let old = self.records.value(Side::Host, &name)?;
            let new = self.records.value(Side::Landing, &name)?;
            if old == new {
                continue;
            }
            if new.is_some() {
                self.reference(&name)
                    .map_err(|reason| about(&name, &reason))?;
            }
            let (old, new) = (old.as_ref().map(word), new.as_ref().map(word));
            moves.push(Move { name, old, new });
        }
        Ok(moves)
    }

    fn reference(&mut self, name: &str) -> Result<(), Reason> {
        let Some(tip) = self.records.resolve(Side::Landing, name)? else {
            // A branch without a commit yet is what HEAD may name.
            return if name == "HEAD" {
                Ok(())
            } else {
                Err(undescribed(name))
            };
        };
        let is_branch = name == "HEAD" || name.starts_with("refs/heads/");
        if is_branch && self.history.commit_of(tip)? != tip {
            return Err(undescribed(name));
        }
        let old = self.records.resolve(Side::Host, name).ok().flatten();
        self.tip(name, old, tip)?;
        if let Some(branch) = name.strip_prefix("refs/")
            && branch.starts_with("heads/")
        {
            let (name, new) = (branch.to_owned(), tip);
            self.tips.push(Tip { name, old, new });
        }
        Ok(())
    }

    /// What a new reference brings is what the host's HEAD has not; one that only names what the
    /// host has already brings nothing.
    fn tip(&mut self, name: &str, old: Option<Oid>, tip: Oid) -> Result<(), Reason> {
        let commit = self.history.commit_of(tip)?;
        self.history.require_whole(commit)?;
        if old.is_none() && self.history.is_known(commit) {
            return Ok(());
        }
        let old = old.or_else(|| self.records.resolve(Side::Host, "HEAD").ok().flatten());
        let old = old.and_then(|old| self.history.commit_of(old).ok());
        for difference in self.history.differences(old, commit)? {
            self.carry(name, &difference.path, difference.new)?;
        }
        Ok(())
    }

    fn notes(&mut self) -> Result<(), Reason> {
        let records = self.records;
        for (rest, entry) in &records.entries {
            if entry.new == State::Absent {
                continue;
            }
            let content = if rest.contains(&b'/') || *rest == b"index" {
                None
            } else {
                records.content(Side::Landing, rest)?
            };
            let name = String::from_utf8_lossy(rest).into_owned();
            for id in git::noted(rest, &content.unwrap_or_default()) {
                let looked = if *rest == b"AUTO_MERGE" && self.history.has(id) {
                    Ok(())
                } else {
                    self.tip(&name, None, id)
                };
                looked.map_err(|reason| about(&name, &reason))?;
            }
        }
        Ok(())
    }

    fn index(&mut self) -> Result<(), Reason> {
        let freezer = self.records.freezer;
        let entry = self.records.entries.get(&b"index"[..]);
        let Some(sha256) = entry.and_then(|entry| entry.new.sha256()) else {
            return Ok(());
        };
        let host = freezer.stage.bench().join("host-index");
        let host = host.exists().then_some(host);
        for (path, id, mode) in git::staged(&freezer.stage.path(sha256), host.as_deref())? {
            let mode = i32::try_from(mode).unwrap_or_default();
            let is_given = kind(mode) == Kind::Submodule || id.to_string() == EMPTY;
            if !is_given && !self.history.has(id) {
                let path = aegis_policies::path::escape(&path);
                return Err(Reason::GitBroken(format!(
                    "the index names an object for `{path}` that is missing"
                )));
            }
            self.carry("index", &path, Some((id, mode)))?;
        }
        Ok(())
    }

    fn carry(&mut self, within: &str, path: &[u8], new: Option<Leaf>) -> Result<(), Reason> {
        let path =
            RelPath::parse(path).map_err(|_| undescribed(&aegis_policies::path::escape(path)))?;
        let lies = self.work.leaf(&path);
        let same = match (&new, &lies) {
            (Some((id, mode)), Some((lies, kept))) => id == lies && kind(*mode) == kind(*kept),
            (None, None) => true,
            _ => false,
        };
        if same {
            return Ok(());
        }
        if self.carried.len() >= SHOWN {
            return Err(Reason::GitBroken(format!(
                "the agent's commits hold more than {SHOWN} paths that differ from the work tree, \
                 more than can be shown"
            )));
        }
        let carried = Carried {
            path: path.clone(),
            within: within.to_owned(),
            removes: new.is_none(),
            labels: Labels::NONE,
            sensitive: true,
        };
        let there = self.carried.entry(path).or_insert_with(|| carried.clone());
        there.removes &= carried.removes;
        Ok(())
    }
}

/// What the work tree will hold.
struct WorkTree<'a> {
    freezer: &'a Freezer<'a>,
    entries: BTreeMap<&'a RelPath, &'a Entry>,
    seen: BTreeMap<RelPath, Option<Leaf>>,
}

impl<'a> WorkTree<'a> {
    fn new(freezer: &'a Freezer<'a>) -> Self {
        let files = freezer.entries.iter();
        let files = files.filter(|entry| entry.group == Group::Files);
        Self {
            freezer,
            entries: files.map(|entry| (&entry.path, entry)).collect(),
            seen: BTreeMap::new(),
        }
    }

    /// The blob and mode that git would give to what lies at the path; none for what it does not
    /// keep, or what can not be read.
    fn leaf(&mut self, path: &RelPath) -> Option<Leaf> {
        if let Some(seen) = self.seen.get(path) {
            return *seen;
        }
        let leaf = match self.entries.get(path) {
            Some(entry) => self.landing(entry),
            None => self.on_host(path),
        };
        self.seen.insert(path.clone(), leaf);
        leaf
    }

    fn landing(&self, entry: &Entry) -> Option<Leaf> {
        let tree = self.freezer.site.tree();
        match &entry.new {
            State::File { sha256, mode } => {
                let from = entry.moved_from.as_ref().unwrap_or(&entry.path);
                let file = open_private(&self.freezer.stage.path(*sha256))
                    .or_else(|_| tree.file(&entry.path))
                    .or_else(|_| tree.file(from));
                blob(&file.ok()?, *mode)
            }
            state => link(state),
        }
    }

    fn on_host(&self, path: &RelPath) -> Option<Leaf> {
        let tree = self.freezer.site.tree();
        match tree.file(path) {
            Ok(file) => {
                let mode = rustix::fs::fstat(&file).ok()?.st_mode;
                blob(&file, mode)
            }
            Err(_) => link(&tree.observe(path).ok()?.state),
        }
    }
}

fn blob(file: &OwnedFd, mode: u32) -> Option<Leaf> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let id = Oid::hash_file(ObjectType::Blob, path).ok()?;
    let mode = if mode & 0o100 == 0 {
        0o100_644
    } else {
        0o100_755
    };
    Some((id, mode))
}

fn link(state: &State) -> Option<Leaf> {
    match state {
        State::Symlink { target } => {
            let id = Oid::hash_object(ObjectType::Blob, target).ok()?;
            Some((id, 0o120_000))
        }
        _ => None,
    }
}

/// What git makes of a mode in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Executable,
    Link,
    Submodule,
}

const fn kind(mode: i32) -> Kind {
    match mode & 0o170_000 {
        0o120_000 => Kind::Link,
        0o160_000 => Kind::Submodule,
        _ if mode & 0o100 != 0 => Kind::Executable,
        _ => Kind::File,
    }
}

fn word(value: &Value) -> String {
    match value {
        Value::Id(id) => id.to_string().chars().take(10).collect(),
        Value::Link(name) => name.clone(),
    }
}

fn below_git(rest: &[u8]) -> Result<RelPath, Reason> {
    RelPath::parse(&[b".git/", rest].concat())
        .map_err(|_| undescribed(&aegis_policies::path::escape(rest)))
}

fn bounded(file: OwnedFd) -> Result<Vec<u8>, Reason> {
    let mut bytes = Vec::new();
    std::fs::File::from(file)
        .take(LONGEST + 1)
        .read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= LONGEST) {
        Ok(bytes)
    } else {
        Err(Reason::GitBroken(
            "a list of references is too long".to_owned(),
        ))
    }
}

fn undescribed(name: &str) -> Reason {
    Reason::GitBroken(format!(
        "`{}` does not lead to a commit",
        aegis_policies::path::escape(name.as_bytes())
    ))
}

fn about(name: &str, reason: &Reason) -> Reason {
    let name = aegis_policies::path::escape(name.as_bytes());
    Reason::GitBroken(format!("`.git/{name}`: {reason}"))
}

/// The most paths that a review is asked to show.
const SHOWN: usize = 10_000;
/// How many references may lead to each other.
const LINKS: usize = 5;
/// The longest record that is read, in bytes.
const LONGEST: u64 = 64 << 20;

/// The name of the blob that holds nothing, which git knows without having it.
const EMPTY: &str = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
