//! Partial files against a plain vector of bytes.

use std::fs::{self, File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aegis_policies::RelPath;
use proptest::prelude::*;
use rustix::fs::{FallocateFlags, fstat};
use rustix::io::Errno;

use super::shelf::map_name;
use super::{Blocks, Body, read_content};
use crate::overlay::attr::Stat;
use crate::sys::lease;
use soak::soak;

#[path = "../../../tests/overlay/soak.rs"]
mod soak;

const PAGE: u64 = 4096;
const SIZE: u64 = 20 * PAGE + 1000;
const PUNCH: FallocateFlags = FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);

/// A folder of contents, and a file of the host's.
struct Bed {
    root: tempfile::TempDir,
    blocks: Option<Blocks>,
}

impl Bed {
    fn new(host: &[u8]) -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("content")).unwrap();
        fs::write(root.path().join("host"), host).unwrap();
        let mut bed = Self { root, blocks: None };
        bed.start();
        bed
    }

    fn start(&mut self) {
        let blocks = Blocks::new(self.folder());
        let host = self.host();
        blocks.resume(&|_| Ok(File::open(&host).unwrap())).unwrap();
        self.blocks = Some(blocks);
    }

    fn restart(&mut self) {
        self.blocks = None;
        self.start();
    }

    fn blocks(&self) -> &Blocks {
        self.blocks.as_ref().unwrap()
    }

    fn folder(&self) -> OwnedFd {
        File::open(self.root.path().join("content")).unwrap().into()
    }

    fn host(&self) -> PathBuf {
        self.root.path().join("host")
    }

    fn content(&self, name: &str) -> PathBuf {
        self.root.path().join("content").join(name)
    }

    fn make(&self, name: &str) -> File {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        options.open(self.content(name)).unwrap()
    }

    fn open(&self, name: &str) -> Body {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).open(self.content(name));
        self.blocks().body(name, file.unwrap()).unwrap()
    }

    /// Content over the host's file.
    fn over_host(&self, name: &str, limit: u64) -> Body {
        let lower = Arc::new(File::open(self.host()).unwrap());
        assert!(self.blocks().lease(&lower));
        let version = Stat::from(fstat(&*lower).unwrap()).version();
        let below = (lower, RelPath::parse(b"host").unwrap());
        let made = self
            .blocks()
            .over_host(name, self.make(name), below, version, limit);
        made.unwrap()
    }

    /// Content over that of another name.
    fn over(&self, name: &str, older: &str) -> Body {
        let body = self.open(older);
        let limit = body.stat().unwrap().size;
        let below = (older, body);
        let made = self
            .blocks()
            .over_older(name, self.make(name), below, limit);
        made.unwrap()
    }

    /// What a reader without the server sees.
    fn seen(&self, name: &str) -> Result<Vec<u8>, Errno> {
        let host = self.host();
        let body = read_content(&self.folder(), name, &|_| Ok(File::open(&host).unwrap()))?;
        all(&body)
    }

    fn has_map(&self, name: &str) -> bool {
        self.content(&map_name(name)).exists()
    }
}

fn all(body: &Body) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0xee; usize::try_from(body.stat()?.size).unwrap() + 10];
    let read = body.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

fn pattern(size: u64) -> Vec<u8> {
    (0..size).map(|at| (at % 251) as u8 + 1).collect()
}

