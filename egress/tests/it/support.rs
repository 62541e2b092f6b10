//! A door on loopback, and peers for both of its sides.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use aegis_egress::{AllowList, Door, Entrance, Options, Resolve, Summary, Upstream};
use aegis_policies::journal::{self, Event};
use aegis_policies::{Gate, Journal};
use tempfile::TempDir;

/// The key that must stay outside.
pub const KEY: &str = "sk-real-0123456789abcdef";

/// An open door with its journal.
pub struct House {
    directory: TempDir,
    door: Door,
    pub proxy: SocketAddr,
    pub anthropic: SocketAddr,
    pub openai: SocketAddr,
}

impl House {
    /// A door with these hosts on its list and no keys.
    pub fn allowing(entries: &[&str]) -> Self {
        Self::with(options(entries), &[])
    }

    /// A door whose upstreams see these variables.
    pub fn with(options: Options, variables: &[(&str, &str)]) -> Self {
        let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
        Self::listening(proxy, options, variables)
    }

    /// A door whose gate has a person's own policy, too.
    pub fn judged_by(policy: &str, options: Options) -> Self {
        let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
        Self::open(proxy, options, &[], Some(policy))
    }

    /// A door whose proxy port is the given listener.
    pub fn listening(proxy: TcpListener, options: Options, variables: &[(&str, &str)]) -> Self {
        Self::open(proxy, options, variables, None)
    }

    fn open(
        proxy: TcpListener,
        options: Options,
        variables: &[(&str, &str)],
        policy: Option<&str>,
    ) -> Self {
        let directory = TempDir::new().unwrap();
        let journal = Arc::new(Journal::create(directory.path()).unwrap());
        let gate = Arc::new(Gate::with_defaults(journal, policy).unwrap());
        let local = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (anthropic, openai) = (local(), local());
        let at = |listener: &TcpListener| listener.local_addr().unwrap();
        let addresses = (at(&proxy), at(&anthropic), at(&openai));
        let listeners = vec![
            (Entrance::Proxy, proxy),
            (Entrance::Reverse("anthropic".to_owned()), anthropic),
            (Entrance::Reverse("openai".to_owned()), openai),
        ];
        let door = Door::open(
            listeners,
            upstreams(variables),
            gate,
            "test".into(),
            options,
        );
        Self {
            directory,
            door: door.unwrap(),
            proxy: addresses.0,
            anthropic: addresses.1,
            openai: addresses.2,
        }
    }

    /// Closes the door and reads what is on the record.
    pub fn close(self) -> (Summary, Vec<Event>) {
        let summary = self.door.close();
        let entries = journal::read(self.directory.path()).unwrap();
        (
            summary,
            entries.map(|entry| entry.unwrap().1.event).collect(),
        )
    }

    /// Closes the door and gives the reasons of everything that was refused.
    pub fn refusals(self) -> Vec<String> {
        let (_, events) = self.close();
        let reason = |event| match event {
            Event::Refused { .. } => Some("policy".to_owned()),
            Event::Blocked { reason, .. } => Some(reason),
            _ => None,
        };
        events.into_iter().filter_map(reason).collect()
    }
}

pub fn options(entries: &[&str]) -> Options {
    Options {
        allow: AllowList::parse(entries).unwrap(),
        ..Options::default()
    }
}

pub fn upstreams(variables: &[(&str, &str)]) -> Vec<Upstream> {
    let variable = |wanted: &str| {
        let found = variables.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| OsString::from(value))
    };
    let table = aegis_policies::tables::upstreams().unwrap();
    table
        .iter()
        .map(|entry| Upstream::from_table(entry, variable).unwrap())
        .collect()
}

/// Answers every name with the same addresses and counts the look-ups.
#[derive(Debug, Default)]
pub struct Names {
    pub addresses: Vec<IpAddr>,
    pub asked: AtomicUsize,
}

impl Names {
    pub fn lead_to(addresses: &[&str]) -> Arc<Self> {
        let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        Arc::new(Self {
            addresses,
            asked: AtomicUsize::new(0),
        })
    }
}

impl Resolve for Names {
    fn resolve(&self, _name: &str) -> std::io::Result<Vec<IpAddr>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Ok(self.addresses.clone())
    }
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    // A test that waits for what never comes shall fail and not hang.
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
}

/// Sends bytes and reads until the other side closes.
pub fn exchange(address: SocketAddr, request: impl AsRef<[u8]>) -> String {
    let mut stream = connect(address);
    stream.write_all(request.as_ref()).unwrap();
    read_to_end(&mut stream)
}

pub fn read_to_end(stream: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    // A reset behind the answer does not matter.
    drop(stream.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads up to and including `end`, one byte at a time.
pub fn read_until(stream: &mut impl Read, end: &str) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end.as_bytes()) {
        let mut byte = [0];
        assert_eq!(
            stream.read(&mut byte).unwrap(),
            1,
            "{}",
            String::from_utf8_lossy(&bytes)
        );
        bytes.push(byte[0]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A head and, where it has a length, its body.
pub fn read_message(stream: &mut impl Read) -> String {
    let head = read_until(stream, "\r\n\r\n");
    let length = head.to_ascii_lowercase().lines().find_map(|line| {
        line.strip_prefix("content-length: ")
            .map(|length| length.parse::<usize>().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).unwrap();
    format!("{head}{}", String::from_utf8_lossy(&body))
}

/// Opens a tunnel through the proxy.
pub fn tunnel(proxy: SocketAddr, destination: &str) -> TcpStream {
    let mut stream = connect(proxy);
    let request = format!("CONNECT {destination} HTTP/1.1\r\nHost: {destination}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let head = read_until(&mut stream, "\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    stream
}

/// A server that hands each connection to `serve`, each in a thread of its own.
pub fn server(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    serve_on(listener, serve);
    address
}

pub fn serve_on(
    listener: TcpListener,
    serve: impl Fn(TcpStream) + Send + Sync + 'static,
) -> JoinHandle<()> {
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (serve, stream) = (Arc::clone(&serve), stream.unwrap());
            stream.set_nodelay(true).unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(20)))
                .unwrap();
            std::thread::spawn(move || serve(stream));
        }
    })
}

/// An HTTP server that answers every request with `response` and reports what it was sent.
pub fn recording(response: &'static str) -> (SocketAddr, mpsc::Receiver<String>) {
    let (report, requests) = mpsc::channel();
    let address = server(move |mut stream| {
        while stream.peek(&mut [0]).is_ok_and(|count| count == 1) {
            report.send(read_message(&mut stream)).unwrap();
            stream.write_all(response.as_bytes()).unwrap();
        }
    });
    (address, requests)
}

/// The port of an address.
pub fn at(address: SocketAddr) -> String {
    format!("localhost:{}", address.port())
}
