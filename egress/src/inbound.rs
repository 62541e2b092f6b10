//! The client's side of an exchange: its body, and then its silence.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::net::tcp::ReadHalf;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::http::{BodyDecoder, BodyError, Decoded};
use crate::ledger::Ledger;
use crate::link::Piece;

/// Reads a request's body while the answer may already be on its way.
#[derive(Debug)]
pub(crate) struct Inbound<'a> {
    pub(crate) read: ReadHalf<'a>,
    pub(crate) buffer: &'a mut BytesMut,
    pub(crate) pieces: mpsc::Sender<Piece>,
    pub(crate) ledger: &'a Ledger,
    /// For silence inside the body.
    pub(crate) patience: Duration,
    /// Bytes of later requests that are read ahead.
    pub(crate) most_ahead: usize,
    /// Set when the whole body was handed on.
    pub(crate) uploaded: &'a AtomicBool,
}

/// Why an exchange can not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The client closed its connection. The upstream's work is cut off with it: nobody will read
    /// what a model still writes.
    Gone,
    /// The body can not be forwarded.
    Body(BodyError),
}

impl Inbound<'_> {
    /// Hands the body on piece by piece, then watches for the client's end. Resolves only when the
    /// exchange can not go on.
    pub(crate) async fn run(mut self, decoder: BodyDecoder) -> Broken {
        match self.upload(decoder).await {
            Ok(()) => self.watch().await,
            Err(broken) => broken,
        }
    }

    async fn upload(&mut self, mut decoder: BodyDecoder) -> Result<(), Broken> {
        loop {
            match decoder.decode(self.buffer).map_err(Broken::Body)? {
                Decoded::Data(bytes) => {
                    self.ledger.sent(bytes.len());
                    self.hand_on(Piece::Data(bytes)).await;
                }
                Decoded::More => self.more().await?,
                Decoded::End => {
                    // An upstream that has read as much as it was promised asks for no end.
                    drop(self.pieces.try_send(Piece::End));
                    self.uploaded.store(true, Ordering::Relaxed);
                    return Ok(());
                }
            }
        }
    }

    async fn hand_on(&self, piece: Piece) {
        if self.pieces.send(piece).await.is_err() {
            // The upstream answers without the rest, or is gone: the answer decides.
            std::future::pending::<()>().await;
        }
    }

    async fn more(&mut self) -> Result<(), Broken> {
        self.buffer.reserve(READ);
        match timeout(self.patience, self.read.read_buf(self.buffer)).await {
            Ok(Ok(1..)) => Ok(()),
            Ok(_) => Err(Broken::Gone),
            Err(_elapsed) => Err(Broken::Body(BodyError::Short)),
        }
    }

    async fn watch(&mut self) -> Broken {
        while self.buffer.len() < self.most_ahead {
            match self.read.read_buf(self.buffer).await {
                Ok(1..) => {}
                _ => return Broken::Gone,
            }
        }
        std::future::pending().await
    }
}

const READ: usize = 64 << 10;
