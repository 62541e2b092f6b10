//! One frame: how an entry lies in a segment, and how it hangs on the one before.
//!
//! `length u32 | check u32 | chain [u8; 32] | body`, integers little endian. `chain` is
//! `blake3(chain of the frame before || body)`, `check` is the CRC-32 of `length || chain`. The
//! check protects the length apart from the body, so a damaged length in the middle of the log
//! can not be taken for a torn tail.

use serde::{Deserialize, Serialize};

use super::{Entry, Seq};

/// Bytes of a frame before its body.
pub(super) const FRAME_HEADER: usize = 40;

/// The largest body that is written or believed, in bytes. An argument list (2 MiB) fits.
pub(super) const MAX_BODY: usize = 8 << 20;

/// The chain value that the first frame of a journal hangs on.
pub(super) const GENESIS: Chain = [0; 32];

pub(super) type Chain = [u8; 32];

/// Where the log ends: what the next frame must continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tip {
    /// The number of the next entry.
    pub(super) seq: Seq,
    /// The chain value of the last frame.
    pub(super) chain: Chain,
}

impl Tip {
    pub(super) const START: Self = Self {
        seq: 0,
        chain: GENESIS,
    };

    /// Appends the frame of `entry` to `buffer`; `None` when it can not be written as one frame.
    pub(super) fn encode(self, buffer: &mut Vec<u8>, entry: &Entry) -> Option<Self> {
        let start = buffer.len();
        buffer.extend_from_slice(&[0; FRAME_HEADER]);
        *buffer = postcard::to_extend(entry, std::mem::take(buffer)).ok()?;
        let (header, body) = buffer
            .get_mut(start..)?
            .split_first_chunk_mut::<FRAME_HEADER>()?;
        if body.len() > MAX_BODY {
            return None;
        }
        let next = self.after(body);
        *header = Header {
            length: u32::try_from(body.len()).ok()?,
            chain: next.chain,
        }
        .encode();
        Some(next)
    }

    /// The tip after a frame with this body.
    pub(super) fn after(self, body: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.chain).update(body);
        Self {
            seq: self.seq + 1,
            chain: *hasher.finalize().as_bytes(),
        }
    }
}

/// The part of a frame before its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) length: u32,
    pub(super) chain: Chain,
}

impl Header {
    fn encode(self) -> [u8; FRAME_HEADER] {
        let mut bytes = [0; FRAME_HEADER];
        let fields = self.length.to_le_bytes().into_iter();
        let fields = fields.chain(self.check().to_le_bytes()).chain(self.chain);
        bytes
            .iter_mut()
            .zip(fields)
            .for_each(|(byte, field)| *byte = field);
        bytes
    }

    /// Parses a header; `None` when its check does not hold.
    pub(super) fn decode(bytes: &[u8; FRAME_HEADER]) -> Option<Self> {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (check, chain) = rest.split_first_chunk::<4>()?;
        let header = Self {
            length: u32::from_le_bytes(*length),
            chain: *chain.first_chunk::<32>()?,
        };
        (header.check() == u32::from_le_bytes(*check)).then_some(header)
    }

    fn check(&self) -> u32 {
        let mut check = crc32fast::Hasher::new();
        check.update(&self.length.to_le_bytes());
        check.update(&self.chain);
        check.finalize()
    }
}

/// Parses a body; `None` when it is not exactly one entry.
pub(super) fn decode_body(body: &[u8]) -> Option<Entry> {
    match postcard::take_from_bytes(body) {
        Ok((entry, [])) => Some(entry),
        _ => None,
    }
}
