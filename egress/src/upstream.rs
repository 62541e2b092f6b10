//! The APIs behind the reverse proxy: where they are, what may be asked of them, and with which key.

use std::ffi::OsString;

use aegis_policies::tables;
use hyper::header::{HeaderMap, HeaderName};
use hyper::http::uri::PathAndQuery;

use crate::allow::Listing;
use crate::error::EgressError;
use crate::name::{Authority, Host};
use crate::secret::Secret;

/// One API: its table entry, its base URL and its key.
#[derive(Debug)]
pub struct Upstream {
    pub(crate) entry: tables::Upstream,
    pub(crate) base: Base,
    pub(crate) key: Option<Key>,
    strip: Vec<HeaderName>,
}

/// A base URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    /// Whether it is https.
    pub(crate) secure: bool,
    pub(crate) authority: Authority,
    /// What stands before the path of a request; no trailing slash.
    root: String,
    /// What the sandbox's base URL has and this one has not, such as `/v1`.
    surplus: String,
    /// Whether the user's own environment named it.
    pub(crate) chosen: bool,
}

/// A key and the header that carries it.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) credential: tables::Credential,
    pub(crate) header: HeaderName,
    pub(crate) secret: Secret,
}

impl Upstream {
    /// Completes a table entry with what the launcher's environment says: the base URL, when its
    /// variable is set, and the first credential that is.
    ///
    /// # Errors
    /// [`EgressError`] when the base URL is not https (or plain http to this machine), or when the
    /// key can not stand in a header.
    pub fn from_table(
        entry: &tables::Upstream,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, EgressError> {
        let chosen = variable(&entry.endpoint.variable).filter(|value| !value.is_empty());
        let base = match chosen {
            Some(url) => Base::chosen(entry, &url.to_string_lossy())?,
            None => Base::parse(entry, &entry.endpoint.base)?,
        };
        let given = entry.credential.iter().find_map(|credential| {
            let value = variable(&credential.variable)?;
            Some((credential, Secret::new(value.into_encoded_bytes())?))
        });
        let key = given.map(|(credential, secret)| Key::new(entry, credential, secret));
        let strip = entry
            .strip
            .iter()
            .map(|name| header_name(entry, "strip", name));
        Ok(Self {
            entry: entry.clone(),
            base,
            key: key.transpose()?,
            strip: strip.collect::<Result<_, _>>()?,
        })
    }

    /// The name, as policies and the journal use it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// Whether the launcher was given a key; without one every request is refused.
    #[must_use]
    pub const fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Removes every credential that the agent may have sent, and what would change what comes
    /// back so that the key could pass the scrubber: parts of a body, and compressed ones.
    pub(crate) fn strip(&self, headers: &mut HeaderMap) {
        let fixed = [
            "accept-encoding",
            "expect",
            "forwarded",
            "host",
            "if-range",
            "range",
        ];
        for name in &self.strip {
            headers.remove(name);
        }
        for name in fixed {
            headers.remove(name);
        }
        for key in self.key.iter() {
            headers.remove(&key.header);
        }
    }
}

impl Base {
    /// The base URL of the table's own form.
    fn parse(entry: &tables::Upstream, url: &str) -> Result<Self, EgressError> {
        let error = |reason| EgressError::BaseUrl {
            name: entry.name.clone(),
            url: without_user(url),
            reason,
        };
        let (secure, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err(error("it starts with neither https:// nor http://")),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let port = if secure { 443 } else { 80 };
        let authority = Authority::parse(authority.as_bytes(), Some(port))
            .map_err(|_| error("it does not name a host in one plain spelling"))?;
        if !secure && !is_this_machine(&authority.host) {
            return Err(error("the key would travel unencrypted; use https"));
        }
        let root = path.trim_end_matches('/').to_owned();
        if !root.is_empty() && (!is_plain(&root) || root.contains('?')) {
            return Err(error("its path is not a plain path"));
        }
        Ok(Self {
            secure,
            authority,
            root,
            surplus: String::new(),
            chosen: false,
        })
    }

    /// The value of the base URL variable, which has the suffix where the API's clients expect it.
    fn chosen(entry: &tables::Upstream, url: &str) -> Result<Self, EgressError> {
        let base = Self::parse(entry, url)?;
        let suffix = entry.endpoint.suffix.as_str();
        Ok(match base.root.strip_suffix(suffix) {
            Some(root) => Self {
                root: root.to_owned(),
                chosen: true,
                ..base
            },
            None => Self {
                surplus: suffix.to_owned(),
                chosen: true,
                ..base
            },
        })
    }

    /// The path outside for a path inside.
    pub(crate) fn path(&self, inside: &PathAndQuery) -> Option<PathAndQuery> {
        let inside = inside.as_str();
        let rest = inside.strip_prefix(&self.surplus).unwrap_or(inside);
        format!("{}{rest}", self.root).parse().ok()
    }

    /// What the user meant by the host: an address of this machine only when it was chosen.
    pub(crate) fn listing(&self) -> Listing {
        let exact = self.authority.host.address().is_some() || self.authority.host.is_localhost();
        if self.chosen && exact {
            Listing::Meant
        } else {
            Listing::Named
        }
    }
}

impl Key {
    fn new(
        entry: &tables::Upstream,
        credential: &tables::Credential,
        secret: Secret,
    ) -> Result<Self, EgressError> {
        if secret.header(&credential.prefix).is_err() {
            return Err(EgressError::Key {
                name: entry.name.clone(),
            });
        }
        let header = header_name(entry, "credential header", &credential.header)?;
        Ok(Self {
            credential: credential.clone(),
            header,
            secret,
        })
    }
}

/// Whether a path means the same to everybody: no dot segments, no empty ones, no encoded
/// separators. What a router might fold, a prefix rule can not judge.
pub(crate) fn is_plain(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    let hidden = ["%2e", "%2f", "%5c", "%25", "%00", "\\", "//", ";"];
    let dots = lower
        .split('/')
        .any(|segment| segment == "." || segment == "..");
    path.starts_with('/') && !dots && !hidden.iter().any(|hidden| lower.contains(hidden))
}

fn is_this_machine(host: &Host) -> bool {
    host.is_localhost() || host.address().is_some_and(|address| address.is_loopback())
}

/// An address line for a message, without a password that may stand in it.
fn without_user(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => {
            let (before, after) = (url.get(..scheme + 3), url.get(at + 1..));
            format!(
                "{}{}",
                before.unwrap_or_default(),
                after.unwrap_or_default()
            )
        }
        _ => aegis_policies::path::escape(url.as_bytes()),
    }
}

fn header_name(
    entry: &tables::Upstream,
    field: &'static str,
    value: &str,
) -> Result<HeaderName, EgressError> {
    HeaderName::from_bytes(value.as_bytes()).map_err(|_| EgressError::Table {
        name: entry.name.clone(),
        field,
        value: value.to_owned(),
    })
}

#[cfg(test)]
mod tests;
