//! One connection from the sandbox.

use std::io;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use hyper::header::{self, HeaderMap};
use hyper::{Method, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::head::{HeadError, RequestHead, TOO_LARGE, Version};
use crate::options::{Limits, Timeouts};

/// A connection and the bytes of it that nobody has taken yet.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    pub(crate) buffer: BytesMut,
}

/// An answer of our own, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// What happened, why, and what to do next.
    pub(crate) words: String,
}

/// How the client finds the end of a response's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFraming {
    /// There is none, whatever the fields say (RFC 9112, section 6.3).
    None,
    /// It has this many bytes.
    Length(u64),
    /// In chunks.
    Chunked,
    /// It ends with the connection.
    Close,
}

impl Client {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: BytesMut::with_capacity(8 << 10),
        })
    }

    /// Reads the next head; `None` when the client went away or stayed silent between requests.
    pub(crate) async fn read_head(
        &mut self,
        limits: &Limits,
        timeouts: &Timeouts,
    ) -> Result<Option<RequestHead>, HeadError> {
        if self.buffer.is_empty() {
            match timeout(timeouts.keep_alive, self.stream.read_buf(&mut self.buffer)).await {
                Ok(Ok(1..)) => {}
                _ => return Ok(None),
            }
        }
        let late = HeadError {
            status: StatusCode::REQUEST_TIMEOUT,
            reason: "the head is late",
        };
        let end = timeout(timeouts.head, self.head_end(limits.head_bytes)).await;
        let Some(end) = end.map_err(|_elapsed| late)?? else {
            return Ok(None);
        };
        let head = self.buffer.split_to(end);
        RequestHead::parse(&head, limits.headers).map(Some)
    }

    /// Reads until the empty line and gives the position behind it; `None` when the client left.
    async fn head_end(&mut self, most: usize) -> Result<Option<usize>, HeadError> {
        let mut searched = 0;
        loop {
            if let Some(end) = find_end(&self.buffer, searched)? {
                return if end > most {
                    Err(TOO_LARGE)
                } else {
                    Ok(Some(end))
                };
            }
            if self.buffer.len() > most {
                return Err(TOO_LARGE);
            }
            searched = self.buffer.len().saturating_sub(3);
            match self.stream.read_buf(&mut self.buffer).await {
                Ok(1..) => {}
                _ => return Ok(None),
            }
        }
    }

    /// Sends an answer of our own; the connection is to be closed after it.
    pub(crate) async fn answer(&mut self, answer: &Answer, method: &Method) -> io::Result<()> {
        let body = if method == Method::HEAD {
            ""
        } else {
            answer.words.as_str()
        };
        let response = format!(
            "HTTP/1.1 {} {}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\
             cache-control: no-store\r\nconnection: close\r\n\r\n{body}",
            answer.status.as_u16(),
            answer.reason_phrase(),
            answer.words.len(),
        );
        timeout(LONGEST_ANSWER, self.stream.write_all(response.as_bytes())).await?
    }

    /// Closes so that an answer arrives although the client is still sending: a socket closed with
    /// unread bytes sends RST, which lets the peer discard what it has not read (RFC 9112, 9.6).
    pub(crate) async fn close(mut self) {
        let drain = async {
            self.stream.shutdown().await?;
            let mut scrap = [0; 8 << 10];
            let mut left: usize = MOST_DRAINED;
            while left > 0 {
                match self.stream.read(&mut scrap).await? {
                    0 => break,
                    count => left = left.saturating_sub(count),
                }
            }
            io::Result::Ok(())
        };
        // Nothing is left to tell and nobody to tell it to.
        drop(timeout(LONGEST_DRAIN, drain).await);
    }
}

impl Answer {
    /// Several clients show the reason phrase of a failed CONNECT and nothing else.
    fn reason_phrase(&self) -> String {
        let line = self.words.split(['\n', ';']).next().unwrap_or_default();
        let plain = |character: char| character == ' ' || character.is_ascii_graphic();
        line.chars()
            .filter(|character| plain(*character))
            .take(200)
            .collect()
    }
}

