//! The head of a request.

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};

use super::target::Target;
use crate::name::Authority;

/// A request line and its header fields.
#[derive(Debug)]
pub(crate) struct RequestHead {
    pub(crate) method: Method,
    pub(crate) target: Target,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) framing: Framing,
}

/// The version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// HTTP/1.0: one request for each connection, no chunks.
    Http10,
    /// HTTP/1.1.
    Http11,
}

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is no body.
    Empty,
    /// This many bytes follow.
    Length(u64),
    /// Chunks follow.
    Chunked,
}

/// Why a head is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct HeadError {
    pub(crate) status: StatusCode,
    pub(crate) reason: &'static str,
}

impl RequestHead {
    /// Reads a whole head, including the empty line that ends it.
    pub(crate) fn parse(bytes: &[u8], most_headers: usize) -> Result<Self, HeadError> {
        let text = bytes
            .strip_suffix(b"\r\n\r\n")
            .ok_or(bad("the head does not end"))?;
        let mut lines = Lines(Some(text));
        let (method, target, version) = request_line(lines.next().unwrap_or_default())?;
        let mut headers = HeaderMap::with_capacity(16);
        for line in lines {
            let (name, value) = field(line)?;
            headers.append(name, value);
            if headers.len() > most_headers {
                return Err(TOO_LARGE);
            }
        }
        let framing = framing(&headers, version)?;
        check_host(&headers, &target, version)?;
        Ok(Self {
            method,
            target,
            version,
            headers,
            framing,
        })
    }

    /// Whether the client lets the connection stay open after the answer.
    pub(crate) fn keeps_alive(&self) -> bool {
        self.version == Version::Http11 && !lists(&self.headers, &header::CONNECTION, "close")
    }

    /// Whether the client waits for `100 Continue` before it sends the body.
    pub(crate) fn expects_continue(&self) -> bool {
        self.framing != Framing::Empty && lists(&self.headers, &header::EXPECT, "100-continue")
    }

    /// Removes the fields that belong to one connection (RFC 9110, section 7.6.1).
    pub(crate) fn strip_hop_by_hop(headers: &mut HeaderMap) {
        let named: Vec<HeaderName> = listed(headers, &header::CONNECTION)
            .filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok())
            .collect();
        for name in named {
            headers.remove(name);
        }
        for name in HOP_BY_HOP {
            headers.remove(name);
        }
    }
}

/// Whether the comma-separated field `name` holds `token`, in any case.
fn lists(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    listed(headers, name).any(|listed| listed.eq_ignore_ascii_case(token))
}

fn listed<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// The lines of a head, split at CRLF alone: a bare LF stays in the line and is refused there.
struct Lines<'a>(Option<&'a [u8]>);

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.0?;
        let at = rest.windows(2).position(|pair| pair == b"\r\n");
        let Some((line, after)) = at.and_then(|at| rest.split_at_checked(at)) else {
            self.0 = None;
            return Some(rest);
        };
        self.0 = after.strip_prefix(b"\r\n");
        Some(line)
    }
}

fn request_line(line: &[u8]) -> Result<(Method, Target, Version), HeadError> {
    let mut parts = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(bad("the request line does not have three parts"));
    };
    let version = match version {
        b"HTTP/1.1" => Version::Http11,
        b"HTTP/1.0" => Version::Http10,
        _ => return Err(bad("the protocol is not HTTP/1.1")),
    };
    let method = Method::from_bytes(method).map_err(|_| bad("the method is not a token"))?;
    let target = Target::parse(&method, target)?;
    Ok((method, target, version))
}

/// HeaderName accepts tokens only, so a folded line and a space before the colon fail here;
/// HeaderValue refuses control characters, a bare CR, LF and NUL among them.
fn field(line: &[u8]) -> Result<(HeaderName, HeaderValue), HeadError> {
    let colon = line.iter().position(|byte| *byte == b':');
    let (name, value) = colon
        .and_then(|at| line.split_at_checked(at))
        .ok_or(bad("a header field has no colon"))?;
    let value = value.strip_prefix(b":").unwrap_or(value).trim_ascii();
    let name = HeaderName::from_bytes(name).map_err(|_| bad("a header name is not a token"))?;
    let value = HeaderValue::from_bytes(value)
        .map_err(|_| bad("a header value holds a control character"))?;
    Ok((name, value))
}

/// RFC 9112, section 6, without the leniencies: one length or one `chunked`, never both.
fn framing(headers: &HeaderMap, version: Version) -> Result<Framing, HeadError> {
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (lengths.next(), codings.next()) {
        (Some(_), Some(_)) => Err(bad("Content-Length and Transfer-Encoding stand together")),
        _ if lengths.next().is_some() => Err(bad("Content-Length stands twice")),
        _ if codings.next().is_some() => Err(bad("Transfer-Encoding stands twice")),
        (None, None) => Ok(Framing::Empty),
        (Some(length), None) => content_length(length),
        (None, Some(_)) if version == Version::Http10 => {
            Err(bad("Transfer-Encoding is not part of HTTP/1.0"))
        }
        (None, Some(coding)) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => {
            Ok(Framing::Chunked)
        }
        (None, Some(_)) => Err(bad("the only Transfer-Encoding accepted is chunked")),
    }
}

fn content_length(value: &HeaderValue) -> Result<Framing, HeadError> {
    let digits = value
        .to_str()
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(0) => Ok(Framing::Empty),
        Some(length) => Ok(Framing::Length(length)),
        None => Err(bad("Content-Length is not a number")),
    }
}

/// One Host field, equal to the authority of the target where it has one.
fn check_host(headers: &HeaderMap, target: &Target, version: Version) -> Result<(), HeadError> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (host, second) = (hosts.next(), hosts.next());
    if second.is_some() {
        return Err(bad("Host stands twice"));
    }
    let Some(host) = host else {
        return match version {
            Version::Http11 => Err(bad("Host is missing")),
            Version::Http10 => Ok(()),
        };
    };
    let (authority, default_port) = match target {
        Target::Authority(authority) => (authority, authority.port),
        Target::Absolute(authority, _) => (authority, 80),
        Target::Origin(_) | Target::Asterisk => return Ok(()),
    };
    match Authority::parse(host.as_bytes(), Some(default_port)) {
        Ok(named) if named == *authority => Ok(()),
        _ => Err(bad("Host differs from the authority of the request line")),
    }
}

pub(super) const fn bad(reason: &'static str) -> HeadError {
    HeadError {
        status: StatusCode::BAD_REQUEST,
        reason,
    }
}

pub(super) const TOO_LARGE: HeadError = HeadError {
    status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    reason: "the head is too large",
};

const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

#[cfg(test)]
mod tests;
