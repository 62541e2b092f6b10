//! Sixteen processes at once on one tree. Each keeps in mind what its own files hold and compares;
//! all share a counter behind a lock, a log that everybody appends to, and a few names in dispute.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, RenameFlags, flock, renameat_with};
use sha2::{Digest, Sha256};

use super::super::bed::Bed;

const WORKERS: u64 = 16;
const FILES: u64 = 24;
const LARGEST: u64 = 96 << 10;

/// 8 seconds, or `AEGISFS_STRESS` of them.
fn lasting() -> Duration {
    let seconds = std::env::var("AEGISFS_STRESS").ok();
    Duration::from_secs(seconds.and_then(|it| it.parse().ok()).unwrap_or(8))
}

#[test]
fn sixteen_processes_lose_nothing() {
    let mut bed = Bed::new();
    let project = bed.project();
    for worker in 0..WORKERS {
        let own = project.join(format!("w{worker}"));
        fs::create_dir(&own).unwrap();
        for number in 0..FILES {
            fs::write(
                own.join(format!("f{number}")),
                lower_content(worker, number),
            )
            .unwrap();
        }
    }
    for folder in ["shared", "shared/p0", "shared/p1"] {
        fs::create_dir(project.join(folder)).unwrap();
    }
    fs::write(project.join("shared/counter"), "0").unwrap();
    fs::write(project.join("shared/log"), "").unwrap();
    let mnt = bed.mount();
    let children: Vec<_> = (0..WORKERS).map(|worker| start(&mnt, worker)).collect();
    let ends: Vec<_> = children
        .into_iter()
        .map(|child| child.wait_with_output())
        .collect();
    let ends: Vec<String> = ends
        .into_iter()
        .map(|end| {
            let end = end.unwrap();
            let errors = String::from_utf8_lossy(&end.stderr).into_owned();
            assert!(end.status.success(), "{errors}");
            String::from_utf8(end.stdout).unwrap()
        })
        .collect();
    for _ in 0..2 {
        for end in &ends {
            check_own(&mnt, end);
        }
        check_shared(&mnt, &ends);
        bed.remount();
    }
    let operations: u64 = ends.iter().map(|end| told(end, "operations")).sum();
    println!("{operations} operations in {:?}", lasting());
}

