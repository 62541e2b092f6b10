//! From a name to a connection: one look-up, every address vetted, and the vetted address dialled.
//!
//! INVARIANT: no address is looked up twice for one connection, so an answer that changes between
//! the check and the dial (DNS rebinding) changes nothing.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::address::Special;
use crate::allow::Listing;
use crate::name::{Authority, Host};

/// Finds the addresses of a name.
pub trait Resolve: fmt::Debug + Send + Sync {
    /// The addresses of `name`, best first. May block.
    ///
    /// # Errors
    /// The resolver's own, such as "name or service not known".
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// getaddrinfo(3): the host's own file, VPN split DNS and search rules apply as elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok((name, 0)
            .to_socket_addrs()?
            .map(|address| address.ip())
            .collect())
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    /// The name has no address.
    #[error("its name can not be resolved: {0}")]
    Unresolved(io::Error),
    /// Every address of the name is one that a name must not lead to.
    #[error("it resolves to {address}, {class}")]
    Forbidden {
        /// The first such address.
        address: IpAddr,
        /// What it is.
        class: Special,
    },
    /// No address answered.
    #[error("it can not be reached: {0}")]
    Unreachable(io::Error),
    /// It took too long.
    #[error("it did not answer within {} seconds", .0.as_secs())]
    Late(Duration),
}

/// Opens connections to the outside.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    pub(crate) resolver: Arc<dyn Resolve>,
    /// Whether a name may lead to a private network (never to this machine or to a link).
    pub(crate) allow_private: bool,
    /// For the look-up and the connections together.
    pub(crate) patience: Duration,
}

impl Dialer {
    /// Connects to `destination`; `listing` says what the user meant by it.
    pub(crate) async fn dial(
        &self,
        destination: &Authority,
        listing: Listing,
    ) -> Result<TcpStream, DialError> {
        let attempt = async {
            let addresses = self.addresses(&destination.host, listing).await?;
            connect_any(&addresses, destination.port)
                .await
                .map_err(DialError::Unreachable)
        };
        let late = || DialError::Late(self.patience);
        timeout(self.patience, attempt)
            .await
            .map_err(|_elapsed| late())?
    }

    async fn addresses(&self, host: &Host, listing: Listing) -> Result<Vec<IpAddr>, DialError> {
        match (host, listing) {
            (Host::Address(address), Listing::Meant) => Ok(vec![*address]),
            (host, Listing::Meant) if host.is_localhost() => Ok(LOCALHOST.to_vec()),
            (Host::Address(address), _) => self.vet(vec![*address]),
            (Host::Name(name), _) => self.vet(self.look_up(name).await?),
        }
    }

    async fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, DialError> {
        let (resolver, name) = (Arc::clone(&self.resolver), name.to_owned());
        let answer = tokio::task::spawn_blocking(move || resolver.resolve(&name)).await;
        answer
            .map_err(io::Error::other)
            .flatten()
            .map_err(DialError::Unresolved)
    }

    /// Keeps the addresses that a name may lead to.
    fn vet(&self, addresses: Vec<IpAddr>) -> Result<Vec<IpAddr>, DialError> {
        let mut refused = None;
        let mut vetted = Vec::with_capacity(addresses.len());
        for address in addresses {
            match Special::of(address).filter(|class| !self.tolerates(*class)) {
                Some(class) => refused = refused.or(Some((address, class))),
                None => vetted.push(address),
            }
        }
        match refused {
            Some((address, class)) if vetted.is_empty() => {
                Err(DialError::Forbidden { address, class })
            }
            _ => Ok(vetted),
        }
    }

    fn tolerates(&self, class: Special) -> bool {
        self.allow_private && class == Special::Private
    }
}

async fn connect_any(addresses: &[IpAddr], port: u16) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match TcpStream::connect(SocketAddr::new(*address, port)).await {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// RFC 6761: `localhost` is never looked up.
const LOCALHOST: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Answers with one more entry of a list at each look-up, as a rebinding name server does.
    #[derive(Debug)]
    struct Rebinding {
        answers: Vec<Vec<IpAddr>>,
        asked: AtomicUsize,
    }

    impl Resolve for Rebinding {
        fn resolve(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
            let turn = self.asked.fetch_add(1, Ordering::SeqCst);
            Ok(self.answers.get(turn).cloned().unwrap_or_default())
        }
    }

    fn dialer(answers: &[&[&str]]) -> (Dialer, Arc<Rebinding>) {
        let parse = |answer: &&[&str]| answer.iter().map(|text| text.parse().unwrap()).collect();
        let resolver = Arc::new(Rebinding {
            answers: answers.iter().map(parse).collect(),
            asked: AtomicUsize::new(0),
        });
        let dialer = Dialer {
            resolver: Arc::clone(&resolver) as Arc<dyn Resolve>,
            allow_private: false,
            patience: Duration::from_secs(5),
        };
        (dialer, resolver)
    }

    fn addresses(dialer: &Dialer, host: &str, listing: Listing) -> Result<Vec<IpAddr>, DialError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let host = Host::parse(host.as_bytes()).unwrap();
        runtime.block_on(dialer.addresses(&host, listing))
    }

    #[test]
    fn a_name_is_looked_up_once() {
        let (dialer, resolver) = dialer(&[&["8.8.8.8"], &["127.0.0.1"]]);
        let found = addresses(&dialer, "rebind.test", Listing::Named).unwrap();
        assert_eq!(found, ["8.8.8.8".parse::<IpAddr>().unwrap()]);
        assert_eq!(resolver.asked.load(Ordering::SeqCst), 1);
        assert!(matches!(
            addresses(&dialer, "rebind.test", Listing::Named),
            Err(DialError::Forbidden {
                class: Special::Loopback,
                ..
            })
        ));
    }

    #[test]
    fn only_vetted_addresses_are_left() {
        let (dialer, _) = dialer(&[&["127.0.0.1", "1.1.1.1", "::ffff:10.0.0.1", "fe80::1"]]);
        let found = addresses(&dialer, "mixed.test", Listing::Named).unwrap();
        assert_eq!(found, ["1.1.1.1".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn private_networks_need_the_users_word() {
        let answers: &[&[&str]] = &[&["10.0.0.7"], &["10.0.0.7", "169.254.169.254", "127.0.0.1"]];
        let (mut dialer, _) = dialer(answers);
        assert!(addresses(&dialer, "db.test", Listing::Named).is_err());
        dialer.allow_private = true;
        let found = addresses(&dialer, "db.test", Listing::Named).unwrap();
        assert_eq!(found, ["10.0.0.7".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn what_the_user_meant_is_not_looked_up() {
        let (dialer, resolver) = dialer(&[]);
        assert_eq!(
            addresses(&dialer, "localhost", Listing::Meant).unwrap(),
            LOCALHOST
        );
        let literal = addresses(&dialer, "127.0.0.1", Listing::Meant).unwrap();
        assert_eq!(literal, ["127.0.0.1".parse::<IpAddr>().unwrap()]);
        assert!(addresses(&dialer, "169.254.169.254", Listing::Absent).is_err());
        assert_eq!(resolver.asked.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn localhost_without_a_port_is_vetted() {
        let (dialer, _) = dialer(&[&["127.0.0.1"]]);
        assert!(addresses(&dialer, "localhost", Listing::Named).is_err());
    }
}
