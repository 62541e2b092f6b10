//! What is said over the socket: one line of JSON each way, and then it is closed.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of everything here; another is refused.
const VERSION: u32 = 1;
/// Longest line, in bytes.
const LONGEST: u64 = 64 << 10;

/// What a command asks of the process that serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// Takes a snapshot.
    Snapshot {
        /// What it is to be called.
        name: Option<String>,
    },
    /// Makes the tree what it was after an entry.
    Rewind {
        /// The number of the entry.
        to: u64,
        /// Whether files that are not kept as they were may become something else.
        approximate: bool,
    },
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It is done; this entry holds the snapshot that was taken, of a rewind the one before it.
    Done {
        /// The number of the entry.
        snapshot: u64,
    },
    /// It is not done.
    Refused {
        /// Why.
        why: String,
        /// What the person can do about it, if that is known.
        next: Option<String>,
    },
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

#[derive(Serialize, Deserialize)]
struct Line<T> {
    version: u32,
    says: T,
}

/// Writes one line.
pub(super) fn write(to: &mut impl Write, says: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(&Line {
        version: VERSION,
        says,
    })?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Reads one line.
pub(super) fn read(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.last() != Some(&b'\n') {
        if line.len() as u64 >= LONGEST {
            return Err(invalid("the line is too long"));
        }
        if from.read(&mut byte)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.extend_from_slice(&byte);
    }
    Ok(line)
}

/// What a line says.
pub(super) fn parse<T: DeserializeOwned>(line: &[u8]) -> io::Result<T> {
    let line: Line<T> = serde_json::from_slice(line)?;
    if line.version != VERSION {
        return Err(invalid("the other side is of another version of aegis-os"));
    }
    Ok(line.says)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let ask = Ask::Rewind {
            to: 7,
            approximate: false,
        };
        let mut line = Vec::new();
        write(&mut line, &ask).unwrap();
        assert_eq!(
            line,
            b"{\"version\":1,\"says\":{\"rewind\":{\"to\":7,\"approximate\":false}}}\n"
        );
        let read = read(&mut line.as_slice()).unwrap();
        assert_eq!(parse::<Ask>(&read).unwrap(), ask);
    }

    #[test]
    fn nothing_else_is_taken() {
        let long = vec![b' '; 1 << 17];
        let other = br#"{"version":2,"says":{"snapshot":{"name":null}}}
"#
        .to_vec();
        for bad in [
            b"".to_vec(),
            b"{}\n".to_vec(),
            b"\xff\n".to_vec(),
            long,
            other,
        ] {
            let read = read(&mut bad.as_slice());
            assert!(read.and_then(|line| parse::<Ask>(&line)).is_err());
        }
    }
}
