//! Keys that the sandbox never sees.

use std::fmt;

use hyper::header::HeaderValue;
use hyper::header::InvalidHeaderValue;
use zeroize::Zeroizing;

/// A key. It is never printed, and its memory is overwritten when it is dropped.
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes a key; white space around it, such as the line end of a file, is not part of it.
    /// `None` when nothing is left.
    #[must_use]
    pub fn new(value: impl Into<Vec<u8>>) -> Option<Self> {
        let value = Zeroizing::new(value.into());
        let trimmed = value.trim_ascii();
        (!trimmed.is_empty()).then(|| Self(Zeroizing::new(trimmed.to_vec())))
    }

    /// The header value that carries the key; it is marked so that it is not printed either.
    pub(crate) fn header(&self, prefix: &str) -> Result<HeaderValue, InvalidHeaderValue> {
        let text = Zeroizing::new([prefix.as_bytes(), &self.0].concat());
        let mut value = HeaderValue::from_bytes(&text)?;
        value.set_sensitive(true);
        Ok(value)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(not shown)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_printed() {
        let secret = Secret::new(" sk-very-secret\n").unwrap();
        assert_eq!(secret.bytes(), b"sk-very-secret");
        let header = secret.header("Bearer ").unwrap();
        assert!(!format!("{secret:?} {header:?}").contains("very"));
        assert!(Secret::new("\r\n ").is_none());
        assert!(Secret::new("a\nb").unwrap().header("").is_err());
    }
}
