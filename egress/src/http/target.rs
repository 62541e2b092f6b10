//! The target of a request: where it goes.

use hyper::Method;
use hyper::http::uri::PathAndQuery;

use super::head::{HeadError, bad};
use crate::name::Authority;

/// The four forms of a request target (RFC 9112, section 3.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// `/path?query`
    Origin(PathAndQuery),
    /// `http://host/path?query`
    Absolute(Authority, PathAndQuery),
    /// `host:port`, for CONNECT only.
    Authority(Authority),
    /// `*`, for OPTIONS only.
    Asterisk,
}

impl Target {
    /// Reads the target of a request line.
    pub(super) fn parse(method: &Method, target: &[u8]) -> Result<Self, HeadError> {
        if !target
            .iter()
            .all(|byte| (0x21..=0x7e).contains(byte) && *byte != b'#')
        {
            return Err(bad(
                "the target holds a character that must be percent-encoded",
            ));
        }
        if method == Method::CONNECT {
            let authority = Authority::parse(target, None);
            return authority
                .map(Target::Authority)
                .map_err(|_| bad("CONNECT needs host:port"));
        }
        if target == b"*" && method == Method::OPTIONS {
            return Ok(Target::Asterisk);
        }
        if target.first() == Some(&b'/') {
            return path_and_query(target).map(Target::Origin);
        }
        absolute(target)
    }
}

fn absolute(target: &[u8]) -> Result<Target, HeadError> {
    let scheme = target
        .get(..HTTP.len())
        .filter(|scheme| scheme.eq_ignore_ascii_case(HTTP));
    let (Some(_), Some(rest)) = (scheme, target.get(HTTP.len()..)) else {
        return Err(bad(
            "the target is neither a path nor an http:// URL; use CONNECT for https",
        ));
    };
    let end = rest
        .iter()
        .position(|byte| b"/?".contains(byte))
        .unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, b""));
    let authority = Authority::parse(authority, Some(80))
        .map_err(|_| bad("the URL does not name a host in one plain spelling"))?;
    let path = match path.first() {
        Some(b'/') => path_and_query(path)?,
        _ => path_and_query(&[b"/", path].concat())?,
    };
    Ok(Target::Absolute(authority, path))
}

fn path_and_query(bytes: &[u8]) -> Result<PathAndQuery, HeadError> {
    PathAndQuery::try_from(bytes).map_err(|_| bad("the path is not valid"))
}

const HTTP: &[u8] = b"http://";
