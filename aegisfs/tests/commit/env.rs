//! A project, a copy of it for the agent to work on, and the changes between the two as the overlay
//! would report them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use aegis_policies::RelPath;
use aegis_policies::journal::{Baseline, NodeKind};
use aegis_policies::label::{Label, Labels};
use aegisfs::commit::{Approval, Approved, CommitError, Frozen, Landed, Plan, Site};
use aegisfs::layout::SessionDir;
use aegisfs::overlay::changes::{After, Change, Content};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// What a tree holds, by name: mode and content, or a link's target.
pub type Tree = BTreeMap<String, String>;

pub struct Env {
    pub temp: TempDir,
    pub session: SessionDir,
    pub project: PathBuf,
    pub agent: PathBuf,
    descriptor: OwnedFd,
    baselines: HashMap<RelPath, Baseline>,
    moved: HashMap<RelPath, RelPath>,
}

impl Env {
    /// A project made by `fill`, and a session on it.
    pub fn new(fill: impl FnOnce(&Path)) -> Self {
        // In memory where there is such a place: these tests force thousands of files to the disk.
        let temp = TempDir::new_in("/dev/shm")
            .or_else(|_| TempDir::new())
            .unwrap();
        let project = temp.path().join("project");
        fs::create_dir(&project).unwrap();
        fill(&project);
        Self::on(temp, project)
    }

    /// A session on a project that is there.
    pub fn on(temp: TempDir, project: PathBuf) -> Self {
        let session = SessionDir::new(temp.path().join("home/sessions/one"));
        let agent = temp.path().join("agent");
        for path in [session.content(), session.base()] {
            fs::create_dir_all(path).unwrap();
        }
        copy_tree(&project, &agent);
        let descriptor = fs::File::open(&project).unwrap().into();
        let mut env = Self {
            temp,
            session,
            project,
            agent,
            descriptor,
            baselines: HashMap::new(),
            moved: HashMap::new(),
        };
        env.baselines = env.look(&env.project.clone());
        env
    }

    pub fn site(&self) -> Site<'_> {
        Site::new(&self.session, self.descriptor.as_fd())
    }

    /// The same project with another session.
    pub fn site_of<'a>(&'a self, session: &'a SessionDir) -> Site<'a> {
        Site::new(session, self.descriptor.as_fd())
    }

    /// Another file's rename by the agent, so that the change says where it came from.
    pub fn agent_moves(&mut self, from: &str, to: &str) {
        fs::create_dir_all(self.agent.join(to).parent().unwrap()).unwrap();
        fs::rename(self.agent.join(from), self.agent.join(to)).unwrap();
        self.moved.insert(path(to), path(from));
    }

    /// What the overlay would say.
    pub fn changes(&self) -> Vec<Change> {
        let now = self.look(&self.agent);
        let names: BTreeSet<&RelPath> = self.baselines.keys().chain(now.keys()).collect();
        names
            .into_iter()
            .filter_map(|name| self.change(name, now.get(name)))
            .collect()
    }

    fn change(&self, name: &RelPath, now: Option<&Baseline>) -> Option<Change> {
        let before = self.baselines.get(name);
        if let (Some(before), Some(now)) = (before, now)
            && (before.kind.clone(), before.mode, before.sha256)
                == (now.kind.clone(), now.mode, now.sha256)
        {
            return None;
        }
        let moved_from = self.moved.get(name).cloned();
        let after = now.map(|now| After {
            kind: now.kind.clone(),
            mode: now.mode,
            content: self.content(name, now, moved_from.as_ref()),
            node: now.ino,
        });
        Some(Change {
            path: name.clone(),
            before: before.cloned(),
            after,
            moved_from,
        })
    }

    fn content(&self, name: &RelPath, now: &Baseline, from: Option<&RelPath>) -> Option<Content> {
        let sha256 = now.sha256?;
        if let Some(from) = from
            && self
                .baselines
                .get(from)
                .is_some_and(|old| old.sha256 == Some(sha256))
        {
            let relocations = aegisfs::commit::relocations(&self.session).unwrap();
            return Some(Content::Host(relocations.locate(from).into_owned()));
        }
        let file = PathBuf::from(hex(&sha256));
        fs::copy(
            self.agent.join(name.as_path()),
            self.session.content().join(&file),
        )
        .unwrap();
        Some(Content::Shadow(file))
    }

    pub fn plan(&self) -> Plan {
        self.plan_of(&[])
    }

    pub fn plan_of(&self, select: &[RelPath]) -> Plan {
        Plan::new(&self.site(), self.changes(), select, &labels).unwrap()
    }

    pub fn freeze(&self) -> Frozen {
        self.plan().freeze(&self.site()).unwrap()
    }

    pub fn approve(&self) -> Approved {
        let frozen = self.freeze();
        let approval = Approval::by_person(frozen.manifest());
        frozen.approve(&approval).unwrap()
    }

    pub fn land(&self) -> Landed {
        self.try_land().unwrap()
    }

    pub fn try_land(&self) -> Result<Landed, CommitError> {
        self.approve().land(&self.site(), None)
    }

    /// The project as it is now.
    pub fn host(&self) -> Tree {
        tree(&self.project)
    }

    /// Baselines of a whole tree; small contents are kept as the overlay keeps them.
    fn look(&self, root: &Path) -> HashMap<RelPath, Baseline> {
        let mut found = HashMap::new();
        for name in names(root) {
            let at = root.join(name.as_path());
            let baseline = baseline(&at);
            if let Some(sha256) = baseline.sha256
                && root == self.project
            {
                fs::copy(&at, self.session.base().join(hex(&sha256))).unwrap();
            }
            found.insert(name, baseline);
        }
        found
    }
}

