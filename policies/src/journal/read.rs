//! The reading end: verifies every frame as it streams, and tells a torn tail from damage.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::frame::{self, FRAME_HEADER, Header, MAX_BODY};
use super::position::Position;
use super::segment::{self, SEGMENT_HEADER, SegmentHeader};
use super::{Entry, JournalError, Seq};

/// The entries of a journal, one after the other.
///
/// Each item may be an error, such as [`JournalError::Damaged`], after which nothing follows.
#[derive(Debug)]
pub struct Entries {
    directory: PathBuf,
    position: Position,
    segment: Option<Segment>,
    body: Vec<u8>,
    finished: bool,
}

/// The segment that is being read.
#[derive(Debug)]
struct Segment {
    path: PathBuf,
    file: BufReader<File>,
}

/// What lies at a position of a segment.
#[expect(
    clippy::large_enum_variant,
    reason = "the largest variant is nearly every value"
)]
enum Found {
    Frame(Entry),
    /// The end of the file.
    End,
    /// Something that is not a whole, sound frame; it claims `needed` bytes.
    Unsound {
        needed: u64,
        reason: &'static str,
    },
}

impl Entries {
    pub(super) fn open(directory: &Path) -> Result<Self, JournalError> {
        let start = Position::START;
        let first = Segment::open(directory, &start)?;
        Ok(Self::at(directory, start, first))
    }

    /// The entries behind a position, which must be one of this journal.
    pub(super) fn open_at(directory: &Path, position: &Position) -> Result<Self, JournalError> {
        let before = segment::list(directory)?;
        if !before
            .into_iter()
            .take_while(|index| *index <= position.segment)
            .eq(0..=position.segment)
        {
            return Err(unfit(directory, position, "a segment before it is missing"));
        }
        Self::open_behind(directory, position)
    }

    /// The same, whatever became of the segments before.
    pub(super) fn open_behind(directory: &Path, position: &Position) -> Result<Self, JournalError> {
        let mut segment = Segment::open(directory, position)?;
        match segment.misfit(position)? {
            Some(reason) => Err(unfit(directory, position, reason)),
            None => Ok(Self::at(directory, position.clone(), segment)),
        }
    }

    /// Behind the entry that was read last: where to go on. The end of the journal, or of what
    /// could be read of it, when there are no more.
    #[must_use]
    pub const fn position(&self) -> &Position {
        &self.position
    }

    fn at(directory: &Path, position: Position, segment: Segment) -> Self {
        Self {
            directory: directory.to_owned(),
            position,
            segment: Some(segment),
            body: Vec::new(),
            finished: false,
        }
    }

