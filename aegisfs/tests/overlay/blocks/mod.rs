//! Large files of the host's: written to without being copied, and never torn.

mod clones;
mod killed;

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use aegis_policies::label::Labels;
use aegisfs::commit::{Approval, Plan, Reason, Site};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::bed::Bed;
use super::mounted::wait_until;
use super::soak::soak;

/// More than what is copied as a whole.
const SIZE: usize = 6 << 20;

/// Bytes that differ from block to block.
fn pattern(size: usize) -> Vec<u8> {
    let period: Vec<u8> = (0..7 * 251_u32).map(|at| (at / 7) as u8 + 1).collect();
    let mut bytes = period.repeat(size / period.len() + 1);
    bytes.truncate(size);
    bytes
}

fn bed_with(size: usize) -> Bed {
    let bed = Bed::new();
    fs::write(bed.project().join("big"), pattern(size)).unwrap();
    bed
}

fn open(path: &Path) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap()
}

/// Bytes allocated in the session's folder of contents.
fn allocated(bed: &Bed) -> u64 {
    let entries = fs::read_dir(bed.session().content()).unwrap();
    entries
        .map(|entry| entry.unwrap().metadata().unwrap().blocks() * 512)
        .sum()
}

fn maps(bed: &Bed) -> Vec<PathBuf> {
    let entries = fs::read_dir(bed.session().content()).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|it| it == "map"))
        .collect()
}

/// A program on the host that wants to write to a file.
fn host_writer(path: &Path, at: usize) -> Child {
    let script = format!("printf HOST | dd of=\"$1\" bs=1 seek={at} conv=notrunc status=none");
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh"]).arg(path);
    command.stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn one_byte_into_a_large_file_allocates_next_to_nothing() {
    let mut bed = bed_with(64 << 20);
    let before = fs::read(bed.project().join("big")).unwrap();
    let mnt = bed.mount();
    let file = open(&mnt.join("big"));
    file.write_all_at(b"!", 40_000_000).unwrap();
    assert!(allocated(&bed) <= 64 << 10, "{}", allocated(&bed));
    let mut wanted = before.clone();
    wanted[40_000_000] = b'!';
    assert!(fs::read(mnt.join("big")).unwrap() == wanted);
    assert!(fs::read(bed.project().join("big")).unwrap() == before);
    // Nor does opening it again, looking at it, or a start of the server.
    drop(file);
    bed.remount();
    assert!(fs::read(mnt.join("big")).unwrap() == wanted);
    assert!(allocated(&bed) <= 64 << 10, "{}", allocated(&bed));
    assert_eq!(fs::metadata(mnt.join("big")).unwrap().blocks(), 64 << 11);
}

#[test]
fn cutting_a_large_file_takes_what_is_kept() {
    let mut bed = bed_with(SIZE);
    fs::write(bed.project().join("other"), pattern(SIZE)).unwrap();
    let mnt = bed.mount();
    fs::write(mnt.join("other"), "small").unwrap();
    assert_eq!(fs::read(mnt.join("other")).unwrap(), b"small");
    let file = open(&mnt.join("big"));
    file.set_len(5_000_001).unwrap();
    file.set_len(SIZE as u64).unwrap();
    let mut wanted = pattern(SIZE);
    wanted[5_000_001..].fill(0);
    assert!(fs::read(mnt.join("big")).unwrap() == wanted);
    drop(file);
    bed.remount();
    assert!(fs::read(mnt.join("big")).unwrap() == wanted);
    assert!(allocated(&bed) <= 64 << 10, "{}", allocated(&bed));
}

#[test]
fn a_program_of_the_host_waits_until_the_rest_is_there() {
    let bed = bed_with(SIZE);
    let server = bed.serve();
    let file = open(&bed.mnt().join("big"));
    file.write_all_at(b"ours", 3_000_000).unwrap();
    let mut ours = pattern(SIZE);
    ours[3_000_000..3_000_004].copy_from_slice(b"ours");
    // Readers of the host are not kept waiting.
    assert!(fs::read(bed.project().join("big")).unwrap() == pattern(SIZE));
    assert_eq!(maps(&bed).len(), 1);
    assert!(
        host_writer(&bed.project().join("big"), 100)
            .wait()
            .unwrap()
            .success()
    );
    let mut theirs = pattern(SIZE);
    theirs[100..104].copy_from_slice(b"HOST");
    assert!(fs::read(bed.project().join("big")).unwrap() == theirs);
    assert!(fs::read(bed.mnt().join("big")).unwrap() == ours);
    wait_until(|| maps(&bed).is_empty());
    assert!(fs::read(bed.mnt().join("big")).unwrap() == ours);
    drop(file);
    server.kill();
    let server = bed.serve();
    assert!(fs::read(bed.mnt().join("big")).unwrap() == ours);
    server.kill();
}

/// A server that does not run can not copy: what the host does goes on after the time that the
/// kernel gives, or at once when the server is gone. Nothing is mixed.
#[test]
fn what_the_host_changed_after_a_kill_is_not_mixed_in() {
    let bed = bed_with(SIZE);
    let server = bed.serve();
    let file = open(&bed.mnt().join("big"));
    file.write_all_at(b"ours", 3_000_000).unwrap();
    drop(file);
    server.kill();
    assert!(
        host_writer(&bed.project().join("big"), 100)
            .wait()
            .unwrap()
            .success()
    );
    let server = bed.serve();
    let file = open(&bed.mnt().join("big"));
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, 3_000_000).unwrap();
    assert_eq!(&bytes, b"ours");
    let error = file.read_exact_at(&mut bytes, 100).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(5), "{error}");
    drop(file);
    server.kill();
    let left = frozen(&bed)
        .left()
        .iter()
        .map(|left| left.reason.clone())
        .collect::<Vec<_>>();
    assert_eq!(left, [Reason::Torn]);
}

