//! TLS towards upstreams.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::name::Host;

/// Opens TLS sessions; the certificates of the system are read when the first one is opened, so
/// that a session that needs none starts without that cost.
#[derive(Debug)]
pub(crate) struct Tls {
    extra: Vec<CertificateDer<'static>>,
    patience: Duration,
    config: OnceLock<Arc<ClientConfig>>,
}

impl Tls {
    pub(crate) const fn new(extra: Vec<CertificateDer<'static>>, patience: Duration) -> Self {
        Self {
            extra,
            patience,
            config: OnceLock::new(),
        }
    }

    /// Makes `stream` a TLS session with `host`, whose certificate must be valid for that name.
    pub(crate) async fn wrap(
        self: &Arc<Self>,
        host: &Host,
        stream: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.bare()).map_err(io::Error::other)?;
        let connector = TlsConnector::from(self.config().await?);
        timeout(self.patience, connector.connect(name, stream)).await?
    }

    async fn config(self: &Arc<Self>) -> io::Result<Arc<ClientConfig>> {
        if let Some(config) = self.config.get() {
            return Ok(Arc::clone(config));
        }
        let reader = Arc::clone(self);
        let config = tokio::task::spawn_blocking(move || reader.build()).await;
        let config = config.map_err(io::Error::other)??;
        Ok(Arc::clone(self.config.get_or_init(|| config)))
    }

    fn build(&self) -> io::Result<Arc<ClientConfig>> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(self.extra.iter().cloned());
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(io::Error::other(
                "no root certificates were found; install `ca-certificates` or set SSL_CERT_FILE",
            ));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}