pub fn path(text: &str) -> RelPath {
    RelPath::parse(text.as_bytes()).unwrap()
}

/// Sensitive is what a test calls `Makefile` or puts below `.github`.
pub fn labels(path: &RelPath) -> Labels {
    match path.as_bytes() {
        b"Makefile" => Labels::NONE.with(Label::BuildScript),
        bytes if bytes.starts_with(b".github/") => Labels::NONE.with(Label::Ci),
        _ => Labels::NONE,
    }
}

pub fn write(at: &Path, content: impl AsRef<[u8]>) {
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    fs::write(at, content).unwrap();
}

pub fn chmod(at: &Path, mode: u32) {
    fs::set_permissions(at, fs::Permissions::from_mode(mode)).unwrap();
}

pub fn tree(root: &Path) -> Tree {
    names(root)
        .into_iter()
        .map(|name| (name.to_string(), describe(&root.join(name.as_path()))))
        .collect()
}

fn describe(at: &Path) -> String {
    let stat = fs::symlink_metadata(at).unwrap();
    let mode = stat.mode() & 0o7777;
    if stat.is_symlink() {
        format!("link {:?}", fs::read_link(at).unwrap())
    } else if stat.is_dir() {
        format!("directory {mode:o}")
    } else {
        format!(
            "file {mode:o} {:?}",
            String::from_utf8_lossy(&fs::read(at).unwrap_or_default())
        )
    }
}

pub fn names(root: &Path) -> Vec<RelPath> {
    let mut found = Vec::new();
    let mut open = vec![RelPath::root()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(root.join(directory.as_path())).unwrap() {
            let entry = entry.unwrap();
            let name = directory.join(entry.file_name().as_bytes()).unwrap();
            if entry.file_type().unwrap().is_dir() {
                open.push(name.clone());
            }
            found.push(name);
        }
    }
    found.sort();
    found
}

fn baseline(at: &Path) -> Baseline {
    let stat = fs::symlink_metadata(at).unwrap();
    let kind = if stat.is_symlink() {
        NodeKind::Symlink(fs::read_link(at).unwrap().as_os_str().as_bytes().to_vec())
    } else if stat.is_dir() {
        NodeKind::Directory
    } else if stat.file_type().is_fifo() {
        NodeKind::Fifo
    } else if stat.file_type().is_char_device() {
        NodeKind::Character(stat.rdev())
    } else if stat.file_type().is_block_device() {
        NodeKind::Block(stat.rdev())
    } else {
        NodeKind::File
    };
    let sha256 = (kind == NodeKind::File).then(|| Sha256::digest(fs::read(at).unwrap()).into());
    Baseline {
        kind,
        mode: stat.mode() & 0o7777,
        uid: stat.uid(),
        gid: stat.gid(),
        size: stat.size(),
        mtime: stat.mtime() * 1_000_000_000 + stat.mtime_nsec(),
        ctime: stat.ctime() * 1_000_000_000 + stat.ctime_nsec(),
        dev: stat.dev(),
        ino: stat.ino(),
        sha256,
    }
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    let mut modes = Vec::new();
    for name in names(from) {
        let (source, target) = (from.join(name.as_path()), to.join(name.as_path()));
        let stat = fs::symlink_metadata(&source).unwrap();
        if stat.is_symlink() {
            symlink(fs::read_link(&source).unwrap(), &target).unwrap();
        } else if stat.is_dir() {
            fs::create_dir(&target).unwrap();
            modes.push((target, stat.mode()));
        } else {
            fs::copy(&source, &target).unwrap();
        }
    }
    for (target, mode) in modes.into_iter().rev() {
        chmod(&target, mode & 0o7777);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
