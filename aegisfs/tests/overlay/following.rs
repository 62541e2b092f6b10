//! The host edits its tree, and the mount shows it: with watches, and where none are left.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aegis_policies::journal::NodeId;
use aegisfs::guard::Guard;
use aegisfs::overlay::{KernelCache, Lookup};
use rustix::fs::{AtFlags, statat};

use super::bed::Bed;
use super::mounted::wait_until;

/// Every directory can be watched, one can, none can: what is seen is the same.
const BUDGETS: [usize; 3] = [1000, 1, 0];

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| error.kind().to_string())
}

/// Everything below a directory with what the kernel tells of it, as tools see it.
fn seen(top: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    let mut left = vec![top.to_owned()];
    while let Some(folder) = left.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(meta) = fs::symlink_metadata(&path) else {
                continue;
            };
            let what = if meta.is_dir() {
                left.push(path.clone());
                format!("{:o}", meta.mode())
            } else if meta.is_symlink() {
                format!("{:?}", fs::read_link(&path))
            } else {
                let (mode, size, mtime) = (meta.mode(), meta.size(), meta.mtime_nsec());
                format!("{mode:o} {size} {mtime} {}", text(&path))
            };
            all.insert(path.strip_prefix(top).unwrap().to_owned(), what);
        }
    }
    all
}

/// Names that are not there yet are asked for as well, so that the kernel remembers that.
fn warm(mnt: &Path) {
    seen(mnt);
    for name in [
        "new",
        "a/new",
        "made",
        "made/deep",
        "z",
        "a/b/c/new",
        "d/moved",
    ] {
        assert!(!mnt.join(name).exists());
    }
}

