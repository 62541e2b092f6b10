//! The body of a request, as it arrives.

use bytes::{Buf, Bytes, BytesMut};
use hyper::StatusCode;

use super::head::Framing;

/// Takes a body out of the bytes of a connection; keeps nothing itself.
#[derive(Debug)]
pub(crate) struct BodyDecoder {
    state: State,
    /// Bytes that the body may still have.
    allowance: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// This many bytes of a body of known length are missing.
    Exact(u64),
    /// The line with the size of the next chunk is missing.
    Size,
    /// This many bytes of the chunk are missing.
    Chunk(u64),
    /// The CRLF after a chunk is missing.
    ChunkEnd,
    /// Lines after the last chunk, up to an empty one; this many bytes are allowed.
    Trailer(usize),
    Done,
}

/// What one step found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// A piece of the body.
    Data(Bytes),
    /// Nothing until more bytes arrive.
    More,
    /// The body is complete.
    End,
}

/// Why a body is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    /// The chunks are not well formed.
    #[error("{0}")]
    Malformed(&'static str),
    /// It is larger than this many bytes.
    #[error("the body is larger than {0} bytes")]
    TooLarge(u64),
    /// The connection ended, or stood still, inside the body.
    #[error("the body ended early")]
    Short,
}

impl BodyError {
    /// The status that tells the client.
    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Short => StatusCode::REQUEST_TIMEOUT,
        }
    }
}

impl BodyDecoder {
    /// # Errors
    /// [`BodyError::TooLarge`] when the announced length is over `limit` already.
    pub(crate) fn new(framing: Framing, limit: u64) -> Result<Self, BodyError> {
        let state = match framing {
            Framing::Empty => State::Done,
            Framing::Length(length) if length > limit => return Err(BodyError::TooLarge(limit)),
            Framing::Length(length) => State::Exact(length),
            Framing::Chunked => State::Size,
        };
        Ok(Self {
            state,
            allowance: limit,
        })
    }

    /// Takes the next piece out of `buffer`.
    pub(crate) fn decode(&mut self, buffer: &mut BytesMut) -> Result<Decoded, BodyError> {
        loop {
            match self.state {
                State::Done => return Ok(Decoded::End),
                State::Exact(0) => self.state = State::Done,
                State::Chunk(0) => self.state = State::ChunkEnd,
                _ if buffer.is_empty() => return Ok(Decoded::More),
                State::Exact(left) => {
                    let piece = take(buffer, left);
                    self.state = State::Exact(left.saturating_sub(piece.len() as u64));
                    return Ok(Decoded::Data(piece));
                }
                State::Chunk(left) => {
                    let piece = take(buffer, left);
                    self.state = State::Chunk(left.saturating_sub(piece.len() as u64));
                    return Ok(Decoded::Data(piece));
                }
                State::Size | State::ChunkEnd | State::Trailer(_) => {
                    let Some(line) = take_line(buffer)? else {
                        return Ok(Decoded::More);
                    };
                    self.state = self.after_line(&line)?;
                }
            }
        }
    }

    fn after_line(&mut self, line: &[u8]) -> Result<State, BodyError> {
        match self.state {
            State::Size => match chunk_size(line)? {
                0 => Ok(State::Trailer(LONGEST_TRAILER)),
                size if size > self.allowance => Err(BodyError::TooLarge(self.allowance)),
                size => {
                    self.allowance -= size;
                    Ok(State::Chunk(size))
                }
            },
            State::ChunkEnd if line.is_empty() => Ok(State::Size),
            State::ChunkEnd => Err(BodyError::Malformed("a chunk is longer than it says")),
            State::Trailer(_) if line.is_empty() => Ok(State::Done),
            State::Trailer(left) => match left.checked_sub(line.len() + 2) {
                Some(left) => Ok(State::Trailer(left)),
                None => Err(BodyError::Malformed("the trailer is too long")),
            },
            state => Ok(state),
        }
    }
}

fn take(buffer: &mut BytesMut, most: u64) -> Bytes {
    let length = usize::try_from(most)
        .unwrap_or(usize::MAX)
        .min(buffer.len());
    buffer.split_to(length).freeze()
}

/// Takes a line that ends in CRLF, without its end. A bare LF is no line end.
fn take_line(buffer: &mut BytesMut) -> Result<Option<Bytes>, BodyError> {
    match buffer.iter().position(|byte| *byte == b'\n') {
        Some(at) => {
            let line = buffer.split_to(at).freeze();
            buffer.advance(1);
            match line.strip_suffix(b"\r") {
                Some(text) if !text.contains(&b'\r') => Ok(Some(line.slice_ref(text))),
                _ => Err(BodyError::Malformed(
                    "a line between chunks does not end in CR LF",
                )),
            }
        }
        None if buffer.len() > LONGEST_TRAILER => {
            Err(BodyError::Malformed("a line between chunks is too long"))
        }
        None => Ok(None),
    }
}

