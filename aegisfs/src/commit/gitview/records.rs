//! What the repository's references and notes say, on the host and after the landing.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::os::fd::OwnedFd;

use aegis_policies::RelPath;
use git2::Oid;

use super::super::freeze::Freezer;
use super::super::frozen::Entry;
use super::super::git::{self, Value};
use super::super::item::Group;
use super::super::reason::Reason;
use super::super::site::open_private;
use super::undescribed;

/// The repository's records on both sides.
pub(super) struct Records<'a> {
    pub(super) freezer: &'a Freezer<'a>,
    /// What lands, by the name below `.git`.
    pub(super) entries: BTreeMap<&'a [u8], &'a Entry>,
    host_packed: BTreeMap<String, Oid>,
    packed: BTreeMap<String, Oid>,
}

/// Which side's records are meant.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Host,
    Landing,
}

impl<'a> Records<'a> {
    pub(super) fn read(freezer: &'a Freezer<'a>) -> Result<Self, Reason> {
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

    pub(super) fn content(&self, side: Side, rest: &[u8]) -> Result<Option<Vec<u8>>, Reason> {
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

    pub(super) fn value(&self, side: Side, name: &str) -> Result<Option<Value>, Reason> {
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
    pub(super) fn resolve(&self, side: Side, name: &str) -> Result<Option<Oid>, Reason> {
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
    pub(super) fn names(&self) -> Result<BTreeSet<String>, Reason> {
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
    pub(super) fn host_tips(&self) -> Result<Vec<Oid>, Reason> {
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

/// How many references may lead to each other.
const LINKS: usize = 5;
/// The longest record that is read, in bytes.
const LONGEST: u64 = 64 << 20;