fn wait_until(done: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < until, "it does not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[derive(Clone, Debug)]
enum Op {
    Write(u64, Vec<u8>),
    Truncate(u64),
    Punch(u64, u64),
    Zero(u64, u64),
    Allocate(u64, u64),
    Copy(u64, u64, usize),
    Sync,
    Fill,
    Restart,
    Fork,
}

fn op() -> impl Strategy<Value = Op> {
    let at = || 0..SIZE + 3 * PAGE;
    let aligned = || (0..24_u64).prop_map(|page| page * PAGE);
    let place = move || prop_oneof![2 => at(), 1 => aligned()];
    let length =
        || prop_oneof![3 => 1..200_u64, 2 => 1..3 * PAGE, 1 => Just(PAGE), 1 => Just(2 * PAGE)];
    let data = (any::<u8>(), length())
        .prop_map(|(byte, length)| vec![byte; usize::try_from(length).unwrap()]);
    prop_oneof![
        8 => (place(), data).prop_map(|(at, data)| Op::Write(at, data)),
        3 => place().prop_map(Op::Truncate),
        3 => (place(), length()).prop_map(|(at, length)| Op::Punch(at, length)),
        1 => (place(), length()).prop_map(|(at, length)| Op::Zero(at, length)),
        1 => (place(), length()).prop_map(|(at, length)| Op::Allocate(at, length)),
        2 => (place(), place(), 1..3 * PAGE as usize).prop_map(|(from, to, n)| Op::Copy(from, to, n)),
        1 => Just(Op::Sync),
        1 => Just(Op::Fill),
        2 => Just(Op::Restart),
        2 => Just(Op::Fork),
    ]
}

/// The same on a vector.
fn apply(model: &mut Vec<u8>, op: &Op) {
    let index = |at: u64| usize::try_from(at).unwrap();
    let put = |model: &mut Vec<u8>, at: usize, data: &[u8]| {
        model.resize(model.len().max(at + data.len()), 0);
        model[at..at + data.len()].copy_from_slice(data);
    };
    match op {
        Op::Write(at, data) => put(model, index(*at), data),
        Op::Truncate(size) => model.resize(index(*size), 0),
        Op::Punch(at, length) => {
            let end = index(at + length).min(model.len());
            let from = index(*at).min(end);
            model[from..end].fill(0);
        }
        Op::Zero(at, length) => put(model, index(*at), &vec![0; index(*length)]),
        Op::Allocate(at, length) => model.resize(model.len().max(index(at + length)), 0),
        Op::Copy(from, to, length) => {
            let end = (index(*from) + length).min(model.len());
            let bytes = model[index(*from).min(end)..end].to_vec();
            if !bytes.is_empty() {
                put(model, index(*to), &bytes);
            }
        }
        _ => {}
    }
}

fn run(bed: &mut Bed, names: &mut Vec<String>, op: &Op) {
    let name = names.last().unwrap().clone();
    let body = bed.open(&name);
    match op {
        Op::Write(at, data) => body.write_at(data, *at).unwrap(),
        Op::Truncate(size) => body.truncate(*size).unwrap(),
        Op::Punch(at, length) => body.allocate(PUNCH, *at, *length).unwrap(),
        Op::Zero(at, length) => body
            .allocate(FallocateFlags::ZERO_RANGE, *at, *length)
            .unwrap(),
        Op::Allocate(at, length) => body
            .allocate(FallocateFlags::empty(), *at, *length)
            .unwrap(),
        Op::Copy(from, to, length) => {
            let mut bytes = vec![0; *length];
            let read = body.read_at(&mut bytes, *from).unwrap();
            body.write_at(&bytes[..read], *to).unwrap();
        }
        Op::Sync => body.sync().unwrap(),
        Op::Fill => {
            if let Body::Partial(partial) = &body {
                partial.fill().unwrap();
            }
        }
        Op::Restart => {
            drop(body);
            bed.restart();
        }
        Op::Fork => {
            let next = format!("a.{}", names.len());
            if names.len() < 10 && body.stat().unwrap().size > 0 {
                bed.over(&next, &name);
                names.push(next);
            }
        }
    }
}

/// Data and holes are told as a plain file would: everything that is not zero is data, and the
/// answers lead to the end.
fn check_holes(body: &Body, model: &[u8]) {
    let end = model.len() as u64;
    let mut at = 0;
    while at < end {
        let data = body.next_data(at, end);
        let gap = &model[usize::try_from(at).unwrap()..usize::try_from(data).unwrap()];
        assert!(
            gap.iter().all(|byte| *byte == 0),
            "data in the hole at {at}"
        );
        let hole = body.next_hole(data, end);
        assert!(hole > data || data == end);
        at = hole.max(data);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(soak(60)))]

    #[test]
    fn a_partial_file_is_as_a_whole_one(
        holes in proptest::collection::vec(0..21_u64, 0..6),
        ops in proptest::collection::vec(op(), 1..40),
        keep in prop_oneof![3 => Just(SIZE), 1 => 1..SIZE],
    ) {
        let mut bed = Bed::new(&pattern(SIZE));
        let mut model = pattern(SIZE);
        let lower = OpenOptions::new().write(true).open(bed.host()).unwrap();
        for hole in &holes {
            rustix::fs::fallocate(&lower, PUNCH, hole * PAGE, PAGE).unwrap();
            apply(&mut model, &Op::Punch(hole * PAGE, PAGE));
        }
        drop(lower);
        model.truncate(usize::try_from(keep).unwrap());
        bed.over_host("a", keep);
        let mut names = vec!["a".to_owned()];
        let mut kept = Vec::new();
        for op in &ops {
            if matches!(op, Op::Fork) && names.len() < 10 && !model.is_empty() {
                kept.push((names.last().unwrap().clone(), model.clone()));
            }
            apply(&mut model, op);
            run(&mut bed, &mut names, op);
            let name = names.last().unwrap();
            let body = bed.open(name);
            prop_assert_eq!(body.stat().unwrap().size, model.len() as u64, "{:?}", op);
            prop_assert!(all(&body).unwrap() == model, "{:?}", op);
            prop_assert!(bed.seen(name).unwrap() == model, "{:?}", op);
            check_holes(&body, &model);
        }
        drop(OpenOptions::new().write(true).open(bed.host()).unwrap());
        fs::write(bed.host(), "another").unwrap();
        let name = names.last().unwrap().clone();
        prop_assert!(all(&bed.open(&name)).unwrap() == model, "after the host wrote");
        for (name, model) in kept.iter().filter(|(kept, _)| *kept != name) {
            prop_assert!(all(&bed.open(name)).unwrap() == *model, "an older generation changed");
        }
        bed.restart();
        prop_assert!(all(&bed.open(&name)).unwrap() == model, "after a restart");
    }
}

