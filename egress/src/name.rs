//! Host names and authorities in one canonical spelling.
//!
//! A rule is only as good as the spelling it is compared with. `EXAMPLE.com.`, `0x7f.1` and
//! `[::ffff:127.0.0.1]` are other spellings of names and addresses that a rule may mean, so a
//! text becomes a [`Host`] in exactly one way or not at all.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A host in canonical form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A DNS name: lower case, no trailing dot, not an address in any spelling.
    Name(Box<str>),
    /// A literal address.
    Address(IpAddr),
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Authority {
    /// The host.
    pub host: Host,
    /// The TCP port, never 0.
    pub port: u16,
}

/// Why a text is not a host or an authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// Nothing stands where the host should be.
    #[error("the host is empty")]
    Empty,
    /// A URL or a path where a host should be.
    #[error("it is more than a host; leave out `http://` and the path")]
    Url,
    /// A `*` in front, as other lists have it.
    #[error("write `.example.com` for `*.example.com`: it means the name and every name below it")]
    Star,
    /// RFC 1035 limits a name to 253 characters and a label to 63.
    #[error("the host or one of its labels is empty or too long")]
    Length,
    /// A byte that no host name holds; names in other scripts are given as `xn--`.
    #[error("the host holds a character other than letters, digits, `-`, `_` and `.`")]
    Character,
    /// A number that inet_aton(3) would read as an address, but that is not dotted decimal.
    #[error("the address is not in plain dotted decimal form")]
    OddAddress,
    /// Brackets around something that is not an IPv6 address; zone ids are not accepted either.
    #[error("the brackets do not hold an IPv6 address")]
    Brackets,
    /// The port is missing, 0, too large or not plain decimal.
    #[error("the port is not a number from 1 to 65535")]
    Port,
}

impl Host {
    /// Reads a host name, a dotted IPv4 address or a bracketed IPv6 address.
    ///
    /// # Errors
    /// [`NameError`] when the text has no single meaning.
    pub fn parse(text: &[u8]) -> Result<Self, NameError> {
        if let Some(inner) = text.strip_prefix(b"[") {
            let inner = inner.strip_suffix(b"]").ok_or(NameError::Brackets)?;
            return parse_v6(inner).map(|address| Self::Address(IpAddr::V6(address)));
        }
        let name = canonical_name(text)?;
        if ends_in_number(&name) {
            let address: Ipv4Addr = name.parse().map_err(|_| NameError::OddAddress)?;
            return Ok(Self::Address(IpAddr::V4(address)));
        }
        Ok(Self::Name(name.into_boxed_str()))
    }

    /// Whether this is the name that RFC 6761 reserves for the loopback interface.
    #[must_use]
    pub fn is_localhost(&self) -> bool {
        matches!(self, Self::Name(name) if &**name == "localhost")
    }

    /// The literal address, when it is one.
    #[must_use]
    pub const fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(*address),
            Self::Name(_) => None,
        }
    }

    /// The text without the brackets of an IPv6 address, as an effect's scope and SNI have it.
    #[must_use]
    pub fn bare(&self) -> String {
        match self {
            Self::Name(name) => name.to_string(),
            Self::Address(address) => address.to_string(),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => formatter.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(formatter),
            Self::Address(IpAddr::V6(address)) => write!(formatter, "[{address}]"),
        }
    }
}

impl Authority {
    /// Reads `host:port`; a missing port is `default_port`, or an error when there is none.
    ///
    /// # Errors
    /// [`NameError`] when the text has no single meaning.
    pub fn parse(text: &[u8], default_port: Option<u16>) -> Result<Self, NameError> {
        let (host, port) = split_port(text);
        let port = match port {
            Some(digits) => parse_port(digits)?,
            None => default_port.ok_or(NameError::Port)?,
        };
        Ok(Self {
            host: Host::parse(host)?,
            port,
        })
    }

    /// The text for a `Host` header: the port is left out where the scheme implies it.
    #[must_use]
    pub fn without_default(&self, default_port: u16) -> String {
        if self.port == default_port {
            self.host.to_string()
        } else {
            self.to_string()
        }
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.host, self.port)
    }
}

/// Splits at the colon that follows the host; colons inside brackets belong to the host.
pub(crate) fn split_port(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    let after_brackets = text.iter().rposition(|byte| *byte == b']').unwrap_or(0);
    let colon = text
        .iter()
        .skip(after_brackets)
        .position(|byte| *byte == b':');
    match colon.and_then(|offset| text.split_at_checked(after_brackets + offset)) {
        Some((host, port)) => (host, port.strip_prefix(b":")),
        None => (text, None),
    }
}

/// Plain decimal without sign or leading zero; `str::parse` alone would take `+80`.
pub(crate) fn parse_port(digits: &[u8]) -> Result<u16, NameError> {
    let plain = digits.iter().all(u8::is_ascii_digit) && digits.first() != Some(&b'0');
    let text = std::str::from_utf8(digits).map_err(|_| NameError::Port)?;
    if plain {
        text.parse().map_err(|_| NameError::Port)
    } else {
        Err(NameError::Port)
    }
}

fn parse_v6(text: &[u8]) -> Result<Ipv6Addr, NameError> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(NameError::Brackets)
}

fn canonical_name(text: &[u8]) -> Result<String, NameError> {
    let text = text.strip_suffix(b".").unwrap_or(text);
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if !text
        .iter()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
    {
        return Err(NameError::Character);
    }
    if text.len() > 253
        || text
            .split(|byte| *byte == b'.')
            .any(|l| !(1..=63).contains(&l.len()))
    {
        return Err(NameError::Length);
    }
    Ok(text
        .iter()
        .map(|byte| char::from(byte.to_ascii_lowercase()))
        .collect())
}

/// The rule of the WHATWG URL standard, "ends in a number": getaddrinfo(3) reads such a name as an
/// address, in octal, hexadecimal and with fewer than four parts too.
fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let hexadecimal = last.strip_prefix("0x");
    last.bytes().all(|byte| byte.is_ascii_digit())
        || hexadecimal.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests;