impl BodyFraming {
    /// How a body of `length` bytes (when that is known) is framed for this client.
    pub(crate) fn of(
        method: &Method,
        version: Version,
        status: StatusCode,
        length: Option<u64>,
    ) -> Self {
        let bodyless = status.is_informational()
            || status == StatusCode::NO_CONTENT
            || status == StatusCode::NOT_MODIFIED;
        match (length, version) {
            _ if bodyless || method == Method::HEAD => Self::None,
            (Some(length), _) => Self::Length(length),
            (None, Version::Http11) => Self::Chunked,
            (None, Version::Http10) => Self::Close,
        }
    }

    /// The head of a response; fields that frame it are ours.
    pub(crate) fn head(self, status: StatusCode, headers: &mut HeaderMap, keep: bool) -> Bytes {
        if self != Self::None {
            headers.remove(header::CONTENT_LENGTH);
        }
        let mut head = BytesMut::with_capacity(1024);
        let reason = status.canonical_reason().unwrap_or_default();
        head.extend_from_slice(format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).as_bytes());
        for (name, value) in headers.iter() {
            head.extend_from_slice(name.as_str().as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value.as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        match self {
            Self::Length(length) => {
                head.extend_from_slice(format!("content-length: {length}\r\n").as_bytes());
            }
            Self::Chunked => head.extend_from_slice(b"transfer-encoding: chunked\r\n"),
            Self::None | Self::Close => {}
        }
        head.extend_from_slice(if keep {
            b"\r\n"
        } else {
            b"connection: close\r\n\r\n"
        });
        head.freeze()
    }

    /// Sends one piece of the body at once.
    pub(crate) async fn write(
        self,
        client: &mut (impl AsyncWrite + Unpin),
        piece: Bytes,
        patience: Duration,
    ) -> io::Result<()> {
        if piece.is_empty() || self == Self::None {
            return Ok(());
        }
        let (start, end) = match self {
            Self::Chunked => (format!("{:x}\r\n", piece.len()), &b"\r\n"[..]),
            _ => (String::new(), &b""[..]),
        };
        let mut framed = Buf::chain(start.as_bytes(), piece).chain(end);
        timeout(patience, client.write_all_buf(&mut framed)).await?
    }

    /// Sends what ends a complete body.
    pub(crate) async fn finish(
        self,
        client: &mut (impl AsyncWrite + Unpin),
        patience: Duration,
    ) -> io::Result<()> {
        match self {
            Self::Chunked => timeout(patience, client.write_all(b"0\r\n\r\n")).await?,
            Self::None | Self::Length(_) | Self::Close => Ok(()),
        }
    }
}

/// Finds the end of the empty line, looking only at bytes behind `from`; refuses a bare LF before.
fn find_end(buffer: &[u8], from: usize) -> Result<Option<usize>, HeadError> {
    let bare = HeadError {
        status: StatusCode::BAD_REQUEST,
        reason: "a line ends in a bare LF",
    };
    for (offset, byte) in buffer.iter().enumerate().skip(from) {
        if *byte != b'\n' {
            continue;
        }
        let Some(before) = buffer.get(..offset) else {
            continue;
        };
        if before.ends_with(b"\r\n\r") {
            return Ok(Some(offset + 1));
        }
        if !before.ends_with(b"\r") {
            return Err(bare);
        }
    }
    Ok(None)
}

/// Bytes that are read and thrown away so that the client sees the answer.
const MOST_DRAINED: usize = 1 << 20;
/// How long a client may take to make room for an answer of ours.
const LONGEST_ANSWER: Duration = Duration::from_secs(10);
/// How long bytes are waited for that are thrown away.
const LONGEST_DRAIN: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