#[test]
fn a_write_takes_one_block_and_no_more() {
    let bed = Bed::new(&pattern(1 << 20));
    let body = bed.over_host("a", 1 << 20);
    body.write_at(b"x", 500_000).unwrap();
    let here = Stat::from(fstat(&**body.file()).unwrap()).blocks * 512;
    assert_eq!(here, PAGE);
    // What is shown is the whole file's.
    assert_eq!(body.stat().unwrap().blocks * 512, 1 << 20);
}

#[test]
fn the_hosts_writer_waits_until_the_rest_is_there() {
    let bed = Bed::new(&pattern(SIZE));
    let body = bed.over_host("a", SIZE);
    body.write_at(b"ours", 5000).unwrap();
    let mut model = pattern(SIZE);
    apply(&mut model, &Op::Write(5000, b"ours".to_vec()));
    // The keeper lets this go on only when nothing is left below.
    let host = OpenOptions::new().write(true).open(bed.host()).unwrap();
    host.write_all_at(&vec![b'h'; 50_000], 0).unwrap();
    assert!(all(&body).unwrap() == model);
    wait_until(|| !bed.has_map("a"));
    assert!(matches!(bed.open("a"), Body::Whole(_)));
    assert!(fs::read(bed.content("a")).unwrap() == model);
}

#[test]
fn what_the_host_changed_while_nobody_looked_is_lost_and_says_so() {
    let mut bed = Bed::new(&pattern(SIZE));
    bed.over_host("a", SIZE).write_at(b"ours", 5000).unwrap();
    bed.blocks = None;
    let host = OpenOptions::new().write(true).open(bed.host()).unwrap();
    host.write_all_at(b"host", 70_000).unwrap();
    assert_eq!(bed.seen("a"), Err(Errno::IO));
    bed.start();
    let body = bed.open("a");
    let mut bytes = [0; 4];
    assert_eq!(body.read_at(&mut bytes, 5000), Ok(4));
    assert_eq!(&bytes, b"ours");
    assert_eq!(body.read_at(&mut bytes, 70_000), Err(Errno::IO));
    assert_eq!(body.write_at(b"edge", 70_000), Err(Errno::IO));
    // A whole block needs nothing from below.
    body.write_at(&[7; 4096], 69_632).unwrap();
    assert_eq!(body.read_at(&mut bytes, 70_000), Ok(4));
    assert_eq!(bytes, [7; 4]);
    // Nor does a file that is cut down to what is there.
    body.truncate(0).unwrap();
    assert_eq!(all(&body), Ok(Vec::new()));
}

