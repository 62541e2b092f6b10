//! TLS inside tunnels, with a real client and a real server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc;

use aegis_egress::{EncryptedHello, Options};
use rustls::pki_types::{PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use rustls::{StreamOwned, SupportedProtocolVersion};

use crate::support::{House, at, options, read_to_end, read_until, server, tunnel};

/// A certificate for some names, and servers and clients that use it.
pub struct Authority {
    certificate: rustls::pki_types::CertificateDer<'static>,
    key: Vec<u8>,
    pub pem: String,
}

impl Authority {
    pub fn for_names(names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        Self {
            certificate: made.cert.der().clone(),
            key: made.signing_key.serialize_der(),
            pem: pem(made.cert.der()),
        }
    }

    pub fn accept(&self) -> Arc<ServerConfig> {
        let key = PrivatePkcs8KeyDer::from(self.key.clone()).into();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key);
        Arc::new(config.unwrap())
    }

    pub fn client(&self) -> ClientConfig {
        self.client_of(&[&rustls::version::TLS13])
    }

    fn client_of(&self, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth()
    }
}

/// RFC 7468: base64 between two lines.
fn pem(der: &[u8]) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in der.chunks(3) {
        let bits = group
            .iter()
            .fold(0, |bits, byte| bits << 8 | usize::from(*byte))
            << (8 * (3 - group.len()));
        for index in 0..4 {
            let digit = char::from(ALPHABET[bits >> (18 - 6 * index) & 63]);
            text.push(if index <= group.len() { digit } else { '=' });
        }
    }
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
}

/// A TLS server that answers one line with `pong`, and tells of every connection that sent bytes.
fn pong(config: Arc<ServerConfig>) -> (SocketAddr, mpsc::Receiver<()>) {
    let (report, reached) = mpsc::channel();
    let address = server(move |stream| {
        if !stream.peek(&mut [0]).is_ok_and(|count| count == 1) {
            return;
        }
        report.send(()).unwrap();
        let mut tls = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream);
        if read_until(&mut tls, "\n") == "ping\n" {
            tls.write_all(b"pong").unwrap();
            tls.conn.send_close_notify();
            tls.flush().unwrap();
        }
    });
    (address, reached)
}

pub fn ping(config: ClientConfig, name: &str, stream: TcpStream) -> std::io::Result<String> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut tls = StreamOwned::new(
        ClientConnection::new(Arc::new(config), name).unwrap(),
        stream,
    );
    tls.write_all(b"ping\n")?;
    let mut answer = String::new();
    tls.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn a_session_with_the_allowed_name_goes_through() {
    let authority = Authority::for_names(&["localhost"]);
    let (server, _reached) = pong(authority.accept());
    let house = House::allowing(&[&at(server)]);
    for versions in [&[&rustls::version::TLS12], &[&rustls::version::TLS13]] {
        let stream = tunnel(house.proxy, &at(server));
        assert_eq!(
            ping(authority.client_of(versions), "localhost", stream).unwrap(),
            "pong"
        );
    }
    assert_eq!(house.refusals(), Vec::<String>::new());
}

#[test]
fn another_name_in_the_hello_closes_the_tunnel() {
    let authority = Authority::for_names(&["localhost", "evil.test"]);
    let (server, reached) = pong(authority.accept());
    let house = House::allowing(&[&at(server)]);
    let stream = tunnel(house.proxy, &at(server));
    let config = authority.client();
    let error = ping(config, "evil.test", stream).unwrap_err();
    assert!(error.to_string().contains("UnrecognisedName"), "{error}");
    assert_eq!(
        house.refusals(),
        ["the TLS ClientHello names another server"]
    );
    assert!(reached.try_recv().is_err(), "bytes reached the server");
}

#[test]
fn a_hello_without_a_name_closes_the_tunnel() {
    let authority = Authority::for_names(&["localhost"]);
    let (server, reached) = pong(authority.accept());
    let house = House::allowing(&[&at(server)]);
    let mut config = authority.client();
    config.enable_sni = false;
    assert!(ping(config, "localhost", tunnel(house.proxy, &at(server))).is_err());
    assert_eq!(house.refusals(), ["the TLS ClientHello names no server"]);
    assert!(reached.try_recv().is_err(), "bytes reached the server");
}

#[test]
fn a_literal_address_needs_no_name() {
    let authority = Authority::for_names(&["127.0.0.1"]);
    let (server, _reached) = pong(authority.accept());
    let destination = server.to_string();
    let house = House::allowing(&[&destination]);
    let config = authority.client();
    let stream = tunnel(house.proxy, &destination);
    assert_eq!(ping(config, "127.0.0.1", stream).unwrap(), "pong");
}

#[test]
fn a_hello_that_never_ends_is_cut_off() {
    let authority = Authority::for_names(&["localhost"]);
    let (server, reached) = pong(authority.accept());
    let mut options = options(&[&at(server)]);
    options.timeouts.head = std::time::Duration::from_millis(50);
    let house = House::with(options, &[]);
    let mut stream = tunnel(house.proxy, &at(server));
    stream.write_all(&[22, 3, 1, 0, 200, 1, 0]).unwrap();
    assert!(read_to_end(&mut stream).len() <= 7);
    assert!(reached.try_recv().is_err(), "bytes reached the server");
    assert_eq!(house.refusals().len(), 1);
}

#[test]
fn an_ordinary_hello_passes_where_encrypted_ones_are_refused() {
    let authority = Authority::for_names(&["localhost"]);
    let (server, _reached) = pong(authority.accept());
    let refusing = Options {
        encrypted_hello: EncryptedHello::Refuse,
        ..options(&[&at(server)])
    };
    let house = House::with(refusing, &[]);
    let config = authority.client();
    let stream = tunnel(house.proxy, &at(server));
    assert_eq!(ping(config, "localhost", stream).unwrap(), "pong");
    assert_eq!(house.refusals(), Vec::<String>::new());
}
