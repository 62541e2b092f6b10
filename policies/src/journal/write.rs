//! The writing end, behind the journal's lock.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::position::Position;
use super::process::Processes;
use super::read::Entries;
use super::segment;
use super::{Entry, Event, JournalError, Options, Recorded, VerdictId};

/// What an append needs to know and changes.
#[derive(Debug)]
pub(super) struct Writer {
    directory: PathBuf,
    segment_bytes: u64,
    path: PathBuf,
    file: Arc<File>,
    /// Behind the last whole frame.
    end: Position,
    processes: Processes,
    buffer: Vec<u8>,
    /// Whether half a frame may lie behind `end`, so that nothing may be appended.
    soiled: bool,
}

/// An open segment.
#[derive(Debug)]
pub(super) struct Segment {
    file: Arc<File>,
    path: PathBuf,
}

impl Writer {
    pub(super) fn create(directory: &Path, options: Options) -> Result<Self, JournalError> {
        let mut start = Position::START;
        let file = segment::create(directory, 0, start.tip)?;
        start.pass_segment_header();
        Ok(Self::at(directory, options, file, start))
    }

    /// Verifies what `entries` has yet to read, cuts a torn tail, and continues after it.
    pub(super) fn resume(
        directory: &Path,
        options: Options,
        mut entries: Entries,
    ) -> Result<Self, JournalError> {
        for item in &mut entries {
            item?;
        }
        let mut end = entries.position().clone();
        let file = if end.offset == 0 {
            replace_torn_segment(directory, &mut end)?
        } else {
            segment::open(&segment::path(directory, end.segment))?
        };
        let mut writer = Self::at(directory, options, file, end);
        writer.cut()?;
        Ok(writer)
    }

    /// Appends one entry, and before it the executable of a process not seen before.
    pub(super) fn append(
        &mut self,
        pid: u32,
        verdict: VerdictId,
        event: Event,
    ) -> Result<Recorded, JournalError> {
        if self.soiled {
            self.cut()?;
        }
        if self.end.offset >= self.segment_bytes {
            self.rotate()?;
        }
        let at = self.now();
        let process = self.processes.news(pid);
        self.buffer.clear();
        let mut end = self.end.clone();
        if let Some(exe) = process.clone() {
            let event = Event::Process { exe };
            self.encode(&mut end, at, pid, VerdictId::default(), event)?;
        }
        let seq = end.next();
        self.encode(&mut end, at, pid, verdict, event)?;
        self.write()?;
        self.end = end;
        if let Some(executable) = process {
            self.processes.recorded(pid, executable);
        }
        let bytes = self.end.bytes();
        Ok(Recorded { seq, at, bytes })
    }

    /// Behind the last entry.
    pub(super) const fn end(&self) -> &Position {
        &self.end
    }

    /// The segment that is written, to be forced to the disk without holding up other appends. The
    /// segments before it were when it was begun.
    pub(super) fn segment(&self) -> Segment {
        Segment {
            file: Arc::clone(&self.file),
            path: self.path.clone(),
        }
    }

    fn at(directory: &Path, options: Options, file: File, end: Position) -> Self {
        Self {
            directory: directory.to_owned(),
            segment_bytes: options.segment_bytes,
            path: segment::path(directory, end.segment),
            file: Arc::new(file),
            end,
            processes: Processes::new(options.executable),
            buffer: Vec::new(),
            soiled: false,
        }
    }

    fn encode(
        &mut self,
        end: &mut Position,
        at: u64,
        pid: u32,
        verdict: VerdictId,
        event: Event,
    ) -> Result<(), JournalError> {
        let start = self.buffer.len();
        let entry = Entry {
            at,
            pid,
            verdict,
            event,
        };
        let encoded = end.tip.encode(&mut self.buffer, &entry);
        let tip = encoded.ok_or(JournalError::TooLarge {
            event: entry.event.name(),
        })?;
        end.pass((self.buffer.len() - start) as u64, tip, &entry);
        Ok(())
    }

    fn write(&mut self) -> Result<(), JournalError> {
        segment::write_whole(&self.file, &self.buffer).map_err(|source| {
            self.soiled = true;
            // When even this fails, the next append tries again before it writes.
            drop(self.cut());
            JournalError::io(&self.path, source)
        })
    }

    /// Cuts whatever lies behind the last whole frame.
    fn cut(&mut self) -> Result<(), JournalError> {
        self.file
            .set_len(self.end.offset)
            .map_err(|source| JournalError::io(&self.path, source))?;
        self.soiled = false;
        Ok(())
    }

    fn rotate(&mut self) -> Result<(), JournalError> {
        // An entry must not survive a power cut that one before it does not.
        self.segment().sync()?;
        let mut end = self.end.clone();
        end.pass_segment();
        self.file = Arc::new(segment::create(&self.directory, end.segment, end.tip)?);
        self.path = segment::path(&self.directory, end.segment);
        end.pass_segment_header();
        self.end = end;
        Ok(())
    }

    /// Nanoseconds since the epoch, never before the last entry: the clock may be set back.
    fn now(&self) -> u64 {
        let clock = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        u64::try_from(clock.as_nanos())
            .unwrap_or(u64::MAX)
            .max(self.end.at())
    }
}

impl Segment {
    /// fdatasync(2).
    pub(super) fn sync(&self) -> Result<(), JournalError> {
        self.file
            .sync_data()
            .map_err(|source| JournalError::io(&self.path, source))
    }
}

/// Nothing was ever acknowledged in a segment whose header is not whole.
fn replace_torn_segment(directory: &Path, torn: &mut Position) -> Result<File, JournalError> {
    let path = segment::path(directory, torn.segment);
    std::fs::remove_file(&path).map_err(|source| JournalError::io(&path, source))?;
    let file = segment::create(directory, torn.segment, torn.tip)?;
    torn.pass_segment_header();
    Ok(file)
}
