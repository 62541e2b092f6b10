//! What lands with the agent's commits and index beyond the files that lie in the work tree: git
//! brings it there later, with a reset or a checkout.

mod records;
mod worktree;

use std::collections::BTreeMap;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

use aegis_policies::{Labels, RelPath};
use git2::Oid;

use self::records::{Records, Side};
use self::worktree::{Kind, WorkTree, kind};
use super::freeze::Freezer;
use super::git::{self, History, Leaf, Value};
use super::item::is_sensitive;
use super::names::is_dot_git;
use super::reason::Reason;
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

fn word(value: &Value) -> String {
    match value {
        Value::Id(id) => id.to_string().chars().take(10).collect(),
        Value::Link(name) => name.clone(),
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
/// The name of the blob that holds nothing, which git knows without having it.
const EMPTY: &str = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
