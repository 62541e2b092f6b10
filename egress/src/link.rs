//! A connection to an upstream, and the few that wait for the next request.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use crate::http::Framing;

/// An HTTP/1.1 connection to an upstream. It moves only while [`Link::drive`] is polled: the task
/// that wants the answer moves the bytes itself, and no second task is woken for each of them.
pub(crate) struct Link {
    sender: SendRequest<Upload>,
    driver: Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>,
    ended: bool,
    idle_since: Instant,
}

impl Link {
    /// Starts HTTP on a connected stream.
    pub(crate) async fn open<S>(stream: S) -> hyper::Result<Self>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, driver) = Builder::new()
            .max_headers(MOST_RESPONSE_HEADERS)
            .max_buf_size(LARGEST_BUFFER)
            .handshake(TokioIo::new(stream))
            .await?;
        let driver = Box::pin(driver);
        Ok(Self {
            sender,
            driver,
            ended: false,
            idle_since: Instant::now(),
        })
    }

    /// Sends a request; the future resolves only while the link is driven, too.
    pub(crate) fn send(
        &mut self,
        request: Request<Upload>,
    ) -> impl Future<Output = hyper::Result<Response<Incoming>>> + Send + use<> {
        self.sender.send_request(request)
    }

    /// Moves bytes; resolves once, when the connection has ended.
    pub(crate) async fn drive(&mut self) {
        if self.ended {
            std::future::pending::<()>().await;
        }
        // Why it ended is told to the request that waits for the answer.
        drop(self.driver.as_mut().await);
        self.ended = true;
    }

    /// Whether another request can be sent, as far as is known without waiting.
    async fn is_usable(&mut self) -> bool {
        if !self.ended {
            self.ended = poll_fn(|context| Poll::Ready(self.driver.as_mut().poll(context)))
                .await
                .is_ready();
        }
        !self.ended && self.sender.is_ready() && self.idle_since.elapsed() < LONGEST_IDLE
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Link")
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

/// Links of one upstream that wait for the next request.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Vec<Link>>);

impl Pool {
    /// A link that is still open, the one used last first.
    pub(crate) async fn take(&self) -> Option<Link> {
        loop {
            let mut link = self.links().pop()?;
            if link.is_usable().await {
                return Some(link);
            }
        }
    }

    /// Keeps a link whose answer was read to its end.
    pub(crate) async fn put(&self, mut link: Link) {
        link.idle_since = Instant::now();
        if link.is_usable().await {
            let mut links = self.links();
            links.retain(|link| link.idle_since.elapsed() < LONGEST_IDLE);
            if links.len() < MOST_IDLE {
                links.push(link);
            }
        }
    }

    fn links(&self) -> std::sync::MutexGuard<'_, Vec<Link>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body of a request on its way out, piece by piece as the client sends it.
#[derive(Debug)]
pub(crate) struct Upload {
    pieces: mpsc::Receiver<Piece>,
    framing: Framing,
    ended: bool,
}

/// A piece of a body, or the word that it is complete.
#[derive(Debug)]
pub(crate) enum Piece {
    Data(Bytes),
    End,
}

/// The client went away inside its body.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the request body ended early")]
pub(crate) struct Aborted;

impl Upload {
    pub(crate) fn new(framing: Framing) -> (mpsc::Sender<Piece>, Self) {
        let (sender, pieces) = mpsc::channel(1);
        (
            sender,
            Self {
                pieces,
                framing,
                ended: framing == Framing::Empty,
            },
        )
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Aborted;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Aborted>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        self.pieces.poll_recv(context).map(|piece| match piece {
            Some(Piece::Data(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(Piece::End) => {
                self.ended = true;
                None
            }
            None => Some(Err(Aborted)),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }

    fn size_hint(&self) -> SizeHint {
        match self.framing {
            Framing::Empty => SizeHint::with_exact(0),
            Framing::Length(length) => SizeHint::with_exact(length),
            Framing::Chunked => SizeHint::default(),
        }
    }
}

/// Most servers keep an idle connection for a minute or more.
const LONGEST_IDLE: Duration = Duration::from_secs(30);
const MOST_IDLE: usize = 8;
const MOST_RESPONSE_HEADERS: usize = 256;
/// hyper reads a head, and large bodies, in a buffer of at most this many bytes.
const LARGEST_BUFFER: usize = 256 << 10;
