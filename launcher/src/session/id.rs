//! Session ids: when it was made, and four random hexadecimal digits.

use std::fmt;

use rustix::rand::{GetRandomFlags, getrandom};

use super::clock::Moment;

/// The name of a session, such as `20261129-191500-ab12`. Sorts by time; safe as a file name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(String);

impl SessionId {
    /// A new id for a session made at `now`.
    ///
    /// # Errors
    /// When the kernel has no random numbers to give.
    pub fn generate(now: Moment) -> std::io::Result<Self> {
        let mut random = [0_u8; 2];
        getrandom(&mut random[..], GetRandomFlags::empty())?;
        Ok(Self(format!(
            "{}-{:04x}",
            now.compact(),
            u16::from_ne_bytes(random)
        )))
    }

    /// An id as it is found in the folder of sessions; `None` for any other name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (date, time, random) = (parts.next()?, parts.next()?, parts.next()?);
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let hexadecimal = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let whole = parts.next().is_none()
            && (date.len(), time.len(), random.len()) == (8, 6, 4)
            && digits(date)
            && digits(time)
            && random.bytes().all(hexadecimal);
        whole.then(|| Self(text.to_owned()))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_generated_parses_and_nothing_else_does() {
        let id = SessionId::generate(Moment::from_millis(0)).unwrap();
        assert!(id.as_str().starts_with("19700101-000000-"));
        assert_eq!(SessionId::parse(id.as_str()), Some(id));
        for other in [
            "",
            "..",
            "20261129-191500-AB12",
            "20261129-191500-ab12-",
            "20261129-191500",
        ] {
            assert_eq!(SessionId::parse(other), None, "{other}");
        }
    }
}