fn start(mnt: &Path, worker: u64) -> Child {
    Command::new("/proc/self/exe")
        .args([
            "overlay::semantics::stress::worker",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env("AEGISFS_MNT", mnt)
        .env("AEGISFS_WORKER", worker.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Every file that a worker said it has is there and holds what it said, and nothing else is.
fn check_own(mnt: &Path, end: &str) {
    let mut folders = BTreeMap::new();
    for line in end.lines() {
        let Some(("FILE", rest)) = line.split_once(' ') else {
            continue;
        };
        let (hash, path) = rest.split_once(' ').unwrap();
        let bytes = fs::read(mnt.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(hex(&bytes), hash, "{path}");
        let (folder, _) = path.rsplit_once('/').unwrap();
        *folders.entry(folder.to_owned()).or_insert(0) += 1;
    }
    for (folder, count) in folders.iter().filter(|(folder, _)| *folder != "shared") {
        assert_eq!(
            fs::read_dir(mnt.join(folder)).unwrap().count(),
            *count,
            "{folder}"
        );
    }
}

fn check_shared(mnt: &Path, ends: &[String]) {
    let counted: u64 = ends.iter().map(|end| told(end, "counted")).sum();
    let counter = fs::read_to_string(mnt.join("shared/counter")).unwrap();
    assert_eq!(counter.parse(), Ok(counted));
    let log = fs::read_to_string(mnt.join("shared/log")).unwrap();
    let mut lines = BTreeMap::new();
    for line in log.lines() {
        let (who, rest) = line.split_once(' ').unwrap();
        assert_eq!(rest.len(), 100, "{line}");
        *lines.entry(who.to_owned()).or_insert(0) += 1;
    }
    for (worker, end) in ends.iter().enumerate() {
        let found = lines.get(&worker.to_string()).copied().unwrap_or(0);
        assert_eq!(found, told(end, "logged"), "lines of {worker}");
    }
}

fn told(end: &str, what: &str) -> u64 {
    let value = end.lines().find_map(|line| line.strip_prefix(what));
    value.unwrap().trim().parse().unwrap()
}

fn lower_content(worker: u64, number: u64) -> Vec<u8> {
    format!("lower {worker} {number} ").repeat(300).into_bytes()
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// xorshift64*: a sequence that a failure can be traced with.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        let (length, byte) = (self.roll(most), self.roll(256) as u8);
        (0..length)
            .map(|at| byte.wrapping_add((at % 251) as u8))
            .collect()
    }
}

/// One worker: what it did, and what its files must hold.
struct Worker {
    mnt: PathBuf,
    number: u64,
    dice: Dice,
    /// By the path on the mount.
    files: BTreeMap<String, Vec<u8>>,
    /// Where its own directory is now.
    home: String,
    counted: u64,
    logged: u64,
    made: u64,
}

#[test]
#[ignore = "started by another test as a process of its own"]
fn worker() {
    let number: u64 = std::env::var("AEGISFS_WORKER").unwrap().parse().unwrap();
    let mnt = PathBuf::from(std::env::var_os("AEGISFS_MNT").unwrap());
    let home = format!("w{number}");
    let own = |file| (format!("{home}/f{file}"), lower_content(number, file));
    let mut worker = Worker {
        files: (0..FILES).map(own).collect(),
        home: home.clone(),
        dice: Dice(number * 7919 + 1),
        counted: 0,
        logged: 0,
        made: 0,
        mnt,
        number,
    };
    let until = Instant::now() + lasting();
    let mut operations = 0_u64;
    while Instant::now() < until {
        worker.step();
        operations += 1;
        if operations.is_multiple_of(200) {
            worker.compare();
        }
    }
    worker.compare();
    println!(
        "\noperations {operations}\ncounted {}\nlogged {}",
        worker.counted, worker.logged
    );
    for (path, bytes) in &worker.files {
        println!("FILE {} {path}", hex(bytes));
    }
}

impl Worker {
    fn step(&mut self) {
        match self.dice.roll(14) {
            0 => self.make(),
            1..4 => self.write(),
            4 => self.cut(),
            5 => self.replace(),
            6 => self.remove(),
            7 => self.link(),
            8 => self.move_home(),
            9 => self.map(),
            10 => self.count(),
            11 => self.log(),
            12 => self.dispute(),
            _ => self.look(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.mnt.join(name)
    }

    fn any(&mut self) -> Option<String> {
        let at = self.dice.roll(self.files.len().max(1) as u64);
        self.files.keys().nth(usize::try_from(at).unwrap()).cloned()
    }

    fn make(&mut self) {
        if self.files.len() as u64 > 2 * FILES {
            return;
        }
        self.made += 1;
        let name = format!("{}/n{}", self.home, self.made);
        let bytes = self.dice.bytes(LARGEST);
        let mut file = File::create_new(self.path(&name)).unwrap();
        file.write_all(&bytes).unwrap();
        self.files.insert(name, bytes);
    }

    fn write(&mut self) {
        let Some(name) = self.any() else { return };
        let (offset, bytes) = (self.dice.roll(LARGEST), self.dice.bytes(9000));
        let file = OpenOptions::new()
            .write(true)
            .open(self.path(&name))
            .unwrap();
        file.write_all_at(&bytes, offset).unwrap();
        if bytes.is_empty() {
            return;
        }
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        let content = self.files.get_mut(&name).unwrap();
        content.resize(content.len().max(end), 0);
        content[start..end].copy_from_slice(&bytes);
    }

    fn cut(&mut self) {
        let Some(name) = self.any() else { return };
        let size = self.dice.roll(LARGEST);
        let file = OpenOptions::new()
            .write(true)
            .open(self.path(&name))
            .unwrap();
        file.set_len(size).unwrap();
        self.files.get_mut(&name).unwrap().resize(size as usize, 0);
    }

    /// As editors do: a new file takes the old one's name.
    fn replace(&mut self) {
        let Some(name) = self.any() else { return };
        let bytes = self.dice.bytes(LARGEST);
        let part = format!("{}/part", self.home);
        fs::write(self.path(&part), &bytes).unwrap();
        fs::rename(self.path(&part), self.path(&name)).unwrap();
        self.files.insert(name, bytes);
    }

    fn remove(&mut self) {
        if (self.files.len() as u64) < FILES / 2 {
            return;
        }
        let Some(name) = self.any() else { return };
        fs::remove_file(self.path(&name)).unwrap();
        self.files.remove(&name);
    }

    /// A second name in the shared directory, looked at, and gone again.
    fn link(&mut self) {
        let Some(name) = self.any() else { return };
        let other = self.path(&format!("shared/l{}", self.number));
        if let Err(error) = fs::hard_link(self.path(&name), &other) {
            // The kernel's client takes a name off twice when another process is told the attributes
            // while the name goes (`fuse_entry_unlinked`), until somebody asks for them again.
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
            assert_eq!(fs::metadata(self.path(&name)).unwrap().nlink(), 1);
            fs::hard_link(self.path(&name), &other).unwrap();
        }
        assert!(
            fs::read(&other).unwrap() == self.files[&name],
            "{name} by its link"
        );
        fs::remove_file(other).unwrap();
    }

    /// The whole directory moves between shared ones.
    fn move_home(&mut self) {
        let parent = ["", "shared/p0/", "shared/p1/"][self.dice.roll(3) as usize];
        let home = format!("{parent}w{}", self.number);
        if home == self.home {
            return;
        }
        fs::rename(self.path(&self.home), self.path(&home)).unwrap();
        let moved = std::mem::take(&mut self.files).into_iter();
        let name = |old: String| format!("{home}{}", &old[self.home.len()..]);
        self.files = moved.map(|(old, bytes)| (name(old), bytes)).collect();
        self.home = home;
    }

    /// Another process writes through a mapping.
    fn map(&mut self) {
        if self.dice.roll(20) > 0 {
            return;
        }
        let Some(name) = self.any() else { return };
        let bytes = self.files.get_mut(&name).unwrap();
        if bytes.len() < 100 {
            return;
        }
        let script = "import mmap,sys\nf=open(sys.argv[1],'r+b')\nm=mmap.mmap(f.fileno(),0)\nm[50:56]=b'MAPPED'";
        let ended = Command::new("python3")
            .args(["-c", script])
            .arg(self.mnt.join(&name))
            .status();
        assert!(ended.unwrap().success(), "{name}");
        bytes[50..56].copy_from_slice(b"MAPPED");
    }

    fn count(&mut self) {
        let path = self.path("shared/counter");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .unwrap();
        flock(&file, FlockOperation::LockExclusive).unwrap();
        let mut text = [0; 20];
        let length = file.read_at(&mut text, 0).unwrap();
        let value: u64 = std::str::from_utf8(&text[..length])
            .unwrap()
            .parse()
            .unwrap();
        file.write_all_at((value + 1).to_string().as_bytes(), 0)
            .unwrap();
        self.counted += 1;
    }

    fn log(&mut self) {
        let mut file = OpenOptions::new()
            .append(true)
            .open(self.path("shared/log"))
            .unwrap();
        let line = format!("{} {}\n", self.number, "-".repeat(100));
        file.write_all(line.as_bytes()).unwrap();
        self.logged += 1;
    }

    /// Names that everybody makes, moves, exchanges and removes; only some of it can succeed.
    fn dispute(&mut self) {
        let name = |dice: &mut Dice| format!("shared/d{}", dice.roll(4));
        let (one, two) = (name(&mut self.dice), name(&mut self.dice));
        let (one, two) = (self.path(&one), self.path(&two));
        let here = rustix::fs::CWD;
        let _ = match self.dice.roll(6) {
            0 => File::create_new(&one).map(drop),
            1 => fs::create_dir(&one),
            2 => fs::rename(&one, &two),
            3 => renameat_with(here, &one, here, &two, RenameFlags::EXCHANGE).map_err(Into::into),
            4 => fs::remove_file(&one).or_else(|_| fs::remove_dir(&one)),
            _ => fs::hard_link(&one, &two),
        };
    }

    /// Somebody else's directory, as far as it can be seen.
    fn look(&mut self) {
        let folder = ["shared", "shared/p0", "shared/p1", "."][self.dice.roll(4) as usize];
        for entry in fs::read_dir(self.path(folder)).unwrap().flatten() {
            let _ = entry.metadata();
        }
    }

    fn compare(&self) {
        for (name, bytes) in &self.files {
            let found = fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(found.len(), bytes.len(), "{name}");
            let differs = found.iter().zip(bytes).position(|(one, two)| one != two);
            assert_eq!(differs, None, "{name}");
        }
    }
}
