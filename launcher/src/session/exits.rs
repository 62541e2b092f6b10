//! The ways out of a session: which listeners it gets inside, and what stands behind them.

use std::env;
use std::ffi::OsString;
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;

use aegis_egress::{AllowList, Door, EgressError, Entrance, Options, Upstream, environment};
use aegis_policies::Gate;
use aegis_policies::tables::{self, TableError};

use crate::sandbox;

/// The port of the proxy inside; those of the upstreams follow. They lie below the range from which
/// Linux takes ports by itself, and nothing else listens in a new network namespace.
const FIRST_PORT: u16 = 17_801;

/// Why the ways out can not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExitsError {
    /// The table of upstreams is not valid.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A setting can not be used, or the door not be opened.
    #[error(transparent)]
    Egress(#[from] EgressError),
    /// The sandbox did not hand out the listeners that were asked for.
    #[error("the sandbox handed out {given} listeners of {wanted}")]
    Listeners {
        /// How many came.
        given: usize,
        /// How many were asked for.
        wanted: usize,
    },
}

/// Whether an entry of the list means this machine: programs that honour `NO_PROXY` look for it
/// inside the sandbox, where it is another one.
pub(super) fn is_local(entry: &str) -> bool {
    let port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let host = match entry.rsplit_once(':') {
        Some((host, rest)) if port(rest) && !host.ends_with(':') => host,
        _ => entry,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

/// What a session can reach, from the user's settings and the launcher's environment.
#[derive(Debug)]
pub struct Exits {
    upstreams: Vec<Upstream>,
    allow: AllowList,
}

impl Exits {
    /// Reads the keys and base URLs of the launcher's environment and the list of hosts.
    ///
    /// # Errors
    /// [`ExitsError`] when one of them can not be used.
    pub fn new(allow: &[String]) -> Result<Self, ExitsError> {
        let variable = |name: &str| env::var_os(name);
        let upstreams = tables::upstreams()?
            .iter()
            .map(|entry| Upstream::from_table(entry, variable))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            upstreams,
            allow: AllowList::parse(allow)?,
        })
    }

    /// The ports on which the sandbox is to listen.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        (FIRST_PORT..).take(self.upstreams.len() + 1).collect()
    }

    /// The variables that lead programs inside to those ports.
    #[must_use]
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let behind: Vec<_> = self.upstreams.iter().zip(FIRST_PORT + 1..).collect();
        environment(FIRST_PORT, &behind)
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    }

    /// Starts to serve the listeners that the sandbox handed out.
    ///
    /// # Errors
    /// [`ExitsError`] when they are not those that were asked for, or can not be served.
    pub fn open(
        self,
        doors: Vec<sandbox::Door>,
        gate: Arc<Gate>,
        agent: Arc<str>,
    ) -> Result<Door, ExitsError> {
        let wanted = self.ports();
        let given: Vec<_> = doors.iter().map(|door| door.port).collect();
        if given != wanted {
            return Err(ExitsError::Listeners {
                given: given.len(),
                wanted: wanted.len(),
            });
        }
        let reverse = self
            .upstreams
            .iter()
            .map(|one| Entrance::Reverse(one.name().to_owned()));
        let entrances = std::iter::once(Entrance::Proxy).chain(reverse);
        let listeners = doors
            .into_iter()
            .map(|door| TcpListener::from(door.listener));
        let listeners = entrances.zip(listeners).collect();
        let options = Options {
            allow: self.allow,
            ..Options::default()
        };
        Ok(Door::open(listeners, self.upstreams, gate, agent, options)?)
    }
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn this_machine_is_known_in_every_spelling() {
        for entry in [
            "localhost:1",
            "LOCALHOST",
            "127.0.0.1:80",
            "127.9.9.9",
            "[::1]:80",
            "::1",
        ] {
            assert!(is_local(entry), "{entry}");
        }
        for entry in [
            "localhost.example.org:1",
            "example.org",
            "10.0.0.1:1",
            ".localhost:1",
        ] {
            assert!(!is_local(entry), "{entry}");
        }
    }
}
