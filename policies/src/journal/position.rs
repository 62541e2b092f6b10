//! Positions between entries, from which a journal can be read, or continued, without what lies
//! before.

use serde::{Deserialize, Serialize};

use super::frame::Tip;
use super::segment::SEGMENT_HEADER;
use super::{Entry, Event, Seq};

/// Where one entry of a journal ends and the next begins.
///
/// It holds everything that the writing end has to know of the entries before it, so that a journal
/// can be continued from here. It is kept in checkpoints; whether it fits a journal is found out
/// when it is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    pub(super) segment: u32,
    /// Where the last frame before it starts; where it ends when the segment has none yet.
    pub(super) frame: u64,
    /// Bytes of the segment before it; 0 when the segment's own header is not whole.
    pub(super) offset: u64,
    pub(super) tip: Tip,
    pub(super) past: Past,
    /// Bytes of all segments before it, headers included.
    pub(super) bytes: u64,
}

/// What the entries before a position leave to be known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Past {
    /// The time of the last entry, in nanoseconds since the Unix epoch.
    pub(super) last: u64,
    /// The highest verdict that has an entry.
    pub(super) verdict: u32,
}

impl Position {
    /// Before the first entry of any journal.
    pub const START: Self = Self {
        segment: 0,
        frame: 0,
        offset: 0,
        tip: Tip::START,
        past: Past {
            last: 0,
            verdict: 0,
        },
        bytes: 0,
    };

    /// The number of the entry that follows.
    #[must_use]
    pub const fn next(&self) -> Seq {
        self.tip.seq
    }

    /// The time of the entry before, in nanoseconds since the Unix epoch.
    #[must_use]
    pub const fn at(&self) -> u64 {
        self.past.last
    }

    /// The chain value of the entry before.
    #[must_use]
    pub const fn chain(&self) -> [u8; 32] {
        self.tip.chain
    }

    /// Bytes of the journal up to here.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Moves behind the header of its segment.
    pub(super) const fn pass_segment_header(&mut self) {
        self.offset = SEGMENT_HEADER as u64;
        self.frame = self.offset;
        self.bytes += self.offset;
    }

    /// Moves behind a frame of `length` bytes that holds `entry`.
    pub(super) fn pass(&mut self, length: u64, tip: Tip, entry: &Entry) {
        self.frame = self.offset;
        self.offset += length;
        self.bytes += length;
        self.tip = tip;
        self.past.note(entry);
    }

    /// Moves to the start of the next segment.
    pub(super) const fn pass_segment(&mut self) {
        self.segment += 1;
        self.frame = 0;
        self.offset = 0;
    }
}

impl Past {
    fn note(&mut self, entry: &Entry) {
        self.last = self.last.max(entry.at);
        if let Event::Verdict { id, .. } = &entry.event {
            self.verdict = self.verdict.max(id.0);
        }
    }
}