/// Up to 15 hexadecimal digits, and no chunk extension: nothing needs one, and peers disagree on
/// where it ends.
fn chunk_size(line: &[u8]) -> Result<u64, BodyError> {
    let digits = (1..=15).contains(&line.len()) && line.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(line).ok().filter(|_| digits);
    text.and_then(|text| u64::from_str_radix(text, 16).ok())
        .ok_or(BodyError::Malformed(
            "a chunk size is not a plain hexadecimal number",
        ))
}

/// Bytes of all trailer lines together.
const LONGEST_TRAILER: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `wire` in two parts and gathers the body and what is left behind it.
    fn decode(
        framing: Framing,
        wire: &[u8],
        split: usize,
    ) -> Result<(Vec<u8>, Vec<u8>), BodyError> {
        let mut decoder = BodyDecoder::new(framing, 100)?;
        let (mut buffer, mut body) = (BytesMut::new(), Vec::new());
        for part in [&wire[..split], &wire[split..]] {
            buffer.extend_from_slice(part);
            loop {
                match decoder.decode(&mut buffer)? {
                    Decoded::Data(piece) => body.extend_from_slice(&piece),
                    Decoded::More => break,
                    Decoded::End => break,
                }
            }
        }
        match decoder.decode(&mut buffer)? {
            Decoded::End => Ok((body, buffer.to_vec())),
            _ => Err(BodyError::Short),
        }
    }

    #[test]
    fn chunks_split_anywhere_give_the_same_body() {
        let wire = b"5\r\nhello\r\n0A\r\n, wide\r\nwo\r\n0\r\nx-end: 1\r\n\r\nGET /next";
        for split in 0..=wire.len() {
            let (body, rest) = decode(Framing::Chunked, wire, split).unwrap();
            assert_eq!(body, b"hello, wide\r\nwo", "{split}");
            assert_eq!(rest, b"GET /next", "{split}");
        }
    }

    #[test]
    fn a_length_ends_where_it_says() {
        let (body, rest) = decode(Framing::Length(3), b"abcGET /", 1).unwrap();
        assert_eq!((&body[..], &rest[..]), (&b"abc"[..], &b"GET /"[..]));
        assert_eq!(decode(Framing::Length(3), b"ab", 1), Err(BodyError::Short));
        assert_eq!(decode(Framing::Empty, b"GET /", 0).unwrap().1, b"GET /");
    }

    #[test]
    fn ambiguous_chunks_are_refused() {
        for wire in [
            &b"5;a=b\r\nhello\r\n0\r\n\r\n"[..],
            b"5\nhello\r\n0\r\n\r\n",
            b"5\r\nhelloX\r\n0\r\n\r\n",
            b"5\r\nhello\n0\r\n\r\n",
            b"+5\r\nhello\r\n0\r\n\r\n",
            b" 5\r\nhello\r\n0\r\n\r\n",
            b"0x5\r\nhello\r\n0\r\n\r\n",
            b"\r\nhello\r\n0\r\n\r\n",
            b"5\r\r\nhello\r\n0\r\n\r\n",
            b"fffffffffffffffff\r\nhello",
            b"5\r\nhello\r\n0\r\n\n",
        ] {
            let result = decode(Framing::Chunked, wire, wire.len());
            assert!(
                matches!(result, Err(BodyError::Malformed(_))),
                "{wire:?}: {result:?}"
            );
        }
    }

    #[test]
    fn the_limit_holds_for_the_sum() {
        assert_eq!(
            BodyDecoder::new(Framing::Length(101), 100).err(),
            Some(BodyError::TooLarge(100))
        );
        let wire = [&b"32\r\n"[..], &[b'a'; 50], b"\r\n33\r\n"].concat();
        assert!(matches!(
            decode(Framing::Chunked, &wire, 0),
            Err(BodyError::TooLarge(_))
        ));
        let endless = [&b"0\r\n"[..], &b"a: b\r\n".repeat(5000)].concat();
        assert!(matches!(
            decode(Framing::Chunked, &endless, 0),
            Err(BodyError::Malformed(_))
        ));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_taken_calmly(wire: Vec<u8>, split in 0usize..200) {
            let _ = decode(Framing::Chunked, &wire, split.min(wire.len()));
        }
    }
}
