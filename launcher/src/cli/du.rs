//! `aegis-os du`: what a session takes on the disk, and why.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;

use aegis_policies::RelPath;
use aegis_policies::path::shorten;
use aegisfs::overlay::usage::{self, Held};
use serde_json::json;

use super::{Outcome, talk};
use crate::error::CommandError;
use crate::review::Looking;
use crate::session::disk::Usage;
use crate::session::positions;
use crate::session::serve::ServeError;

/// Shows what a session takes on the disk, and why.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, or the first letters of its id.
    session: Option<String>,
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

/// Prints the sums.
///
/// # Errors
/// When the session can not be read.
pub fn run(args: &Args) -> Outcome {
    let looking = Looking::at(args.session.as_deref())?;
    let account = Account::of(&looking)?;
    talk::print(&if args.json {
        account.as_json()
    } else {
        account.as_text()
    })?;
    if account.unreadable > 0 {
        let folders = account.unreadable;
        talk::say(&format!(
            "{folders} folders could not be looked into; what they hold is not counted"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the bytes are. Each is counted once.
#[derive(Debug, Default)]
struct Account {
    /// Content of the files that the session has now.
    present: u64,
    /// Content that only snapshots have.
    kept: u64,
    /// Content of neither.
    stray: u64,
    /// Bytes that a snapshot has and the present tree does not; two of them may have the same.
    by_snapshot: BTreeMap<u64, (String, u64)>,
    /// The largest of the files that the session has now.
    largest: Vec<(u64, RelPath)>,
    folders: Vec<(&'static str, &'static str, u64)>,
    all: u64,
    unreadable: usize,
}

/// How many files are named.
const LARGEST: usize = 10;

/// What else lies in a session's directory, and what for.
const FOLDERS: [(&std::ffi::CStr, &str, &str); 7] = [
    (c"base", "bases", "what the project had: the base of merges"),
    (c"journal", "journal", "every effect, on record"),
    (c"checkpoints", "checkpoints", "a faster start"),
    (c"stage", "stage", "what is about to land"),
    (
        c"landings",
        "landings",
        "what landings displaced, for `undo`",
    ),
    (c"home", "home", "the private home directory of the agent"),
    (c"reserve", "reserve", "room for removals on a full disk"),
];

impl Account {
    fn of(looking: &Looking) -> Result<Self, CommandError> {
        let session = looking.session();
        let relocations = positions::relocations(session)?;
        let contents = usage::contents(session.dir(), &relocations).map_err(ServeError::from)?;
        let mut account = Self::default();
        contents.iter().for_each(|held| account.add(held));
        account
            .largest
            .sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        account.largest.truncate(LARGEST);
        let failed = |error| CommandError::io("measuring the session", error);
        for (folder, name, why) in FOLDERS {
            let mut usage = Usage::default();
            usage.add(session.directory(), folder).map_err(failed)?;
            account.folders.push((name, why, usage.bytes));
            account.unreadable += usage.unreadable;
        }
        let mut all = Usage::default();
        all.add(session.directory(), c".").map_err(failed)?;
        account.all = all.bytes;
        Ok(account)
    }

    fn add(&mut self, held: &Held) {
        let Held {
            bytes,
            present,
            snapshots,
        } = held;
        if let Some(path) = present.first() {
            self.present += bytes;
            self.largest.push((*bytes, path.clone()));
            return;
        }
        if snapshots.is_empty() {
            self.stray += bytes;
        } else {
            self.kept += bytes;
        }
        for snapshot in snapshots {
            let word = || (positions::word(snapshot), 0);
            self.by_snapshot.entry(snapshot.seq).or_insert_with(word).1 += bytes;
        }
    }

    /// What no line of the account tells of: the record, the lock, the folders themselves.
    fn rest(&self) -> u64 {
        let named: u64 = self.folders.iter().map(|(_, _, bytes)| bytes).sum();
        let content = self.present + self.kept + self.stray;
        self.all.saturating_sub(named + content)
    }

    fn lines(&self) -> Vec<(&'static str, &'static str, u64)> {
        let mut lines = vec![
            (
                "files",
                "content of the files that it changed or made",
                self.present,
            ),
            ("snapshots", "content that only snapshots have", self.kept),
            ("unnamed", "open without a name, or about to go", self.stray),
        ];
        lines.extend(self.folders.iter().copied());
        lines.push(("rest", "its record, its lock and its folders", self.rest()));
        lines
    }

    fn as_text(&self) -> String {
        let mut text = String::new();
        // Writing to a string can not fail.
        for (name, why, bytes) in self.lines() {
            let _ok = writeln!(text, "{:>12}  {name:12}  {why}", size(bytes));
        }
        let _ok = writeln!(text, "{:>12}  all", size(self.all));
        for (seq, (word, bytes)) in &self.by_snapshot {
            let _ok = writeln!(
                text,
                "{:>12}  only in snapshots, in {word} (entry {seq})",
                size(*bytes)
            );
        }
        for (bytes, path) in &self.largest {
            let path = path.to_string();
            let _ok = writeln!(text, "{:>12}  {}", size(*bytes), shorten(&path));
        }
        text
    }

    fn as_json(&self) -> String {
        let lines = self.lines().into_iter();
        let lines = lines.map(|(name, _, bytes)| (name.to_owned(), bytes.into()));
        let by_snapshot = self.by_snapshot.iter();
        let by_snapshot: Vec<_> = by_snapshot
            .map(|(seq, (word, bytes))| json!({"entry": seq, "name": word, "bytes": bytes}))
            .collect();
        let largest = self.largest.iter();
        let largest: Vec<_> = largest
            .map(|(bytes, path)| json!({"path": path.to_string(), "bytes": bytes}))
            .collect();
        let mut object: serde_json::Map<_, _> = lines.collect();
        object.insert("all".to_owned(), self.all.into());
        object.insert("by_snapshot".to_owned(), by_snapshot.into());
        object.insert("largest".to_owned(), largest.into());
        format!("{}\n", serde_json::Value::Object(object))
    }
}

/// Bytes in the unit in which they are read with ease.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut tenths = bytes.saturating_mul(10) / 1024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        let shown = [0, 1023, 1024, 1536, 1 << 20, 5 << 30].map(size);
        assert_eq!(
            shown,
            ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "5.0 GiB"]
        );
    }
}
