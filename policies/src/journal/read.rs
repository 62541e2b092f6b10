//! The reading end: verifies every frame as it streams, and tells a torn tail from damage.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::frame::{self, FRAME_HEADER, Header, MAX_BODY, Tip};
use super::segment::{self, SEGMENT_HEADER, SegmentHeader};
use super::{Entry, JournalError, Seq};

/// Streams the entries of a journal.
#[derive(Debug)]
pub(super) struct Reader {
    directory: PathBuf,
    segment: Option<Segment>,
    tip: Tip,
    body: Vec<u8>,
    finished: bool,
}

/// The segment that is being read.
#[derive(Debug)]
struct Segment {
    index: u32,
    path: PathBuf,
    file: BufReader<File>,
    /// Where the next frame starts; 0 until the segment's own header has been verified.
    offset: u64,
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

/// Where a whole journal ends.
#[derive(Debug)]
pub(super) struct Position {
    pub(super) index: u32,
    /// Bytes of the last segment that hold whole frames; 0 when its header is torn.
    pub(super) offset: u64,
    pub(super) tip: Tip,
}

impl Reader {
    pub(super) fn open(directory: &Path) -> Result<Self, JournalError> {
        let first = Segment::open(directory, 0)?;
        Ok(Self {
            directory: directory.to_owned(),
            segment: Some(first),
            tip: Tip::START,
            body: Vec::new(),
            finished: false,
        })
    }

    /// Where reading stopped; `None` when it stopped at an error.
    pub(super) fn position(&self) -> Option<Position> {
        let segment = self.segment.as_ref()?;
        Some(Position {
            index: segment.index,
            offset: segment.offset,
            tip: self.tip,
        })
    }

    fn step(&mut self) -> Result<Option<(Seq, Entry)>, JournalError> {
        loop {
            let Some(segment) = self.segment.as_mut() else {
                return Ok(None);
            };
            let seq = self.tip.seq;
            match segment.read(&mut self.tip, &mut self.body)? {
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
        let next = segment.index + 1;
        let later = segment::list(&self.directory)?
            .into_iter()
            .any(|index| index >= next);
        segment.rewind()?;
        let before = segment.offset;
        let mut tip = self.tip;
        let again = segment.read(&mut tip, &mut self.body)?;
        segment.offset = before;
        segment.rewind()?;
        match again {
            Found::Frame(_) => return Ok(Some(())),
            Found::Unsound { needed, reason } if later || !segment.is_torn(needed)? => {
                return Err(segment.damaged(self.tip.seq, reason));
            }
            Found::End if later => {}
            Found::End | Found::Unsound { .. } => return Ok(None),
        }
        self.segment = Some(Segment::open(&self.directory, next)?);
        Ok(Some(()))
    }
}

impl Iterator for Reader {
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
    fn open(directory: &Path, index: u32) -> Result<Self, JournalError> {
        let path = segment::path(directory, index);
        let file = File::open(&path).map_err(|source| JournalError::io(&path, source))?;
        Ok(Self {
            index,
            path,
            file: BufReader::with_capacity(1 << 16, file),
            offset: 0,
        })
    }

    /// Reads what lies at the current position, and moves past it when it is sound.
    fn read(&mut self, tip: &mut Tip, body: &mut Vec<u8>) -> Result<Found, JournalError> {
        if self.offset == 0
            && let Some(found) = self.read_segment_header(*tip)?
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
        Ok(self.accept(header, tip, body))
    }

    fn accept(&mut self, header: Header, tip: &mut Tip, body: &[u8]) -> Found {
        let next = tip.after(body);
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
        *tip = next;
        self.offset += (FRAME_HEADER + body.len()) as u64;
        Found::Frame(entry)
    }

    fn read_segment_header(&mut self, tip: Tip) -> Result<Option<Found>, JournalError> {
        let mut bytes = [0; SEGMENT_HEADER];
        let needed = SEGMENT_HEADER as u64;
        if self.fill(&mut bytes)? != SEGMENT_HEADER {
            return Ok(Some(Found::Unsound {
                needed,
                reason: "the segment's header is cut off",
            }));
        }
        if let Some(reason) = SegmentHeader::new(self.index, tip).mismatch(&bytes) {
            // All of it was written, so this is another format or another journal, not a torn write.
            return Ok(Some(Found::Unsound { needed: 0, reason }));
        }
        self.offset = needed;
        Ok(None)
    }

    /// Whether nothing but the unsound frame itself (and blocks that were never written, which
    /// read as zeros after a power cut) lies between here and the end.
    fn is_torn(&mut self, needed: u64) -> Result<bool, JournalError> {
        self.rewind()?;
        let mut rest = Vec::new();
        self.file
            .read_to_end(&mut rest)
            .map_err(|source| JournalError::io(&self.path, source))?;
        self.rewind()?;
        let written = rest
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last as u64 + 1);
        Ok(written <= needed)
    }

    fn rewind(&mut self) -> Result<(), JournalError> {
        let moved = self.file.seek(SeekFrom::Start(self.offset));
        moved
            .map(drop)
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

    fn damaged(&self, seq: Seq, reason: &'static str) -> JournalError {
        JournalError::Damaged {
            segment: self.path.clone(),
            offset: self.offset,
            seq,
            reason,
        }
    }
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
