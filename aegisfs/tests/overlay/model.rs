//! The tree without a mount against a plain directory: the same operations end the same way and
//! leave the same tree, also after the journal has been replayed.

use std::collections::BTreeMap;

use aegis_policies::journal::{NodeId, NodeKind};
use aegisfs::guard::Guard;
use aegisfs::overlay::{
    Access, Attr, Caller, Lookup, New, OverlayError, RenameMode, SetAttr, SetTime,
};
use proptest::prelude::*;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::bed::{Bed, furnish};
use super::ops::{self, Op};
use super::soak::soak;
use super::tree::{dump, fingerprint};

proptest! {
    #![proptest_config(ProptestConfig { cases: soak(120), failure_persistence: None, ..Default::default() })]

    #[test]
    fn ends_as_a_plain_directory_does(
        before in proptest::collection::vec(ops::operation(), 1..60),
        after in proptest::collection::vec(ops::operation(), 0..40),
    ) {
        let bed = Bed::furnished();
        let model = bed.root().join("model");
        std::fs::create_dir(&model).unwrap();
        furnish(&model);
        let host = fingerprint(&bed.project());
        for ops in [&before, &after] {
            let tree = Tree { guard: bed.guard() };
            prop_assert_eq!(tree.dump(), dump(&model), "replayed");
            for op in ops {
                let plain = ops::run(&ops::root(&model), op);
                prop_assert_eq!(tree.run(op), plain, "{:?}", op);
            }
            prop_assert_eq!(tree.dump(), dump(&model));
        }
        prop_assert_eq!(Tree { guard: bed.guard() }.dump(), dump(&model), "replayed at the end");
        prop_assert_eq!(fingerprint(&bed.project()), host, "the host's tree changed");
    }
}

/// What the kernel would do with paths.
pub struct Tree {
    pub guard: Guard,
}

type Result<T> = std::result::Result<T, Errno>;

const PID: u32 = 77;

impl Tree {
    pub fn run(&self, op: &Op) -> Result<()> {
        match op {
            Op::Create(path, mode) => self.make(path, NodeKind::File, *mode),
            Op::Mkdir(path) => self.make(path, NodeKind::Directory, 0o755),
            Op::Fifo(path) => self.make(path, NodeKind::Fifo, 0o600),
            Op::Device(path) => self.make(path, NodeKind::Character(0), 0o600),
            Op::Symlink(target, path) => {
                self.make(path, NodeKind::Symlink(target.clone().into_bytes()), 0o777)
            }
            Op::Write(path, offset, data) => {
                let node = self.openable(path)?;
                let opened = errno(self.guard.open(PID, node, Access::Write))?;
                let written =
                    errno(
                        self.guard
                            .write(opened.handle, *offset, data, Caller::Trusted),
                    );
                self.guard.release(opened.handle);
                written
            }
            Op::Truncate(path, size) => {
                let node = self.openable(path)?;
                let set = SetAttr {
                    size: Some(*size),
                    ..SetAttr::default()
                };
                errno(self.guard.setattr(PID, node, set)).map(drop)
            }
            Op::Unlink(path) => {
                let (parent, name) = self.parent(path)?;
                errno(self.guard.unlink(PID, parent, name))
            }
            Op::Rmdir(path) => {
                let (parent, name) = self.parent(path)?;
                errno(self.guard.rmdir(PID, parent, name))
            }
            Op::Rename(from, to) => self.rename(from, to, RenameMode::Replace),
            Op::RenameNew(from, to) => self.rename(from, to, RenameMode::NoReplace),
            Op::Exchange(from, to) => self.rename(from, to, RenameMode::Exchange),
            Op::Link(from, to) => {
                let node = self.find(from)?.node;
                let (parent, name) = self.parent(to)?;
                let linked = errno(self.guard.link(PID, node, parent, name));
                linked.map(|entry| self.guard.forget(entry.attr.node, 1))
            }
            Op::Chmod(path, mode) => {
                let attr = self.find(path)?;
                match attr.kind {
                    FileType::Symlink => return Err(Errno::LOOP),
                    FileType::CharacterDevice => return Err(Errno::ACCESS),
                    _ => {}
                }
                self.set(
                    attr.node,
                    SetAttr {
                        mode: Some(*mode),
                        ..SetAttr::default()
                    },
                )
            }
            Op::Utimes(path, seconds) => {
                let time = Some(SetTime::At(seconds * 1_000_000_000 + 5));
                let set = SetAttr {
                    atime: time,
                    mtime: time,
                    ..SetAttr::default()
                };
                let node = self.find(path)?.node;
                self.set(node, set)?;
                assert_eq!(self.find(path)?.mtime, seconds * 1_000_000_000 + 5);
                Ok(())
            }
        }
    }

    pub fn read(&self, path: &str) -> Result<Vec<u8>> {
        let attr = self.find(path)?;
        let opened = errno(self.guard.open(PID, attr.node, Access::Read))?;
        let mut bytes = vec![0; 1 << 20];
        let read = errno(self.guard.read(opened.handle, 0, &mut bytes));
        self.guard.release(opened.handle);
        bytes.truncate(read?);
        Ok(bytes)
    }

