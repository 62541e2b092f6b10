//! Reads the start of a tunnel until it is known whom the client talks to.

use crate::hello::{ClientHello, HelloError};
use crate::name::Host;
use crate::options::EncryptedHello;

/// Looks at the client's first bytes, in whatever pieces they arrive.
#[derive(Debug)]
pub(crate) struct Sniffer {
    host: Host,
    encrypted: EncryptedHello,
    phase: Phase,
    /// Bytes that are held back until they are judged.
    held: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The first message is not complete.
    First,
    /// The server may have asked for a second ClientHello (HelloRetryRequest, RFC 8446, 4.1.4),
    /// and some servers take the name from that one.
    Second,
    /// Nothing more can be learnt.
    Over,
}

impl Sniffer {
    pub(crate) const fn new(host: Host, encrypted: EncryptedHello) -> Self {
        Self {
            host,
            encrypted,
            phase: Phase::First,
            held: Vec::new(),
        }
    }

    /// Whether bytes may be passed on without asking any more.
    pub(crate) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Whether the client has begun a hello that is not complete.
    pub(crate) fn is_inside(&self) -> bool {
        !self.held.is_empty()
    }

    /// Takes bytes from the client and gives those that may be sent on, all before judged.
    ///
    /// # Errors
    /// [`HelloError`] when the connection must be closed; nothing that was held is sent then.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<u8>, HelloError> {
        self.held.extend_from_slice(bytes);
        let mut passed = Vec::new();
        while let Some(length) = self.step()? {
            passed.extend(self.held.drain(..length.min(self.held.len())));
        }
        Ok(passed)
    }

    /// Judges the front of what is held; `None` when more bytes are needed.
    fn step(&mut self) -> Result<Option<usize>, HelloError> {
        let Some(first) = self.held.first().copied() else {
            return Ok(None);
        };
        match (self.phase, first) {
            (Phase::Over, _) => Ok(Some(self.held.len())),
            (Phase::Second, CHANGE_CIPHER_SPEC) => {
                Ok(Record::read(&self.held).map(|record| record.wire_length))
            }
            (_, HANDSHAKE) => self.handshake(),
            _ => Ok(Some(self.finish())),
        }
    }

    /// Everything held, and all that follows, may pass.
    fn finish(&mut self) -> usize {
        self.phase = Phase::Over;
        self.held.len()
    }

    fn handshake(&mut self) -> Result<Option<usize>, HelloError> {
        match (self.phase, self.held.get(RECORD_HEADER)) {
            (_, None) => return check_header(&self.held).map(|()| None),
            (_, Some(&CLIENT_HELLO)) => {}
            // TLS 1.2: the client goes on with its certificate or its key exchange.
            (Phase::Second, Some(_)) => return Ok(Some(self.finish())),
            (_, Some(_)) => return Err(HelloError::Malformed),
        }
        let Some((body, wire_length)) = gather(&self.held)? else {
            return if self.held.len() > LONGEST_HELLO {
                Err(HelloError::TooLong)
            } else {
                Ok(None)
            };
        };
        self.judge(&body)?;
        self.phase = if self.phase == Phase::First {
            Phase::Second
        } else {
            Phase::Over
        };
        Ok(Some(wire_length))
    }

    fn judge(&self, body: &[u8]) -> Result<(), HelloError> {
        let hello = ClientHello::parse(body)?;
        if hello.encrypted && self.encrypted == EncryptedHello::Refuse {
            return Err(HelloError::Encrypted);
        }
        hello.check(&self.host)
    }
}

struct Record<'a> {
    payload: &'a [u8],
    wire_length: usize,
}

impl<'a> Record<'a> {
    /// The record at the front of `bytes`, when it is complete.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (&[_, _, _, high, low], rest) = bytes.split_first_chunk::<RECORD_HEADER>()?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let payload = rest.get(..length)?;
        Some(Self {
            payload,
            wire_length: length + RECORD_HEADER,
        })
    }
}

/// The body of the first handshake message, which may be spread over several records, and how many
/// bytes of the wire hold it. It must end where a record ends, as it does for every client: what
/// follows a ClientHello in its own record would not be looked at.
fn gather(mut bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, HelloError> {
    let (mut message, mut wire_length) = (Vec::new(), 0);
    loop {
        check_header(bytes)?;
        let Some(record) = Record::read(bytes) else {
            return Ok(None);
        };
        message.extend_from_slice(record.payload);
        wire_length += record.wire_length;
        if let Some(&[_, high, middle, low]) = message.first_chunk::<4>() {
            let length = u32::from_be_bytes([0, high, middle, low]) as usize + 4;
            match message.len() {
                have if have == length => return Ok(Some((message.split_off(4), wire_length))),
                have if have > length => return Err(HelloError::Malformed),
                _ if length > LONGEST_HELLO => return Err(HelloError::TooLong),
                _ => {}
            }
        }
        bytes = bytes.get(record.wire_length..).unwrap_or_default();
    }
}

/// Refuses a header of another kind, an empty record and an overlong one before its payload came.
fn check_header(bytes: &[u8]) -> Result<(), HelloError> {
    let kind = bytes.first().is_none_or(|kind| *kind == HANDSHAKE);
    let version = bytes.get(1).is_none_or(|major| *major == 3);
    let length = match bytes.get(3..5) {
        Some(&[high, low]) => usize::from(u16::from_be_bytes([high, low])),
        _ => 1,
    };
    let plausible = kind && version && (1..=LONGEST_RECORD).contains(&length);
    if plausible {
        Ok(())
    } else {
        Err(HelloError::Malformed)
    }
}

/// The largest record that a client may send in clear (RFC 8446, section 5.1).
const LONGEST_RECORD: usize = 1 << 14;
/// A hello with post-quantum key shares and a ticket stays below 4 KiB.
const LONGEST_HELLO: usize = 16 << 10;
const CHANGE_CIPHER_SPEC: u8 = 20;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const RECORD_HEADER: usize = 5;

#[cfg(test)]
mod tests;