    fn step(&mut self) -> Result<Option<(Seq, Entry)>, JournalError> {
        loop {
            let Some(segment) = self.segment.as_mut() else {
                return Ok(None);
            };
            let seq = self.position.next();
            match segment.read(&mut self.position, &mut self.body)? {
                Found::Frame(entry) => return Ok(Some((seq, entry))),
                Found::End | Found::Unsound { .. } => {
                    if self.advance()?.is_none() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Moves to the next segment; `None` at the end of the log.
    fn advance(&mut self) -> Result<Option<()>, JournalError> {
        let Some(segment) = self.segment.as_mut() else {
            return Ok(None);
        };
        // A writer may have appended to this segment and rotated since the end was seen, and a
        // failed append may have been cut: what was buffered is stale, so look again.
        let next = self.position.segment + 1;
        let later = segment::list(&self.directory)?
            .into_iter()
            .any(|index| index >= next);
        segment.seek(self.position.offset)?;
        let again = segment.read(&mut self.position.clone(), &mut self.body)?;
        segment.seek(self.position.offset)?;
        match again {
            Found::Frame(_) => return Ok(Some(())),
            Found::Unsound { needed, reason }
                if later || !segment.is_torn(&self.position, needed)? =>
            {
                return Err(segment.damaged(&self.position, reason));
            }
            Found::End if later => {}
            Found::End | Found::Unsound { .. } => return Ok(None),
        }
        self.position.pass_segment();
        self.segment = Some(Segment::open(&self.directory, &self.position)?);
        Ok(Some(()))
    }
}

impl Iterator for Entries {
    type Item = Result<(Seq, Entry), JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        let item = self.step().transpose();
        self.finished = !matches!(item, Some(Ok(_)));
        if matches!(item, Some(Err(_))) {
            self.segment = None;
        }
        item
    }
}

impl Segment {
    /// The segment at a position. One that is not there is damage: a journal has at least its
    /// first, and the next is only looked for where there is a later one.
    fn open(directory: &Path, position: &Position) -> Result<Self, JournalError> {
        let path = segment::path(directory, position.segment);
        let file = match File::open(&path) {
            Err(source)
                if source.kind() == io::ErrorKind::NotFound
                    && !segment::list(directory)?.is_empty() =>
            {
                return Err(JournalError::Damaged {
                    segment: path,
                    offset: 0,
                    seq: position.next(),
                    reason: "the segment is missing",
                });
            }
            opened => opened.map_err(|source| JournalError::io(&path, source))?,
        };
        Ok(Self {
            path,
            file: BufReader::with_capacity(1 << 16, file),
        })
    }

    /// Why a position is not one of this segment, if it is not; moves there if it is.
    fn misfit(&mut self, position: &Position) -> Result<Option<&'static str>, JournalError> {
        let mut bytes = [0; SEGMENT_HEADER];
        if self.fill(&mut bytes)? != SEGMENT_HEADER {
            return Ok(Some("the segment's header is cut off"));
        }
        let header = match SegmentHeader::decode(&bytes) {
            Ok(header) => header,
            Err(reason) => return Ok(Some(reason)),
        };
        if header.index != position.segment || header.first > position.next() {
            return Ok(Some("the segment is another one"));
        }
        if position.frame == position.offset {
            let first = SegmentHeader::new(position.segment, position.tip) == header;
            let first = first && position.offset == SEGMENT_HEADER as u64;
            return Ok((!first).then_some("the segment starts at another entry"));
        }
        self.seek(position.frame)?;
        let mut bytes = [0; FRAME_HEADER];
        if self.fill(&mut bytes)? != FRAME_HEADER {
            return Ok(Some("the segment ends before it"));
        }
        let ends_there = |header: &Header| {
            position.frame + FRAME_HEADER as u64 + u64::from(header.length) == position.offset
                && header.chain == position.tip.chain
        };
        if !Header::decode(&bytes).as_ref().is_some_and(ends_there) {
            return Ok(Some("the chain has another value there"));
        }
        if self.length()? < position.offset {
            return Ok(Some("the segment ends before it"));
        }
        self.seek(position.offset)?;
        Ok(None)
    }

    /// Reads what lies at the position, and moves it past that when it is sound.
    fn read(&mut self, position: &mut Position, body: &mut Vec<u8>) -> Result<Found, JournalError> {
        if position.offset == 0
            && let Some(found) = self.read_segment_header(position)?
        {
            return Ok(found);
        }
        let mut bytes = [0; FRAME_HEADER];
        match self.fill(&mut bytes)? {
            0 => return Ok(Found::End),
            FRAME_HEADER => {}
            _ => return Ok(Found::unsound(0, "the frame is cut off")),
        }
        let Some(header) = Header::decode(&bytes) else {
            return Ok(Found::unsound(
                0,
                "the check of the frame's header does not match",
            ));
        };
        let length = usize::try_from(header.length).unwrap_or(usize::MAX);
        if length > MAX_BODY {
            return Ok(Found::unsound(0, "the frame is longer than any entry"));
        }
        body.clear();
        body.resize(length, 0);
        if self.fill(body)? != length {
            return Ok(Found::unsound(length, "the frame is cut off"));
        }
        Ok(accept(header, position, body))
    }

    fn read_segment_header(
        &mut self,
        position: &mut Position,
    ) -> Result<Option<Found>, JournalError> {
        let mut bytes = [0; SEGMENT_HEADER];
        if self.fill(&mut bytes)? != SEGMENT_HEADER {
            return Ok(Some(Found::Unsound {
                needed: SEGMENT_HEADER as u64,
                reason: "the segment's header is cut off",
            }));
        }
        let expected = SegmentHeader::new(position.segment, position.tip);
        if let Some(reason) = expected.mismatch(&bytes) {
            // All of it was written, so this is another format or another journal, not a torn write.
            return Ok(Some(Found::Unsound { needed: 0, reason }));
        }
        position.pass_segment_header();
        Ok(None)
    }

    /// Whether nothing but the unsound frame itself (and blocks that were never written, which
    /// read as zeros after a power cut) lies between here and the end.
    fn is_torn(&mut self, position: &Position, needed: u64) -> Result<bool, JournalError> {
        self.seek(position.offset)?;
        let mut rest = Vec::new();
        self.file
            .read_to_end(&mut rest)
            .map_err(|source| JournalError::io(&self.path, source))?;
        self.seek(position.offset)?;
        let written = rest
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last as u64 + 1);
        Ok(written <= needed)
    }

    fn seek(&mut self, offset: u64) -> Result<(), JournalError> {
        let moved = self.file.seek(SeekFrom::Start(offset));
        moved
            .map(drop)
            .map_err(|source| JournalError::io(&self.path, source))
    }

    fn length(&self) -> Result<u64, JournalError> {
        let metadata = self.file.get_ref().metadata();
        metadata
            .map(|metadata| metadata.len())
            .map_err(|source| JournalError::io(&self.path, source))
    }

    /// Fills `bytes` as far as the file goes; the count of bytes read.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<usize, JournalError> {
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.file.read(rest) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(JournalError::io(&self.path, source)),
            }
        }
        Ok(filled)
    }

    fn damaged(&self, position: &Position, reason: &'static str) -> JournalError {
        JournalError::Damaged {
            segment: self.path.clone(),
            offset: position.offset,
            seq: position.next(),
            reason,
        }
    }
}

fn unfit(directory: &Path, position: &Position, reason: &'static str) -> JournalError {
    JournalError::Unfit {
        segment: segment::path(directory, position.segment),
        reason,
    }
}

/// Takes a frame for sound when it continues the chain, and moves past it.
fn accept(header: Header, position: &mut Position, body: &[u8]) -> Found {
    let next = position.tip.after(body);
    if next.chain != header.chain {
        return Found::unsound(body.len(), "the frame does not continue the chain");
    }
    let Some(entry) = frame::decode_body(body) else {
        // The chain holds, so this is not a torn write and never the tail to cut.
        return Found::Unsound {
            needed: 0,
            reason: "the entry is of a kind unknown here",
        };
    };
    position.pass((FRAME_HEADER + body.len()) as u64, next, &entry);
    Found::Frame(entry)
}

impl Found {
    /// A frame whose body has (or claims) this many bytes.
    const fn unsound(body: usize, reason: &'static str) -> Self {
        Self::Unsound {
            needed: (FRAME_HEADER + body) as u64,
            reason,
        }
    }
}
