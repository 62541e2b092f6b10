//! The writing end, behind the journal's lock.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::frame::Tip;
use super::process::Processes;
use super::read::{Position, Reader};
use super::segment::{self, SEGMENT_HEADER};
use super::{Entry, Event, JournalError, Options, Seq, VerdictId};

/// What an append needs to know and changes.
#[derive(Debug)]
pub(super) struct Writer {
    directory: PathBuf,
    segment_bytes: u64,
    index: u32,
    path: PathBuf,
    file: Arc<File>,
    /// Bytes of the segment that hold whole frames.
    end: u64,
    tip: Tip,
    /// The time of the last entry; the next one is never before it.
    last: u64,
    processes: Processes,
    buffer: Vec<u8>,
    /// Whether half a frame may lie behind `end`, so that nothing may be appended.
    soiled: bool,
}

/// What a journal held when it was opened again.
#[derive(Debug, Default)]
pub(super) struct Resumed {
    last: u64,
    /// The highest verdict that has an entry.
    pub(super) verdict: u32,
}

/// An open segment.
#[derive(Debug)]
pub(super) struct Segment {
    file: Arc<File>,
    path: PathBuf,
}

impl Writer {
    pub(super) fn create(directory: &Path, options: Options) -> Result<Self, JournalError> {
        let file = segment::create(directory, 0, Tip::START)?;
        let start = Position {
            index: 0,
            offset: SEGMENT_HEADER as u64,
            tip: Tip::START,
        };
        Ok(Self::at(directory, options, file, &start))
    }

    /// Verifies the whole journal, cuts a torn tail, and continues after it.
    pub(super) fn resume(
        directory: &Path,
        options: Options,
    ) -> Result<(Self, Resumed), JournalError> {
        let mut reader = Reader::open(directory)?;
        let mut resumed = Resumed::default();
        for item in &mut reader {
            resumed.note(&item?.1);
        }
        let position = reader
            .position()
            .ok_or_else(|| JournalError::unreadable(directory))?;
        let mut writer = if position.offset == 0 {
            Self::replace_torn_segment(directory, options, position)?
        } else {
            let file = segment::open(&segment::path(directory, position.index))?;
            Self::at(directory, options, file, &position)
        };
        writer.cut()?;
        writer.last = resumed.last;
        Ok((writer, resumed))
    }

    /// Appends one entry, and before it the executable of a process not seen before.
    pub(super) fn append(
        &mut self,
        pid: u32,
        verdict: VerdictId,
        event: Event,
    ) -> Result<Seq, JournalError> {
        if self.soiled {
            self.cut()?;
        }
        if self.end >= self.segment_bytes {
            self.rotate()?;
        }
        let at = self.now();
        let process = self.processes.news(pid);
        self.buffer.clear();
        let mut tip = self.tip;
        if let Some(exe) = process.clone() {
            let event = Event::Process { exe };
            tip = self.encode(
                tip,
                &Entry {
                    at,
                    pid,
                    verdict: VerdictId::default(),
                    event,
                },
            )?;
        }
        let seq = tip.seq;
        tip = self.encode(
            tip,
            &Entry {
                at,
                pid,
                verdict,
                event,
            },
        )?;
        self.write()?;
        self.tip = tip;
        self.last = at;
        if let Some(executable) = process {
            self.processes.recorded(pid, executable);
        }
        Ok(seq)
    }

    /// The segment that is written, to be forced to the disk without holding up other appends. The
    /// segments before it were when it was begun.
    pub(super) fn segment(&self) -> Segment {
        Segment {
            file: Arc::clone(&self.file),
            path: self.path.clone(),
        }
    }

    fn at(directory: &Path, options: Options, file: File, position: &Position) -> Self {
        Self {
            directory: directory.to_owned(),
            segment_bytes: options.segment_bytes,
            index: position.index,
            path: segment::path(directory, position.index),
            file: Arc::new(file),
            end: position.offset,
            tip: position.tip,
            last: 0,
            processes: Processes::new(options.executable),
            buffer: Vec::new(),
            soiled: false,
        }
    }

    /// Nothing was ever acknowledged in a segment whose header is not whole.
    fn replace_torn_segment(
        directory: &Path,
        options: Options,
        torn: Position,
    ) -> Result<Self, JournalError> {
        let path = segment::path(directory, torn.index);
        std::fs::remove_file(&path).map_err(|source| JournalError::io(&path, source))?;
        let file = segment::create(directory, torn.index, torn.tip)?;
        Ok(Self::at(
            directory,
            options,
            file,
            &Position {
                offset: SEGMENT_HEADER as u64,
                ..torn
            },
        ))
    }

    fn encode(&mut self, tip: Tip, entry: &Entry) -> Result<Tip, JournalError> {
        tip.encode(&mut self.buffer, entry)
            .ok_or(JournalError::TooLarge {
                event: entry.event.name(),
            })
    }

    fn write(&mut self) -> Result<(), JournalError> {
        match segment::write_whole(&self.file, &self.buffer) {
            Ok(()) => {
                self.end += self.buffer.len() as u64;
                Ok(())
            }
            Err(source) => {
                self.soiled = true;
                // When even this fails, the next append tries again before it writes.
                drop(self.cut());
                Err(JournalError::io(&self.path, source))
            }
        }
    }

    /// Cuts whatever lies behind the last whole frame.
    fn cut(&mut self) -> Result<(), JournalError> {
        self.file
            .set_len(self.end)
            .map_err(|source| JournalError::io(&self.path, source))?;
        self.soiled = false;
        Ok(())
    }

    fn rotate(&mut self) -> Result<(), JournalError> {
        // An entry must not survive a power cut that one before it does not.
        self.segment().sync()?;
        let index = self.index + 1;
        self.file = Arc::new(segment::create(&self.directory, index, self.tip)?);
        self.index = index;
        self.path = segment::path(&self.directory, index);
        self.end = SEGMENT_HEADER as u64;
        Ok(())
    }

    /// Nanoseconds since the epoch, never before the last entry: the clock may be set back.
    fn now(&self) -> u64 {
        let clock = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        u64::try_from(clock.as_nanos())
            .unwrap_or(u64::MAX)
            .max(self.last)
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

impl Resumed {
    fn note(&mut self, entry: &Entry) {
        self.last = self.last.max(entry.at);
        if let Event::Verdict { id, .. } = &entry.event {
            self.verdict = self.verdict.max(id.0);
        }
    }
}