#[test]
fn a_file_that_somebody_writes_is_copied_as_a_whole() {
    let mut bed = bed_with(SIZE);
    let writer = OpenOptions::new()
        .write(true)
        .open(bed.project().join("big"))
        .unwrap();
    let mnt = bed.mount();
    open(&mnt.join("big")).write_all_at(b"ours", 10).unwrap();
    assert!(maps(&bed).is_empty());
    writer.write_all_at(b"HOST", 5_000_000).unwrap();
    let mut wanted = pattern(SIZE);
    wanted[10..14].copy_from_slice(b"ours");
    assert!(fs::read(mnt.join("big")).unwrap() == wanted);
}

#[test]
fn holes_of_a_large_file_stay_holes() {
    let mut bed = Bed::new();
    let lower = File::create(bed.project().join("big")).unwrap();
    lower.set_len(5 << 30).unwrap();
    lower.write_all_at(b"data", 1 << 30).unwrap();
    drop(lower);
    let mnt = bed.mount();
    let file = open(&mnt.join("big"));
    file.write_all_at(b"more", 3 << 30).unwrap();
    assert_eq!(seek(&file, SeekFrom::Data(0)).unwrap(), 1 << 30);
    let hole = seek(&file, SeekFrom::Hole(1 << 30)).unwrap();
    assert!((1 << 30..(1 << 30) + (1 << 20)).contains(&hole), "{hole}");
    assert_eq!(seek(&file, SeekFrom::Data(hole)).unwrap(), 3 << 30);
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, mode, 1 << 30, 1 << 20).unwrap();
    assert_eq!(seek(&file, SeekFrom::Data(0)).unwrap(), 3 << 30);
    // The rest comes when the host wants to write, and holes with it.
    let writer = OpenOptions::new()
        .write(true)
        .open(bed.project().join("big"));
    drop(writer.unwrap());
    wait_until(|| maps(&bed).is_empty());
    assert!(allocated(&bed) < 1 << 20, "{}", allocated(&bed));
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, 3 << 30).unwrap();
    assert_eq!(&bytes, b"more");
}

