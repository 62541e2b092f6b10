//! Work with the content of files.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::Outcome;

const BLOCK: usize = 4096;
const READS: usize = 100_000;
const WRITES: usize = 5_000;

/// Numbers without chance.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

const SEED: Numbers = Numbers(88_172_645_463_325_252);

pub(super) fn read(path: &Path) -> Outcome<u64> {
    let mut file = File::open(path)?;
    let mut block = vec![0; 1 << 20];
    let mut sum = 0;
    loop {
        match file.read(&mut block)? {
            0 => return Ok(sum),
            read => sum += read as u64 + first(&block),
        }
    }
}

pub(super) fn read_randomly(path: &Path) -> Outcome<u64> {
    let file = File::open(path)?;
    let blocks = file.metadata()?.len() / BLOCK as u64;
    let (mut numbers, mut block, mut sum) = (SEED, [0; BLOCK], 0);
    for _ in 0..READS {
        file.read_exact_at(&mut block, numbers.below(blocks) * BLOCK as u64)?;
        sum += first(&block);
    }
    Ok(sum)
}

pub(super) fn read_mapped(path: &Path) -> Outcome<u64> {
    let length = (256 << 20).min(path.metadata()?.len());
    through_python("read", path, length)
}

pub(super) fn write(path: &Path, block: usize, count: usize, durable: bool) -> Outcome<u64> {
    let bytes = vec![0x33; block];
    let mut file = File::create(path)?;
    for _ in 0..count {
        file.write_all(&bytes)?;
    }
    if durable {
        file.sync_all()?;
    }
    Ok(file.metadata()?.len())
}

pub(super) fn write_mapped(path: &Path) -> Outcome<u64> {
    File::create(path)?.set_len(128 << 20)?;
    through_python("write", path, 128 << 20)
}

pub(super) fn write_randomly(path: &Path) -> Outcome<u64> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let blocks = file.metadata()?.len() / BLOCK as u64;
    let (mut numbers, block) = (SEED, [0x44; BLOCK]);
    for _ in 0..WRITES {
        file.write_all_at(&block, numbers.below(blocks) * BLOCK as u64)?;
    }
    file.sync_all()?;
    Ok(0)
}

/// Writes one byte in the middle.
pub(super) fn poke(path: &Path) -> Outcome<u64> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    file.write_all_at(b"X", file.metadata()?.len() / 2)?;
    Ok(0)
}

fn first(block: &[u8]) -> u64 {
    block.first().copied().map_or(0, u64::from)
}

/// Touches every page through a shared mapping. Mapping memory needs unsafe code in Rust, and a
/// loop in an interpreter costs the same on both sides.
fn through_python(way: &str, path: &Path, length: u64) -> Outcome<u64> {
    const SCRIPT: &str = "\
import mmap, os, sys
way, path, length = sys.argv[1], sys.argv[2], int(sys.argv[3])
writes = way == 'write'
fd = os.open(path, os.O_RDWR if writes else os.O_RDONLY)
m = mmap.mmap(fd, length, mmap.MAP_SHARED, mmap.PROT_READ | (mmap.PROT_WRITE if writes else 0))
if writes:
    page = b'w' * 4096
    for at in range(0, length, 4096):
        m[at:at + 4096] = page
    m.flush()
    print(length)
else:
    print(sum(len(m[at:at + 1048576]) + m[at] for at in range(0, length, 1048576)))
";
    let output = std::process::Command::new("python3")
        .args(["-c", SCRIPT, way])
        .arg(path)
        .arg(length.to_string())
        .output()?;
    if output.status.success() {
        Ok(String::from_utf8(output.stdout)?.trim().parse()?)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned().into())
    }
}