    /// The tree as [`dump`] shows one.
    pub fn dump(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let mut inodes = BTreeMap::new();
        self.walk("", &mut found, &mut inodes);
        found
    }

    fn walk(
        &self,
        at: &str,
        found: &mut BTreeMap<String, String>,
        inodes: &mut BTreeMap<u64, String>,
    ) {
        let folder = if at.is_empty() {
            self.root()
        } else {
            self.find(at).unwrap().node
        };
        let listing = self.guard.readdir(folder, 0).unwrap();
        let mut names: Vec<_> = listing
            .entries()
            .iter()
            .map(|entry| String::from_utf8(entry.name.to_vec()).unwrap())
            .filter(|name| name != "." && name != "..")
            .collect();
        names.sort();
        for name in names {
            let path = if at.is_empty() {
                name
            } else {
                format!("{at}/{name}")
            };
            let attr = self
                .find(&path)
                .unwrap_or_else(|error| panic!("{path}: {error}"));
            let text = match attr.kind {
                FileType::Directory => {
                    self.walk(&path, found, inodes);
                    format!("dir {:o}", attr.mode)
                }
                FileType::Symlink => {
                    let target = self.guard.readlink(attr.node).unwrap();
                    format!("link {:?}", target.escape_ascii().to_string())
                }
                FileType::RegularFile => {
                    let first = inodes.entry(attr.node.0).or_insert_with(|| path.clone());
                    let bytes = self.read(&path).unwrap();
                    assert_eq!(bytes.len() as u64, attr.size, "{path}");
                    format!(
                        "file {:o} {} {first} {}",
                        attr.mode,
                        attr.nlink,
                        bytes.escape_ascii()
                    )
                }
                FileType::Fifo => format!("fifo {:o} 0", attr.mode),
                FileType::Socket => format!("socket {:o} 0", attr.mode),
                FileType::CharacterDevice => format!("character {:o} {:x}", attr.mode, attr.rdev),
                _ => format!("block {:o} {:x}", attr.mode, attr.rdev),
            };
            found.insert(path, text);
        }
    }

    fn rename(&self, from: &str, to: &str, mode: RenameMode) -> Result<()> {
        let from = self.parent(from)?;
        let to = self.parent(to)?;
        errno(self.guard.rename(PID, from, to, mode))
    }

    fn make(&self, path: &str, kind: NodeKind, mode: u32) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        let new = New {
            kind,
            mode,
            umask: 0,
            uid: 0,
            gid: 0,
        };
        let made = errno(self.guard.create(PID, parent, name, new));
        made.map(|entry| self.guard.forget(entry.attr.node, 1))
    }

    fn set(&self, node: NodeId, set: SetAttr) -> Result<()> {
        errno(self.guard.setattr(PID, node, set)).map(drop)
    }

    /// What open(2) for writing would say before it asks the file system.
    fn openable(&self, path: &str) -> Result<NodeId> {
        let attr = self.find(path)?;
        match attr.kind {
            FileType::RegularFile => Ok(attr.node),
            FileType::Directory => Err(Errno::ISDIR),
            FileType::Symlink => Err(Errno::LOOP),
            FileType::CharacterDevice => Err(Errno::ACCESS),
            _ => Err(Errno::NXIO),
        }
    }

    fn parent<'a>(&self, path: &'a str) -> Result<(NodeId, &'a [u8])> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = self.walk_to(&format!("{folder}/"))?;
        if parent.kind != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        Ok((parent.node, name.as_bytes()))
    }

    fn find(&self, path: &str) -> Result<Attr> {
        self.walk_to(path)
    }

    /// Walks a path as the kernel does: symbolic links are followed, but not the last name unless
    /// a slash comes after it. References stay, as the kernel's would.
    fn walk_to(&self, path: &str) -> Result<Attr> {
        let mut left: Vec<String> = path.rsplit('/').map(str::to_owned).collect();
        let top = errno(self.guard.getattr(self.root()))?;
        let (mut above, mut links) = (vec![top], 0);
        while let Some(name) = left.pop() {
            let here = *above.last().unwrap();
            if here.kind != FileType::Directory {
                return Err(Errno::NOTDIR);
            }
            if name.is_empty() {
                continue;
            }
            let attr = match errno(self.guard.lookup(here.node, name.as_bytes()))? {
                Lookup::Found(entry) => entry.attr,
                Lookup::Missing { .. } => return Err(Errno::NOENT),
            };
            if attr.kind == FileType::Symlink && !left.is_empty() {
                links += 1;
                if links > 40 {
                    return Err(Errno::LOOP);
                }
                let target = String::from_utf8(errno(self.guard.readlink(attr.node))?).unwrap();
                left.extend(target.rsplit('/').map(str::to_owned));
            } else {
                above.push(attr);
            }
        }
        Ok(*above.last().unwrap())
    }

    fn root(&self) -> NodeId {
        self.guard.overlay().root()
    }
}

fn errno<T>(result: std::result::Result<T, OverlayError>) -> Result<T> {
    result.map_err(|error| error.errno())
}