/// The session's disk has no room for the rest: the host goes on, and what is missing says so.
#[test]
fn a_full_disk_tears_nothing() {
    let mut bed = bed_with(12 << 20);
    let session = bed.root().join("session");
    let options = Some(c"size=8m");
    mount("tmpfs", &session, "tmpfs", MountFlags::empty(), options).unwrap();
    fs::create_dir(session.join("journal")).unwrap();
    let mnt = bed.mount();
    let file = open(&mnt.join("big"));
    file.write_all_at(b"ours", 11_000_000).unwrap();
    assert!(
        host_writer(&bed.project().join("big"), 100)
            .wait()
            .unwrap()
            .success()
    );
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, 11_000_000).unwrap();
    assert_eq!(&bytes, b"ours");
    let mut seen = vec![0; 12 << 20];
    let mut lost = 0;
    let wanted = pattern(12 << 20);
    for at in (0..12 << 20).step_by(4096) {
        match file.read_exact_at(&mut seen[at..at + 4096], at as u64) {
            Ok(()) if at / 4096 == 11_000_000 / 4096 => {}
            Ok(()) => assert!(
                seen[at..at + 4096] == wanted[at..at + 4096],
                "mixed at {at}"
            ),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(5), "{error}");
                lost += 1;
            }
        }
    }
    assert!(lost > 500, "{lost} blocks were lost");
    drop(file);
    bed.unmount();
    unmount(&session, UnmountFlags::DETACH).unwrap();
}

/// A write that finds no room changes nothing, and the block that it was for is still the host's.
#[test]
fn a_write_that_finds_no_room_leaves_what_was_there() {
    let mut bed = bed_with(SIZE);
    let session = bed.root().join("session");
    let options = Some(c"size=4m");
    mount("tmpfs", &session, "tmpfs", MountFlags::empty(), options).unwrap();
    fs::create_dir(session.join("journal")).unwrap();
    let mnt = bed.mount();
    let file = open(&mnt.join("big"));
    let mut wanted = pattern(SIZE);
    for (number, at) in (0..SIZE).step_by(4096).enumerate() {
        let data = if number % 2 == 0 {
            &[b'o'; 4096][..]
        } else {
            b"ours"
        };
        match file.write_all_at(data, at as u64) {
            Ok(()) => wanted[at..at + data.len()].copy_from_slice(data),
            Err(error) => assert_eq!(error.raw_os_error(), Some(28), "{error}"),
        }
    }
    let ours = wanted
        .chunks(4096)
        .filter(|page| page.starts_with(b"o"))
        .count();
    assert!((100..1400).contains(&ours), "{ours} pages were written");
    let seen = fs::read(mnt.join("big")).unwrap();
    assert!(seen == wanted);
    drop(file);
    bed.remount();
    assert!(fs::read(mnt.join("big")).unwrap() == wanted);
    bed.unmount();
    unmount(&session, UnmountFlags::DETACH).unwrap();
}

/// Lands everything.
fn land(bed: &Bed) {
    let project = File::open(bed.project()).unwrap();
    let session = bed.session();
    let site = Site::new(&session, project.as_fd());
    let frozen = frozen(bed);
    assert_eq!(frozen.entries().len(), 1);
    let approval = Approval::by_person(frozen.manifest());
    let approved = frozen.approve(&approval).unwrap();
    let landed = approved.land(&site, None).unwrap();
    assert_eq!(landed.left().count(), 0, "{landed:?}");
}

/// What would land now.
fn frozen(bed: &Bed) -> aegisfs::commit::Frozen {
    let project = File::open(bed.project()).unwrap();
    let session = bed.session();
    let site = Site::new(&session, project.as_fd());
    let plan = Plan::new(&site, bed.changes(), &[], &|_| Labels::NONE).unwrap();
    plan.freeze(&site).unwrap()
}

#[test]
fn a_large_file_lands_with_one_byte_changed() {
    let mut bed = bed_with(SIZE);
    let mnt = bed.mount();
    open(&mnt.join("big"))
        .write_all_at(b"!", 3_000_000)
        .unwrap();
    bed.unmount();
    let mut wanted = pattern(SIZE);
    wanted[3_000_000] = b'!';
    land(&bed);
    assert!(fs::read(bed.project().join("big")).unwrap() == wanted);
    // The session goes on, and what it had is its own now.
    fs::remove_file(bed.project().join("big")).unwrap();
    let mnt = bed.mount();
    assert!(fs::read(mnt.join("big")).unwrap() == wanted);
}

