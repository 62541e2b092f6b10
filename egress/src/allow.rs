//! The hosts that the user listed.

use crate::error::EgressError;
use crate::name::{Authority, Host, NameError, parse_port, split_port};

/// The list of hosts that a session may reach.
///
/// An entry is `host`, `host:port`, `.suffix` or `.suffix:port`. Without a port it means the web's
/// own ports, 80 and 443. `.example.com` means `example.com` and every name below it.
#[derive(Clone, Debug, Default)]
pub struct AllowList {
    entries: Vec<Entry>,
}

/// One line of the list.
#[derive(Clone, Debug)]
struct Entry {
    host: Pattern,
    port: Option<u16>,
}

#[derive(Clone, Debug)]
enum Pattern {
    Exact(Host),
    Suffix(Box<str>),
}

/// How a destination is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listing {
    /// Not at all.
    Absent,
    /// By name; every address of it is vetted.
    Named,
    /// As a literal address, or as `localhost` with a port: this address is what the user meant.
    Meant,
}

impl AllowList {
    /// Reads entries, from the command line or from a table.
    ///
    /// # Errors
    /// [`EgressError::AllowEntry`] names the first entry that has no single meaning.
    pub fn parse<I>(entries: I) -> Result<Self, EgressError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let entries = entries.into_iter().map(|entry| Entry::read(entry.as_ref()));
        Ok(Self {
            entries: entries.collect::<Result<_, _>>()?,
        })
    }

    /// Whether and how `destination` is listed.
    pub(crate) fn listing(&self, destination: &Authority) -> Listing {
        let matching = self
            .entries
            .iter()
            .filter(|entry| entry.matches(destination));
        matching.fold(Listing::Absent, |best, entry| match best {
            Listing::Meant => best,
            _ if entry.is_meant() => Listing::Meant,
            _ => Listing::Named,
        })
    }
}

impl Entry {
    fn read(text: &str) -> Result<Self, EgressError> {
        Self::parse(text).map_err(|reason| EgressError::AllowEntry {
            entry: aegis_policies::path::escape(text.as_bytes()),
            reason,
        })
    }

    fn parse(text: &str) -> Result<Self, NameError> {
        if text.contains('/') {
            return Err(NameError::Url);
        }
        if text.starts_with("*.") {
            return Err(NameError::Star);
        }
        let (host, port) = split_port(text.as_bytes());
        let port = port.map(parse_port).transpose()?;
        Ok(Self {
            host: Pattern::parse(host)?,
            port,
        })
    }

    fn matches(&self, destination: &Authority) -> bool {
        let port = match self.port {
            Some(port) => port == destination.port,
            None => WEB_PORTS.contains(&destination.port),
        };
        port && self.host.matches(&destination.host)
    }

    fn is_meant(&self) -> bool {
        match &self.host {
            Pattern::Exact(Host::Address(_)) => true,
            Pattern::Exact(host) => host.is_localhost() && self.port.is_some(),
            Pattern::Suffix(_) => false,
        }
    }
}

impl Pattern {
    fn parse(text: &[u8]) -> Result<Self, NameError> {
        let Some(suffix) = text.strip_prefix(b".") else {
            return Host::parse(text).map(Self::Exact);
        };
        match Host::parse(suffix)? {
            Host::Name(name) => Ok(Self::Suffix(name)),
            Host::Address(_) => Err(NameError::OddAddress),
        }
    }

    fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Exact(exact), host) => exact == host,
            (Self::Suffix(suffix), Host::Name(name)) => match name.strip_suffix(&**suffix) {
                Some(rest) => rest.is_empty() || rest.ends_with('.'),
                None => false,
            },
            (Self::Suffix(_), Host::Address(_)) => false,
        }
    }
}

/// What an entry without a port means: HTTP and HTTPS.
const WEB_PORTS: [u16; 2] = [80, 443];

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(entries: &[&str], destination: &str) -> Listing {
        let list = AllowList::parse(entries).unwrap();
        list.listing(&Authority::parse(destination.as_bytes(), None).unwrap())
    }

    #[test]
    fn a_host_without_a_port_means_the_web() {
        let entries = ["registry.example"];
        assert_eq!(listing(&entries, "registry.example:443"), Listing::Named);
        assert_eq!(listing(&entries, "REGISTRY.example.:80"), Listing::Named);
        assert_eq!(listing(&entries, "registry.example:22"), Listing::Absent);
        assert_eq!(listing(&entries, "a.registry.example:443"), Listing::Absent);
        assert_eq!(
            listing(&["registry.example:22"], "registry.example:22"),
            Listing::Named
        );
        assert_eq!(
            listing(&["registry.example:22"], "registry.example:443"),
            Listing::Absent
        );
    }

    #[test]
    fn a_suffix_ends_at_a_label() {
        let entries = [".example.com", ".corp.test:8443"];
        for name in ["example.com:443", "a.example.com:443", "a.b.example.com:80"] {
            assert_eq!(listing(&entries, name), Listing::Named, "{name}");
        }
        for name in [
            "evilexample.com:443",
            "example.com.evil.test:443",
            "a.corp.test:443",
        ] {
            assert_eq!(listing(&entries, name), Listing::Absent, "{name}");
        }
        assert_eq!(listing(&entries, "a.corp.test:8443"), Listing::Named);
    }

    #[test]
    fn only_a_literal_or_localhost_with_a_port_is_meant() {
        assert_eq!(
            listing(&["127.0.0.1:5432"], "127.0.0.1:5432"),
            Listing::Meant
        );
        assert_eq!(
            listing(&["localhost:5432"], "localhost:5432"),
            Listing::Meant
        );
        assert_eq!(listing(&["localhost"], "localhost:443"), Listing::Named);
        assert_eq!(listing(&["[::1]:99"], "[::1]:99"), Listing::Meant);
        assert_eq!(
            listing(&["localhost:5432"], "localhost:5433"),
            Listing::Absent
        );
        assert_eq!(
            listing(&["localhost:5432"], "127.0.0.1:5432"),
            Listing::Absent
        );
    }

    #[test]
    fn what_people_write_instead_is_told_apart() {
        let reason = |entry| AllowList::parse([entry]).unwrap_err().to_string();
        assert!(reason("http://a.example/").contains("leave out `http://`"));
        assert!(reason("*.a.example").contains("write `.example.com`"));
    }

    #[test]
    fn entries_without_a_single_meaning_are_errors() {
        for entry in [
            "", ".", "a..b", "http://a", "a/b", "*.a", "a:0", "0x7f.1", ".1.2.3.4", "a b",
        ] {
            assert!(AllowList::parse([entry]).is_err(), "{entry}");
        }
    }
}
