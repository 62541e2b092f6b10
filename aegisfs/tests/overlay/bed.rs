//! A project, a session and a place to mount, of one test.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aegis_policies::label::{Labeler, Repository};
use aegis_policies::{Gate, Journal, Policy};
use aegisfs::fuse::{self, Options, Served, Transport};
use aegisfs::guard::Guard;
use aegisfs::layout::SessionDir;
use aegisfs::overlay::{Overlay, Rewind, checkpoint};
use rustix::mount::{UnmountFlags, unmount};

/// Everything is removed, and unmounted, at the end of the test.
pub struct Bed {
    root: tempfile::TempDir,
    served: Option<Served>,
    mounted: Option<Arc<Guard>>,
    watches: Option<usize>,
}

impl Bed {
    /// An empty project.
    pub fn new() -> Self {
        Self::new_in(&std::env::temp_dir())
    }

    /// An empty project in a folder.
    pub fn new_in(folder: &Path) -> Self {
        let root = tempfile::tempdir_in(folder).unwrap();
        for name in ["project", "session", "mnt", "session/journal"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        Self {
            root,
            served: None,
            mounted: None,
            watches: None,
        }
    }

    /// A project with a little of everything.
    pub fn furnished() -> Self {
        let bed = Self::new();
        furnish(&bed.project());
        bed
    }

    /// Watches at most `most` directories of the host.
    pub fn watching(mut self, most: usize) -> Self {
        self.watches = Some(most);
        self
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn project(&self) -> PathBuf {
        self.root.path().join("project")
    }

    pub fn mnt(&self) -> PathBuf {
        self.root.path().join("mnt")
    }

    pub fn session(&self) -> SessionDir {
        SessionDir::new(self.root.path().join("session"))
    }

    /// The tree behind its guard, without a mount.
    pub fn guard(&self) -> Guard {
        let (gate, overlay) = overlay(&self.project(), &self.session());
        let overlay = match self.watches {
            Some(most) => overlay.with_watches(most),
            None => overlay,
        };
        Guard::new(overlay, gate, "test".into())
    }

    /// Mounts the tree in this process.
    pub fn mount(&mut self) -> PathBuf {
        let guard = Arc::new(self.guard());
        let served = fuse::mount(&self.mnt(), Arc::clone(&guard), options());
        self.served = Some(served.unwrap());
        self.mounted = Some(guard);
        self.mnt()
    }

    /// The guard of the mounted tree.
    pub fn mounted(&self) -> &Guard {
        self.mounted.as_ref().unwrap()
    }

    pub fn unmount(&mut self) {
        self.mounted = None;
        if let Some(served) = self.served.take() {
            served.unmount().unwrap();
        }
    }

    /// What it would be to go back to an entry.
    pub fn rewind_to(&self, to: u64) -> Rewind {
        let relocations = aegisfs::commit::relocations(&self.session()).unwrap();
        Rewind::plan(&self.session(), &relocations, to).unwrap()
    }

    /// The content files of the session.
    pub fn content(&self) -> Vec<String> {
        let names = fs::read_dir(self.session().content()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    /// Unmounts, replays the journal and mounts again.
    pub fn remount(&mut self) {
        self.unmount();
        self.mount();
    }

    pub fn changes(&self) -> Vec<aegisfs::overlay::changes::Change> {
        use std::os::fd::AsFd;
        let project = File::open(self.project()).unwrap();
        let relocations = aegisfs::commit::relocations(&self.session()).unwrap();
        aegisfs::overlay::changes::changes(&self.session(), project.as_fd(), relocations).unwrap()
    }

    /// Mounts the tree in a process of its own, which can be killed.
    pub fn serve(&self) -> Server {
        self.serve_under(&[]).unwrap()
    }

    /// The same, started by another program with these arguments; none when it ends before it has
    /// mounted.
    pub fn serve_under(&self, starter: &[&str]) -> Option<Server> {
        let (session, mnt) = (self.session(), self.mnt());
        Server::start(starter, &self.project(), session.root(), &mnt)
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // Its threads end with the last reference to the mount; a test that failed may hold one.
        let _ = unmount(self.mnt(), UnmountFlags::DETACH);
    }
}

/// A server in a process of its own.
pub struct Server {
    child: Child,
    mnt: PathBuf,
}

impl Server {
    fn start(starter: &[&str], project: &Path, session: &Path, mnt: &Path) -> Option<Self> {
        // Not by its path: a build may have replaced the file meanwhile.
        let this = format!("/proc/{}/exe", std::process::id());
        let command = [starter, &[&this]].concat();
        let child = Command::new(command[0])
            .args(&command[1..])
            .args([
                "overlay::bed::serve_child",
                "--exact",
                "--ignored",
                "--nocapture",
            ])
            .env("AEGISFS_PROJECT", project)
            .env("AEGISFS_SESSION", session)
            .env("AEGISFS_MNT", mnt)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Self {
            child,
            mnt: mnt.to_owned(),
        };
        let until = Instant::now() + Duration::from_secs(60);
        while !is_mounted(mnt) {
            assert!(Instant::now() < until, "the server did not mount");
            if server.child.try_wait().unwrap().is_some() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Some(server)
    }

    /// Unmounts, dead or alive, and waits for the server's end.
    pub fn end(mut self) {
        let _ = unmount(&self.mnt, UnmountFlags::DETACH);
        self.child.wait().unwrap();
    }

    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    /// Ends the server as a crash would, and clears its dead mount away.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
        let _ = unmount(&self.mnt, UnmountFlags::DETACH);
    }
}

/// A server that a test started; it ends when it is unmounted or killed.
#[test]
#[ignore = "started by other tests as a process of its own"]
fn serve_child() {
    let path = |name: &str| PathBuf::from(std::env::var_os(name).unwrap());
    let session = SessionDir::new(path("AEGISFS_SESSION"));
    let guard = guard(&path("AEGISFS_PROJECT"), &session);
    let served = fuse::mount(&path("AEGISFS_MNT"), Arc::new(guard), options()).unwrap();
    served.wait().unwrap();
}

/// As usual, or over the transport that `AEGISFS_TRANSPORT` names: `device`, `io-uring` or `fuser`.
pub fn options() -> Options {
    let name = std::env::var("AEGISFS_TRANSPORT").unwrap_or_default();
    let transport = match &*name {
        "" => Transport::Auto,
        "device" => Transport::Device,
        "io-uring" => Transport::IoUring,
        "fuser" => Transport::Fuser,
        other => panic!("there is no transport `{other}`"),
    };
    Options {
        transport,
        ..Options::default()
    }
}

pub fn guard(project: &Path, session: &SessionDir) -> Guard {
    let (gate, overlay) = overlay(project, session);
    Guard::new(overlay, gate, "test".into())
}

fn overlay(project: &Path, session: &SessionDir) -> (Arc<Gate>, Overlay) {
    let directory = session.journal();
    let journal = if fs::read_dir(&directory).unwrap().next().is_some() {
        checkpoint::resume_journal(session).unwrap()
    } else {
        Journal::create(&directory).unwrap()
    };
    let repository = if project.join(".git").exists() {
        Repository::Present
    } else {
        Repository::Absent
    };
    let labeler = Labeler::embedded(repository).unwrap();
    let gate = Arc::new(Gate::open(
        Policy::builtin().unwrap(),
        labeler,
        Arc::new(journal),
    ));
    let project: OwnedFd = File::open(project).unwrap().into();
    let relocations = aegisfs::commit::relocations(session).unwrap();
    let overlay = Overlay::open(project, session, relocations, Arc::clone(&gate)).unwrap();
    (gate, overlay)
}

/// A little of everything.
pub fn furnish(project: &Path) {
    for name in ["a", "a/b", "a/b/c", "d", "empty"] {
        fs::create_dir(project.join(name)).unwrap();
    }
    for name in ["x", "a/x", "a/y", "a/b/x", "a/b/c/z", "d/y", "d/z"] {
        fs::write(
            project.join(name),
            format!("the host's {name}\n").repeat(20),
        )
        .unwrap();
    }
    fs::hard_link(project.join("x"), project.join("d/linked")).unwrap();
    std::os::unix::fs::symlink("a/x", project.join("s")).unwrap();
}

fn is_mounted(mnt: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| fs::metadata(path).map(|it| it.dev()).ok();
    device(mnt) != device(mnt.parent().unwrap())
}
