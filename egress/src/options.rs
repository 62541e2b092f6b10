//! What a session's door is set to.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::allow::AllowList;
use crate::dial::{Resolve, SystemResolver};
use crate::error::EgressError;

/// What a session's door is set to. The default reaches nothing but the given upstreams.
#[derive(Clone, Debug)]
pub struct Options {
    /// The hosts that the user listed.
    pub allow: AllowList,
    /// Certificates trusted for upstreams in addition to those of the system.
    pub roots: Vec<CertificateDer<'static>>,
    /// Finds the addresses of names.
    pub resolver: Arc<dyn Resolve>,
    /// Whether a listed name may lead to a private network (RFC 1918, RFC 6598, RFC 4193). It may
    /// never lead to this machine, to a link or to a cloud's metadata service.
    pub allow_private: bool,
    /// What a tunnel does with an encrypted ClientHello.
    pub encrypted_hello: EncryptedHello,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// How much there may be.
    pub limits: Limits,
}

/// What a tunnel does with a TLS ClientHello that carries a second, encrypted one.
///
/// Most of them are decoys ("GREASE", RFC 9849) and can not be told from real ones. A real one lets
/// a server that holds the key answer for a name that the proxy does not see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EncryptedHello {
    /// The outer name must be the allowed one.
    #[default]
    CompareOuter,
    /// The connection is closed.
    Refuse,
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// From the first byte of a head to its end; also for a ClientHello.
    pub head: Duration,
    /// Silence between two requests of one connection.
    pub keep_alive: Duration,
    /// Look-up and connection together, and then the TLS handshake.
    pub connect: Duration,
    /// From the request to the head of the response; a model may think for minutes.
    pub response: Duration,
    /// Silence inside a body or a tunnel.
    pub idle: Duration,
}

/// How much there may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at one time; more wait in the listen queue of the kernel.
    pub connections: usize,
    /// Bytes of a request head.
    pub head_bytes: usize,
    /// Header fields of a request.
    pub headers: usize,
    /// Bytes of a request body.
    pub body_bytes: u64,
}

impl Options {
    /// Trusts the certificates of a PEM file for upstreams, too.
    ///
    /// # Errors
    /// [`EgressError::Roots`] when the text holds no certificate or a damaged one.
    pub fn trust_pem(&mut self, pem: &[u8]) -> Result<(), EgressError> {
        let broken = |reason: String| EgressError::Roots { reason };
        let found: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(pem)
            .collect::<Result<_, _>>()
            .map_err(|error| broken(error.to_string()))?;
        if found.is_empty() {
            return Err(broken("the text holds no certificate".to_owned()));
        }
        self.roots.extend(found);
        Ok(())
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            allow: AllowList::default(),
            roots: Vec::new(),
            resolver: Arc::new(SystemResolver),
            allow_private: false,
            encrypted_hello: EncryptedHello::default(),
            timeouts: Timeouts::default(),
            limits: Limits::default(),
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(30),
            keep_alive: Duration::from_secs(75),
            connect: Duration::from_secs(15),
            response: Duration::from_secs(15 * 60),
            idle: Duration::from_secs(15 * 60),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            head_bytes: 64 << 10,
            headers: 128,
            body_bytes: 64 << 20,
        }
    }
}
