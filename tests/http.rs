//! A small HTTP/1.1 server on loopback that keeps every request it was sent.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

/// One request.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The target as it was sent, with the query.
    pub target: String,
    /// Header names in lower case and their values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// The value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// The target without the query.
    #[must_use]
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap()
    }

    /// The body as JSON; null when it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// The answer to one request, written as the handler goes.
#[derive(Debug)]
pub struct Reply {
    stream: TcpStream,
}

impl Reply {
    /// A whole JSON answer.
    pub fn json(&mut self, status: u16, body: &Value) {
        self.whole(status, "application/json", body.to_string().as_bytes());
    }

    /// A whole answer.
    pub fn whole(&mut self, status: u16, kind: &str, body: &[u8]) {
        let head = format!(
            "HTTP/1.1 {status} Reason\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n",
            body.len()
        );
        self.send(head.as_bytes());
        self.send(body);
    }

    /// Begins a stream of server-sent events.
    pub fn begin_events(&mut self) {
        self.send(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n\
              transfer-encoding: chunked\r\nconnection: close\r\n\r\n",
        );
    }

    /// One event of the stream; it has left this process when this returns.
    pub fn event(&mut self, name: &str, data: &Value) {
        let text = format!("event: {name}\ndata: {data}\n\n");
        self.send(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes());
    }

    /// Ends the stream.
    pub fn end_events(&mut self) {
        self.send(b"0\r\n\r\n");
    }

    fn send(&mut self, bytes: &[u8]) {
        // A client that hung up is the client's affair.
        let _ = self
            .stream
            .write_all(bytes)
            .and_then(|()| self.stream.flush());
    }
}

/// A running server; it ends with the test process.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Starts a server on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// When no port can be bound.
    pub fn start(handler: impl Fn(&Request, &mut Reply) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (kept, handler) = (Arc::clone(&requests), Arc::new(handler));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (kept, handler) = (Arc::clone(&kept), Arc::clone(&handler));
                thread::spawn(move || {
                    if let Some(request) = receive(&stream) {
                        kept.lock().unwrap().push(request.clone());
                        handler(&request, &mut Reply { stream });
                    }
                });
            }
        });
        Self { address, requests }
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request so far.
    ///
    /// # Panics
    /// When a handler panicked.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn receive(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let first = line(&mut reader)?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let mut headers = Vec::new();
    loop {
        let text = line(&mut reader)?;
        if text.is_empty() {
            break;
        }
        let (name, value) = text.split_once(':')?;
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let mut request = Request {
        method,
        target,
        headers,
        body: Vec::new(),
    };
    request.body = body(&mut reader, &request)?;
    Some(request)
}

fn body(reader: &mut impl BufRead, request: &Request) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    if request.header("transfer-encoding") == Some("chunked") {
        loop {
            let size = u64::from_str_radix(line(reader)?.split(';').next()?, 16).ok()?;
            reader.by_ref().take(size).read_to_end(&mut body).ok()?;
            line(reader)?;
            if size == 0 {
                return Some(body);
            }
        }
    }
    let size = request
        .header("content-length")
        .map_or(Some(0), |text| text.parse().ok())?;
    reader.by_ref().take(size).read_to_end(&mut body).ok()?;
    Some(body)
}

fn line(reader: &mut impl BufRead) -> Option<String> {
    let mut text = String::new();
    reader.read_line(&mut text).ok().filter(|read| *read > 0)?;
    Some(text.trim_end().to_owned())
}