fn edit(host: &Path) {
    let at = |name: &str| host.join(name);
    fs::write(at("new"), "new").unwrap();
    fs::write(at("a/b/c/new"), "new").unwrap();
    fs::write(at("x"), "rewritten in place").unwrap();
    let mut file = OpenOptions::new().append(true).open(at("a/y")).unwrap();
    file.write_all(b"appended").unwrap();
    File::options()
        .write(true)
        .open(at("d/y"))
        .unwrap()
        .set_len(7)
        .unwrap();
    fs::set_permissions(at("a/b/x"), fs::Permissions::from_mode(0o751)).unwrap();
    fs::set_permissions(at("empty"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(at("d/tmp"), "replaced at once").unwrap();
    fs::rename(at("d/tmp"), at("d/z")).unwrap();
    fs::rename(at("a/x"), at("d/moved")).unwrap();
    fs::remove_file(at("s")).unwrap();
    symlink("elsewhere", at("s")).unwrap();
    fs::create_dir_all(at("made/deep/er")).unwrap();
    fs::write(at("made/deep/er/file"), "deep").unwrap();
    fs::rename(at("a/b"), at("z")).unwrap();
    fs::create_dir(at("a/b")).unwrap();
    fs::write(at("a/b/x"), "another directory").unwrap();
    fs::write(at("z/c/z"), "in a moved directory").unwrap();
}

/// Waits until the mount shows what the host has.
fn wait_for_the_same(mnt: &Path, host: &Path) {
    let until = Instant::now() + Duration::from_secs(20);
    while seen(mnt) != seen(host) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (shown, there) = (seen(mnt), seen(host));
    let differs = |(path, what): &(&PathBuf, &String)| there.get(*path) != Some(*what);
    let stale: Vec<_> = shown.iter().filter(differs).collect();
    let missing = there.keys().filter(|path| !shown.contains_key(*path));
    let missing: Vec<_> = missing.collect();
    assert!(
        stale.is_empty() && missing.is_empty(),
        "stale {stale:#?}, missing {missing:#?}"
    );
}

#[test]
fn every_change_of_the_host_is_seen() {
    for budget in BUDGETS {
        let mut bed = Bed::furnished().watching(budget);
        let mnt = bed.mount();
        warm(&mnt);
        edit(&bed.project());
        wait_for_the_same(&mnt, &bed.project());
        fs::remove_dir_all(bed.project().join("made")).unwrap();
        fs::remove_file(bed.project().join("d/z")).unwrap();
        fs::write(bed.project().join("z/c/z"), "once more").unwrap();
        wait_for_the_same(&mnt, &bed.project());
    }
}

#[test]
fn a_directory_that_the_session_moved_follows_the_host() {
    for budget in BUDGETS {
        let mut bed = Bed::furnished().watching(budget);
        let mnt = bed.mount();
        fs::rename(mnt.join("a"), mnt.join("mine")).unwrap();
        fs::rename(mnt.join("mine/b"), mnt.join("d/inner")).unwrap();
        seen(&mnt);
        assert!(!mnt.join("mine/new").exists() && !mnt.join("d/inner/new").exists());
        let host = bed.project();
        for name in ["a/x", "a/new", "a/b/x", "a/b/new", "a/b/c/z"] {
            fs::write(host.join(name), "theirs").unwrap();
        }
        fs::remove_file(host.join("a/y")).unwrap();
        let theirs = |name: &str| text(&mnt.join(name)) == "theirs";
        let names = [
            "mine/x",
            "mine/new",
            "d/inner/x",
            "d/inner/new",
            "d/inner/c/z",
        ];
        wait_until(|| names.into_iter().all(theirs) && !mnt.join("mine/y").exists());
        let listed = fs::read_dir(mnt.join("mine")).unwrap();
        let mut listed: Vec<_> = listed.map(|it| it.unwrap().file_name()).collect();
        listed.sort();
        assert_eq!(listed, ["new", "x"]);
    }
}

/// A process that stands in a directory goes with it, as on a plain file system.
#[test]
fn who_is_in_a_directory_follows_it() {
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    let inside = File::open(mnt.join("a/b")).unwrap();
    let exists =
        |folder: BorrowedFd<'_>, name: &str| statat(folder, name, AtFlags::empty()).is_ok();
    assert!(exists(inside.as_fd(), "x") && !exists(inside.as_fd(), "new"));
    fs::rename(bed.project().join("a"), bed.project().join("z")).unwrap();
    fs::write(bed.project().join("z/b/new"), "new").unwrap();
    wait_until(|| exists(inside.as_fd(), "new"));
    fs::remove_file(bed.project().join("z/b/x")).unwrap();
    wait_until(|| !exists(inside.as_fd(), "x"));
    wait_until(|| text(&mnt.join("z/b/new")) == "new");
}

/// To mount raises no event of the directory that is covered.
#[test]
fn what_the_host_mounts_inside_is_seen() {
    use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
    let mut bed = Bed::furnished();
    let (mnt, volume) = (bed.mount(), bed.project().join("d"));
    assert!(mnt.join("d/y").exists() && !mnt.join("d/inside").exists());
    let mounted = mount(
        "tmpfs",
        &volume,
        "tmpfs",
        MountFlags::empty(),
        Some(c"size=1m"),
    );
    if mounted.is_err() {
        return;
    }
    fs::write(volume.join("inside"), "inside").unwrap();
    wait_until(|| text(&mnt.join("d/inside")) == "inside" && !mnt.join("d/y").exists());
    unmount(&volume, UnmountFlags::DETACH).unwrap();
    wait_until(|| mnt.join("d/y").exists() && !mnt.join("d/inside").exists());
}

/// Nothing is waited for here: who opens a file after the host has changed it reads what is there.
#[test]
fn an_opened_file_is_never_stale() {
    for budget in BUDGETS {
        let mut bed = Bed::furnished().watching(budget);
        let (shown, host) = (bed.mount().join("x"), bed.project().join("x"));
        for round in 0..200_usize {
            let (shown_now, host_now) = (fs::read(&shown).unwrap(), fs::read(&host).unwrap());
            assert_eq!(shown_now, host_now, "round {round}, {budget} watches");
            let file = File::options().write(true).open(&host).unwrap();
            file.set_len(100 + (round as u64 * 37) % 9000).unwrap();
            file.write_all_at(format!("{round:08}").as_bytes(), 40)
                .unwrap();
        }
    }
}

/// inotify(7): a store through a mapping raises no event.
#[test]
fn a_store_that_raises_no_event_is_read_after_open() {
    let mut bed = Bed::furnished();
    let (shown, host) = (bed.mount().join("x"), bed.project().join("x"));
    for round in 0..5 {
        assert_eq!(
            fs::read(&shown).unwrap(),
            fs::read(&host).unwrap(),
            "{round}"
        );
        let store = format!(
            "import mmap, sys\nf = open(sys.argv[1], 'r+b')\n\
             m = mmap.mmap(f.fileno(), 0)\nm[0:5] = b'{round:05}'\nm.flush()"
        );
        let mut python = Command::new("python3");
        let done = python.arg("-c").arg(store).arg(&host).status().unwrap();
        assert!(done.success());
    }
}

#[test]
fn watches_are_bounded_and_given_back() {
    let bed = Bed::new().watching(20);
    for number in 0..50 {
        fs::create_dir_all(bed.project().join(format!("{number}/inner"))).unwrap();
    }
    let guard = bed.guard();
    let kernel = Arc::new(Recorder::default());
    guard.overlay().attach_kernel(kernel);
    let nodes: Vec<_> = (0..50)
        .map(|number| find(&guard, &[&number.to_string()]))
        .collect();
    assert_eq!(guard.overlay().watched().folders, 20);
    for node in nodes {
        guard.forget(node, 1);
    }
    assert_eq!(guard.overlay().watched().folders, 1, "the root stays");
}

/// A change makes the kernel forget what it is about, and nothing else.
#[test]
fn only_what_changed_is_forgotten() {
    let bed = Bed::furnished();
    let guard = bed.guard();
    let kernel = Arc::new(Recorder::default());
    guard.overlay().attach_kernel(kernel.clone());
    let root = guard.overlay().root();
    let (a, d) = (find(&guard, &["a"]), find(&guard, &["d"]));
    let (x, y) = (find(&guard, &["a", "x"]), find(&guard, &["d", "y"]));
    fs::write(bed.project().join("d/y"), "changed").unwrap();
    wait_until(|| kernel.told().contains(&Told::Node(y)));
    fs::remove_file(bed.project().join("d/y")).unwrap();
    wait_until(|| kernel.told().contains(&Told::Name(d, "y".into())));
    for told in kernel.told() {
        assert!(
            ![root, a, x].iter().any(|id| told.is_about(*id)),
            "{told:?}"
        );
    }
}

/// More events than the kernel queues (`fs.inotify.max_queued_events`) at once: everything is
/// forgotten.
#[test]
fn what_was_lost_makes_the_kernel_ask_for_everything() {
    let bed = Bed::furnished();
    let guard = bed.guard();
    let kernel = Arc::new(Recorder::default());
    guard.overlay().attach_kernel(kernel.clone());
    let x = find(&guard, &["a", "x"]);
    let before = kernel.everything();
    // The thread that follows waits here while the queue fills.
    let held = kernel.hold();
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    if limit > 100_000 {
        return;
    }
    // Two events each; the thread may have read a queue full before it came to wait.
    let (one, other) = (bed.project().join("a/x"), bed.project().join("a/z"));
    for _ in 0..limit + 100 {
        fs::rename(&one, &other).unwrap();
        fs::rename(&other, &one).unwrap();
    }
    drop(held);
    wait_until(|| kernel.everything() > before && kernel.told().contains(&Told::Node(x)));
}

/// Prints how long a change of the host takes to be seen; the kernel remembers the old state.
#[test]
#[ignore = "a measurement"]
fn how_long_a_change_takes() {
    let mut bed = Bed::furnished();
    let (mnt, host) = (bed.mount(), bed.project());
    let mut times = BTreeMap::<&str, Vec<Duration>>::new();
    let measure = |change: &dyn Fn(), holds: &dyn Fn() -> bool| {
        assert!(!holds());
        std::thread::sleep(Duration::from_millis(5));
        let since = Instant::now();
        change();
        while !holds() {
            std::hint::spin_loop();
        }
        since.elapsed()
    };
    for round in 0..300 {
        let name = format!("a/new-{round}");
        let made = measure(&|| drop(File::create(host.join(&name))), &|| {
            mnt.join(&name).exists()
        });
        times.entry("made").or_default().push(made);
        let size = 10 + round;
        let written = measure(
            &|| fs::write(host.join("a/x"), vec![0; size]).unwrap(),
            &|| fs::metadata(mnt.join("a/x")).unwrap().len() == size as u64,
        );
        times.entry("written").or_default().push(written);
        let number = fs::metadata(mnt.join("d/z")).unwrap().ino();
        fs::write(host.join("tmp"), "new").unwrap();
        let replaced = measure(
            &|| fs::rename(host.join("tmp"), host.join("d/z")).unwrap(),
            &|| fs::metadata(mnt.join("d/z")).unwrap().ino() != number,
        );
        times.entry("replaced").or_default().push(replaced);
        let removed = measure(&|| fs::remove_file(host.join(&name)).unwrap(), &|| {
            !mnt.join(&name).exists()
        });
        times.entry("removed").or_default().push(removed);
    }
    for (what, mut times) in times {
        times.sort();
        let at = |part: usize| times[(times.len() - 1) * part / 100];
        println!(
            "{what}: median {:?}, 95 % {:?}, worst {:?}",
            at(50),
            at(95),
            at(100)
        );
    }
}

fn find(guard: &Guard, names: &[&str]) -> NodeId {
    names.iter().fold(guard.overlay().root(), |folder, name| {
        match guard.lookup(folder, name.as_bytes()).unwrap() {
            Lookup::Found(entry) => entry.attr.node,
            Lookup::Missing { .. } => panic!("{name} is missing"),
        }
    })
}

/// A kernel that notes what it is told.
#[derive(Debug, Default)]
struct Recorder {
    told: Mutex<Vec<Told>>,
    everything: Mutex<usize>,
    held: Mutex<()>,
}

#[derive(Clone, Debug, PartialEq)]
enum Told {
    Name(NodeId, Box<str>),
    Node(NodeId),
}

impl Told {
    fn is_about(&self, id: NodeId) -> bool {
        matches!(self, Self::Name(node, _) | Self::Node(node) if *node == id)
    }
}

impl Recorder {
    fn told(&self) -> Vec<Told> {
        self.told.lock().unwrap().clone()
    }

    fn everything(&self) -> usize {
        *self.everything.lock().unwrap()
    }

    fn hold(&self) -> std::sync::MutexGuard<'_, ()> {
        self.held.lock().unwrap()
    }

    fn tell(&self, told: Told) {
        drop(self.held.lock().unwrap());
        self.told.lock().unwrap().push(told);
    }
}

impl KernelCache for Recorder {
    fn forget_name(&self, parent: NodeId, name: &[u8]) {
        self.tell(Told::Name(parent, String::from_utf8_lossy(name).into()));
    }

    fn forget_node(&self, id: NodeId) {
        self.tell(Told::Node(id));
    }

    fn forget_attributes(&self, _: NodeId) {}

    fn forget_all(&self) -> bool {
        *self.everything.lock().unwrap() += 1;
        true
    }
}
