//! One request out and its answer back, both as streams, in one task.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap};
use hyper::{Method, Request, Response, StatusCode};
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::WriteHalf;
use tokio::time::{sleep, timeout};

use crate::http::{Answer, BodyDecoder, BodyFraming, Client, RequestHead};
use crate::inbound::{Broken, Inbound};
use crate::ledger::Ledger;
use crate::link::{Link, Upload};
use crate::name::Authority;
use crate::options::{Limits, Timeouts};
use crate::scrub::Scrubber;
use crate::words;

/// A permitted request that is being carried out.
#[derive(Debug)]
pub(crate) struct Exchange<'a> {
    pub(crate) head: &'a RequestHead,
    pub(crate) limits: &'a Limits,
    pub(crate) timeouts: &'a Timeouts,
    pub(crate) ledger: &'a Ledger,
    pub(crate) destination: &'a Authority,
    /// Takes the injected key out of the answer.
    pub(crate) scrubber: Option<Scrubber>,
}

/// What happens to the client's connection.
#[derive(Debug)]
pub(crate) enum Next {
    /// It waits for the next request.
    Continue,
    /// It is closed.
    Close,
    /// It gets this answer and is closed.
    Answer(Answer),
}

/// What is left after an exchange.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) next: Next,
    /// Whether the link can take another request.
    pub(crate) reusable: bool,
}

impl Next {
    /// Sends the answer, when there is one.
    pub(crate) async fn settle(self, client: &mut Client, method: &Method) -> Self {
        match self {
            Self::Answer(answer) => {
                drop(client.answer(&answer, method).await);
                Self::Close
            }
            next => next,
        }
    }
}

impl From<Next> for Done {
    fn from(next: Next) -> Self {
        Self {
            next,
            reusable: false,
        }
    }
}