#[test]
fn a_large_file_that_both_changed_is_a_conflict() {
    let mut bed = bed_with(SIZE);
    let mnt = bed.mount();
    let file = open(&mnt.join("big"));
    file.write_all_at(b"!", 3_000_000).unwrap();
    // While the session is served the host's change is waited for.
    assert!(
        host_writer(&bed.project().join("big"), 100)
            .wait()
            .unwrap()
            .success()
    );
    drop(file);
    bed.unmount();
    let frozen = frozen(&bed);
    assert!(frozen.entries().is_empty());
    assert!(frozen.left()[0].reason.is_conflict(), "{:?}", frozen.left());
}

/// Shared, writable mappings of a large file, and everything else that changes one, against a plain
/// file.
#[test]
fn mappings_and_all_other_changes_end_as_on_a_plain_file() {
    let script = r#"
import mmap, os, random, sys
random.seed(int(sys.argv[3]))
paths, size = sys.argv[1:3], 6 << 20
files = [os.open(p, os.O_RDWR) for p in paths]
maps = None
def remap():
    global maps
    if maps:
        for m in maps: m.close()
    maps = [mmap.mmap(f, 0) for f in files]
remap()
for step in range(int(sys.argv[4])):
    size = os.fstat(files[1]).st_size
    what = random.randrange(8)
    at = random.randrange(size + 1)
    n = random.choice([1, 100, 4096, 5000, 70000])
    if random.randrange(3) == 0: at &= ~4095
    data = bytes([random.randrange(256)]) * n
    if what == 0:
        for f in files: os.pwrite(f, data, at)
    elif what == 1 and at < size:
        for m in maps: m[at:min(at + n, len(m))] = data[:max(0, min(at + n, len(m)) - at)]
    elif what == 2 and random.randrange(4) == 0:
        new = max(1, random.choice([at, size + n, size - 1]))
        for m in maps: m.close()
        maps = None
        for f in files: os.truncate(f, new)
        remap()
    elif what == 3 and at < size:
        for m in maps: m.flush()
        read = [os.pread(f, n, at) for f in files]
        assert read[0] == read[1], ('read', step, at, n)
    elif what == 4 and at < size:
        end = min(at + n, len(maps[0]))
        assert maps[0][at:end] == maps[1][at:end], ('map', step, at, n)
    elif what == 5:
        to = random.randrange(size)
        m = min(n, abs(to - at)) or 1
        for f in files:
            done = 0
            while done < m:
                k = os.copy_file_range(f, f, m - done, at + done, to + done)
                if k == 0: break
                done += k
    elif what == 6:
        for p in paths:
            with open(p, 'ab') as f: f.write(data[:64])
        remap()
    elif what == 7 and random.randrange(8) == 0:
        for f in files: os.fsync(f)
for m in maps: m.flush()
sizes = [os.fstat(f).st_size for f in files]
assert sizes[0] == sizes[1], sizes
at = 0
while at < sizes[0]:
    a, b = (os.pread(f, 1 << 20, at) for f in files)
    assert a == b, ('end', at)
    at += len(a)
"#;
    let steps = soak(1500).to_string();
    for seed in 0..2 {
        let mut bed = bed_with(SIZE);
        let plain = bed.root().join("plain");
        fs::write(&plain, pattern(SIZE)).unwrap();
        let mnt = bed.mount();
        let mut python = Command::new("python3");
        python.args(["-c", script]).arg(mnt.join("big")).arg(&plain);
        python.args([&seed.to_string(), &steps]);
        assert!(python.status().unwrap().success(), "seed {seed}");
        bed.remount();
        assert!(fs::read(mnt.join("big")).unwrap() == fs::read(&plain).unwrap());
    }
}