/// What shows from older content that is torn is what is left of that.
#[test]
fn newer_content_over_a_torn_one_has_what_is_left() {
    let mut bed = Bed::new(&pattern(SIZE));
    bed.over_host("a", SIZE).write_at(b"ours", 5000).unwrap();
    bed.over("a.1", "a").write_at(b"next", 50_000).unwrap();
    bed.blocks = None;
    let host = OpenOptions::new().write(true).open(bed.host()).unwrap();
    host.write_all_at(b"host", 70_000).unwrap();
    bed.start();
    let body = bed.open("a.1");
    assert!(matches!(&body, Body::Partial(partial) if partial.is_torn()));
    let mut bytes = [0; 4];
    for (at, text) in [(5000, b"ours"), (50_000, b"next")] {
        assert_eq!(body.read_at(&mut bytes, at), Ok(4));
        assert_eq!(&bytes, text);
    }
    assert_eq!(body.read_at(&mut bytes, 70_000), Err(Errno::IO));
}

#[test]
fn content_that_shows_in_newer_content_outlives_its_removal() {
    let mut bed = Bed::new(&pattern(SIZE));
    let mut model = pattern(SIZE);
    bed.over_host("a", SIZE).write_at(b"ours", 5000).unwrap();
    bed.over("a.1", "a").write_at(b"next", 50_000).unwrap();
    apply(&mut model, &Op::Write(5000, b"ours".to_vec()));
    apply(&mut model, &Op::Write(50_000, b"next".to_vec()));
    bed.blocks().remove("a");
    bed.restart();
    let body = bed.open("a.1");
    assert!(all(&body).unwrap() == model);
    bed.blocks().remove("a");
    let Body::Partial(partial) = &body else {
        panic!("it is not partial");
    };
    partial.fill().unwrap();
    wait_until(|| !bed.content("a").exists() && !bed.has_map("a") && !bed.has_map("a.1"));
    assert!(fs::read(bed.content("a.1")).unwrap() == model);
}

#[test]
fn a_change_of_attributes_is_no_change_of_content() {
    let mut bed = Bed::new(&pattern(SIZE));
    let body = bed.over_host("a", SIZE);
    body.write_at(b"ours", 5000).unwrap();
    drop(body);
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::Permissions::from_mode(0o600);
    File::open(bed.host())
        .unwrap()
        .set_permissions(mode)
        .unwrap();
    bed.restart();
    let mut model = pattern(SIZE);
    apply(&mut model, &Op::Write(5000, b"ours".to_vec()));
    assert!(all(&bed.open("a")).unwrap() == model);
}

#[test]
fn a_replaced_file_of_the_hosts_stays_readable_while_it_is_held() {
    let bed = Bed::new(&pattern(SIZE));
    let body = bed.over_host("a", SIZE);
    fs::write(bed.root.path().join("new"), "new").unwrap();
    rustix::fs::rename(bed.root.path().join("new"), bed.host()).unwrap();
    body.write_at(b"ours", 5000).unwrap();
    let mut model = pattern(SIZE);
    apply(&mut model, &Op::Write(5000, b"ours".to_vec()));
    assert!(all(&body).unwrap() == model);
}

#[test]
fn blocks_that_a_power_failure_took_are_taken_from_below_again() {
    let mut bed = Bed::new(&pattern(SIZE));
    let body = bed.over_host("a", SIZE);
    body.write_at(&[b'x'; 4096], 2 * PAGE).unwrap();
    body.write_at(&[b'y'; 4096], 4 * PAGE).unwrap();
    body.allocate(PUNCH, 6 * PAGE, PAGE).unwrap();
    drop(body);
    bed.blocks = None;
    let mut options = OpenOptions::new();
    let file = options.write(true).open(bed.content("a")).unwrap();
    rustix::fs::fallocate(&file, PUNCH, 2 * PAGE, PAGE).unwrap();
    let map = bed.content(&map_name("a"));
    let bytes = fs::read(&map).unwrap();
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    let mut header: serde_json::Value = serde_json::from_slice(&bytes[..end]).unwrap();
    header["boot"] = "an earlier one".into();
    // With the machine the numbers of devices may have changed.
    header["below"]["host"]["version"][0] = 12_345.into();
    let mut line = serde_json::to_vec(&header).unwrap();
    line.push(b'\n');
    options.open(&map).unwrap().write_all_at(&line, 0).unwrap();
    bed.start();
    let mut model = pattern(SIZE);
    apply(&mut model, &Op::Write(4 * PAGE, vec![b'y'; 4096]));
    apply(&mut model, &Op::Punch(6 * PAGE, PAGE));
    assert!(all(&bed.open("a")).unwrap() == model);
}