impl Exchange<'_> {
    /// Sends `outgoing` with the client's body and passes the answer back as it arrives.
    pub(crate) async fn run(
        mut self,
        client: &mut Client,
        link: &mut Link,
        mut outgoing: Request<()>,
    ) -> Done {
        let decoder = match BodyDecoder::new(self.head.framing, self.limits.body_bytes) {
            Ok(decoder) => decoder,
            Err(error) => return self.broken(Broken::Body(error)).into(),
        };
        // hyper frames the body anew from the upload's own length.
        outgoing.headers_mut().remove(header::CONTENT_LENGTH);
        let (pieces, upload) = Upload::new(self.head.framing);
        let response = link.send(outgoing.map(|()| upload));

        let Client { stream, buffer } = client;
        let (read, mut write) = stream.split();
        if self.head.expects_continue() && write.write_all(CONTINUE).await.is_err() {
            return Next::Close.into();
        }
        let uploaded = AtomicBool::new(false);
        let inbound = Inbound {
            read,
            buffer,
            pieces,
            ledger: self.ledger,
            patience: self.timeouts.idle,
            most_ahead: self.limits.head_bytes,
            uploaded: &uploaded,
        };
        let mut inbound = std::pin::pin!(inbound.run(decoder));

        let response = match self.await_head(link, response, inbound.as_mut()).await {
            Ok(response) => response,
            Err(next) => return next.into(),
        };
        match self.pass_back(link, response, inbound, &mut write).await {
            Ok(()) => {
                let complete = uploaded.load(Ordering::Relaxed);
                let keep = complete && self.head.keeps_alive();
                let next = if keep { Next::Continue } else { Next::Close };
                Done {
                    next,
                    reusable: complete,
                }
            }
            Err(next) => next.into(),
        }
    }

    /// The answer for an upstream that failed before it answered.
    pub(crate) fn failed(&self, why: &str) -> Answer {
        words::upstream_failed(StatusCode::BAD_GATEWAY, self.destination, why)
    }

    async fn await_head(
        &self,
        link: &mut Link,
        response: impl Future<Output = hyper::Result<Response<Incoming>>>,
        mut inbound: Pin<&mut impl Future<Output = Broken>>,
    ) -> Result<Response<Incoming>, Next> {
        let mut response = std::pin::pin!(response);
        let mut late = std::pin::pin!(sleep(self.timeouts.response));
        loop {
            tokio::select! {
                biased;
                broken = inbound.as_mut() => return Err(self.broken(broken)),
                result = response.as_mut() => {
                    return result.map_err(|error| Next::Answer(self.failed(&error.to_string())));
                }
                () = link.drive() => {}
                () = late.as_mut() => return Err(Next::Answer(self.late())),
            }
        }
    }

    /// Streams the answer; an error closes the connection, for its head is gone already.
    async fn pass_back(
        &mut self,
        link: &mut Link,
        response: Response<Incoming>,
        mut inbound: Pin<&mut impl Future<Output = Broken>>,
        write: &mut WriteHalf<'_>,
    ) -> Result<(), Next> {
        let (mut parts, mut body) = response.into_parts();
        self.ledger.answered(parts.status.as_u16());
        self.check_answer(parts.status, &parts.headers)?;
        self.prepare_headers(&mut parts.headers);
        let (method, version) = (&self.head.method, self.head.version);
        let framing = BodyFraming::of(method, version, parts.status, body.size_hint().exact());
        let head = framing.head(parts.status, &mut parts.headers, self.head.keeps_alive());
        send(write, &head, self.timeouts.idle).await?;
        loop {
            let frame = tokio::select! {
                biased;
                _ = inbound.as_mut() => return Err(Next::Close),
                () = link.drive() => continue,
                frame = timeout(self.timeouts.idle, body.frame()) => frame,
            };
            let data = match frame {
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
                Ok(None) => break,
                Ok(Some(Err(_))) | Err(_) => return Err(Next::Close),
            };
            self.pass_piece(framing, data, write).await?;
        }
        let rest = self
            .scrubber
            .as_mut()
            .map(Scrubber::finish)
            .unwrap_or_default();
        self.write_piece(framing, rest, write).await?;
        let finished = framing.finish(write, self.timeouts.idle).await;
        finished.map_err(|_| Next::Close)
    }

    async fn pass_piece(
        &mut self,
        framing: BodyFraming,
        data: Bytes,
        write: &mut WriteHalf<'_>,
    ) -> Result<(), Next> {
        let data = match self.scrubber.as_mut() {
            Some(scrubber) => scrubber.push(data),
            None => data,
        };
        self.write_piece(framing, data, write).await
    }

    async fn write_piece(
        &self,
        framing: BodyFraming,
        data: Bytes,
        write: &mut WriteHalf<'_>,
    ) -> Result<(), Next> {
        self.ledger.received(data.len());
        framing
            .write(write, data, self.timeouts.idle)
            .await
            .map_err(|_| Next::Close)
    }

    /// Refuses an answer that could not be scrubbed, and one that would end HTTP on this connection.
    fn check_answer(&self, status: StatusCode, headers: &HeaderMap) -> Result<(), Next> {
        let why = if status.is_informational() {
            "it switched to another protocol"
        } else if self.scrubber.is_some() && is_encoded(headers) {
            "its answer is compressed although it was asked not to"
        } else {
            return Ok(());
        };
        self.ledger.block(why);
        Err(Next::Answer(self.failed(why)))
    }

    fn prepare_headers(&mut self, headers: &mut HeaderMap) {
        RequestHead::strip_hop_by_hop(headers);
        if let Some(scrubber) = self.scrubber.as_mut() {
            headers.remove(header::ALT_SVC);
            scrubber.scrub_headers(headers);
        }
    }

    fn late(&self) -> Answer {
        let why = format!(
            "it was silent for {} seconds",
            self.timeouts.response.as_secs()
        );
        words::upstream_failed(StatusCode::GATEWAY_TIMEOUT, self.destination, &why)
    }

    fn broken(&self, broken: Broken) -> Next {
        match broken {
            Broken::Gone => Next::Close,
            Broken::Body(error) => {
                self.ledger.block(&error.to_string());
                Next::Answer(words::bad_body(error))
            }
        }
    }
}

async fn send(write: &mut WriteHalf<'_>, bytes: &[u8], patience: Duration) -> Result<(), Next> {
    let written = timeout(patience, write.write_all(bytes))
        .await
        .map_err(io::Error::from);
    written.flatten().map_err(|_| Next::Close)
}

fn is_encoded(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
    codings.any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
