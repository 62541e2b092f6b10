//! Work with names and attributes.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

use crate::Outcome;

/// Files that are made, renamed or removed.
const FILES: usize = 10_000;
const OPENS: usize = 5_000;
const STATS: usize = 100_000;
const MISSES: usize = 20_000;

/// Looks at every file below; the sum of their sizes and number.
pub(super) fn walk(folder: &Path) -> Outcome<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let facts = entry.metadata()?;
        sum += 1;
        if facts.is_dir() {
            sum += walk(&entry.path())?;
        } else {
            sum += facts.len();
        }
    }
    Ok(sum)
}

pub(super) fn open_close(path: &Path) -> Outcome<u64> {
    for _ in 0..OPENS {
        drop(File::open(path)?);
    }
    Ok(0)
}

pub(super) fn stat_one(path: &Path) -> Outcome<u64> {
    let mut sum = 0;
    for _ in 0..STATS {
        sum += fs::metadata(path)?.len();
    }
    Ok(sum)
}

pub(super) fn stat_missing(folder: &Path) -> Outcome<u64> {
    let mut missing = 0;
    for number in 0..MISSES {
        let found = fs::metadata(folder.join(format!("missing{number}")));
        missing += u64::from(found.is_err_and(|error| error.kind() == ErrorKind::NotFound));
    }
    Ok(missing)
}

pub(super) fn create(folder: &Path) -> Outcome<u64> {
    let bytes = [0x61; 1024];
    for number in 0..FILES {
        let inside = folder.join(format!("d{:03}", number / 100));
        if number % 100 == 0 {
            fs::create_dir_all(&inside)?;
        }
        let path = inside.join(format!("f{number:05}"));
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all(&bytes)?;
    }
    Ok(0)
}

pub(super) fn rename(folder: &Path) -> Outcome<u64> {
    for number in 0..FILES {
        let inside = folder.join(format!("d{:03}", number / 100));
        let name = |letter| inside.join(format!("{letter}{number:05}"));
        fs::rename(name('f'), name('r'))?;
    }
    Ok(0)
}

pub(super) fn unlink(folder: &Path, letter: char) -> Outcome<u64> {
    for number in 0..FILES {
        fs::remove_file(folder.join(format!("d{:03}/{letter}{number:05}", number / 100)))?;
    }
    Ok(0)
}