/// The kernel takes a lease away that is not given up in time; so does whoever stops the server for
/// that long. Bytes that were read from the host's file after that are not believed.
#[test]
fn a_lease_that_was_lost_is_noticed_with_the_next_read() {
    let bed = Bed::new(&pattern(SIZE));
    let body = bed.over_host("a", SIZE);
    let Body::Partial(partial) = &body else {
        panic!("it is not partial");
    };
    body.write_at(b"ours", 5000).unwrap();
    lease::release(partial.host().unwrap().file());
    let mut bytes = [0; 4];
    // Nobody wrote yet, so what is below is still right.
    body.read_at(&mut bytes, 70_000).unwrap();
    let host = OpenOptions::new().write(true).open(bed.host()).unwrap();
    host.write_all_at(b"HOST", 70_000).unwrap();
    let read = body.read_at(&mut bytes, 70_000);
    let model = &pattern(SIZE)[70_000..70_004];
    // The keeper may have been there first.
    assert!(read == Err(Errno::IO) || bytes == *model);
    assert_eq!(body.read_at(&mut bytes, 5000), Ok(4));
    assert_eq!(&bytes, b"ours");
    let mut page = vec![0; 4096];
    for at in (0..SIZE).step_by(4096) {
        if let Ok(read) = body.read_at(&mut page, at) {
            let whole = all_but_ours(&pattern(SIZE), at, read);
            assert!(page[..read] == whole[..], "mixed at {at}");
        }
    }
}

/// A reader that had the host's bytes in hand when the rest came up, and the host wrote, takes its
/// own copy instead, and gives nothing up.
#[test]
fn what_was_read_before_the_rest_came_up_is_read_again() {
    let bed = Bed::new(&pattern(SIZE));
    let body = bed.over_host("a", SIZE);
    let Body::Partial(partial) = &body else {
        panic!("it is not partial");
    };
    assert_eq!(partial.vouch(0, PAGE), Ok(true));
    let host = OpenOptions::new().write(true).open(bed.host()).unwrap();
    host.write_all_at(b"HOST", 0).unwrap();
    assert_eq!(partial.vouch(0, PAGE), Ok(false));
    assert!(!partial.is_torn() && all(&body).unwrap() == pattern(SIZE));
}

fn all_but_ours(model: &[u8], at: u64, length: usize) -> Vec<u8> {
    let mut model = model.to_vec();
    apply(&mut model, &Op::Write(5000, b"ours".to_vec()));
    let at = usize::try_from(at).unwrap();
    model[at..at + length].to_vec()
}

/// Readers and writers while the host wants its file back: nobody sees a mixture.
#[test]
fn readers_and_writers_race_with_the_host() {
    for round in 0..20 {
        let size = 2_000_000;
        let bed = Bed::new(&vec![b'h'; size]);
        let body = bed.over_host("a", size as u64);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let body = body.clone();
                scope.spawn(move || {
                    for step in 0..200_u64 {
                        let at = (step * 7919 * 4096 + thread * 2048 + round) % 1_900_000;
                        body.write_at(&[b'o'; 1000], at).unwrap();
                    }
                });
            }
            let reader = body.clone();
            scope.spawn(move || {
                let mut bytes = vec![0; 300_000];
                for step in 0..20 {
                    let read = reader.read_at(&mut bytes, step * 90_000).unwrap();
                    let strange = bytes[..read].iter().find(|byte| !b"ho".contains(byte));
                    assert_eq!(strange, None, "the host's new bytes showed");
                }
            });
            let host = OpenOptions::new().write(true).open(bed.host()).unwrap();
            host.write_all_at(&vec![b'N'; size], 0).unwrap();
        });
        let bytes = all(&body).unwrap();
        assert!(bytes.iter().all(|byte| b"ho".contains(byte)));
    }
}
