//! The sockets on which the sandbox's programs reach the egress proxy.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::SandboxError;
use crate::sys::descriptor::network_namespace;

/// A socket that listens inside the sandbox at 127.0.0.1.
#[derive(Debug)]
pub struct Door {
    /// The port that was asked for.
    pub port: u16,
    /// The listening socket; it lives in the sandbox's network namespace.
    pub listener: OwnedFd,
}

impl Door {
    /// Accepts a descriptor as a door: it listens where it should, and not in our own network.
    pub(super) fn verify(port: u16, listener: OwnedFd) -> Result<Self, SandboxError> {
        let seen = Seen::of(listener.as_fd())
            .map_err(SandboxError::system("looking at a door of the sandbox"))?;
        let expected = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        if !seen.listens {
            return Err(SandboxError::Protocol("a door does not listen"));
        }
        if seen.address != Some(expected) {
            return Err(SandboxError::Protocol("a door listens at another address"));
        }
        if seen.is_in_our_network {
            return Err(SandboxError::Protocol("a door lives in the host's network"));
        }
        Ok(Self { port, listener })
    }
}

/// What the kernel says about a socket.
struct Seen {
    listens: bool,
    address: Option<SocketAddrV4>,
    is_in_our_network: bool,
}

impl Seen {
    fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let ours = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
        Ok(Self {
            listens: sockopt::socket_acceptconn(socket)?,
            address: SocketAddrV4::try_from(rustix::net::getsockname(socket)?).ok(),
            is_in_our_network: network_namespace(socket)? == network_namespace(ours.as_fd())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_of_the_host_is_refused() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let error = Door::verify(port, listener.into()).unwrap_err();
        assert!(matches!(
            error,
            SandboxError::Protocol("a door lives in the host's network")
        ));
    }

    #[test]
    fn a_socket_that_does_not_listen_is_refused() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let error = Door::verify(1, socket.into()).unwrap_err();
        assert!(matches!(
            error,
            SandboxError::Protocol("a door does not listen")
        ));
    }
}
