//! Moves bytes between the two ends of a tunnel.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::{sleep, timeout};

use crate::hello::HelloError;
use crate::http::Client;
use crate::ledger::Ledger;
use crate::options::Timeouts;
use crate::sniff::Sniffer;

/// Why a tunnel was torn down.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Torn {
    /// The client said hello to another server.
    #[error(transparent)]
    Hello(#[from] HelloError),
    /// One end broke.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Nothing moved for too long.
    #[error("the tunnel was silent for too long")]
    Idle,
}

/// Moves bytes both ways until both ends have finished, each of which may finish alone.
pub(crate) async fn pump(
    client: &mut Client,
    upstream: &mut TcpStream,
    sniffer: Sniffer,
    timeouts: &Timeouts,
    ledger: &Ledger,
) -> Result<(), Torn> {
    let first = client.buffer.split();
    let (client_read, client_write) = client.stream.split();
    let (upstream_read, upstream_write) = upstream.split();
    let outward = Outward {
        from: client_read,
        to: upstream_write,
        ledger,
    };
    let both = async {
        tokio::try_join!(
            outward.run(&first, sniffer, timeouts.head),
            inward(upstream_read, client_write, ledger),
        )
    };
    tokio::select! {
        result = both => result.map(|((), ())| ()),
        () = silence(ledger, timeouts.idle) => Err(Torn::Idle),
    }
}

/// The direction from the client, the start of which is looked at.
struct Outward<'a> {
    from: ReadHalf<'a>,
    to: WriteHalf<'a>,
    ledger: &'a Ledger,
}

impl Outward<'_> {
    async fn run(
        mut self,
        first: &[u8],
        sniffer: Sniffer,
        hello_patience: Duration,
    ) -> Result<(), Torn> {
        let mut buffer = vec![0; BUFFER];
        if self
            .sniff(first, sniffer, &mut buffer, hello_patience)
            .await?
        {
            loop {
                let bytes = match self.from.read(&mut buffer).await? {
                    0 => break,
                    count => buffer.get(..count).unwrap_or_default(),
                };
                self.to.write_all(bytes).await?;
                self.ledger.sent(bytes.len());
            }
        }
        Ok(self.to.shutdown().await?)
    }

    /// Passes on what may pass until the rest may; `false` when the client has finished before.
    async fn sniff(
        &mut self,
        first: &[u8],
        mut sniffer: Sniffer,
        buffer: &mut [u8],
        patience: Duration,
    ) -> Result<bool, Torn> {
        let mut passed = sniffer.push(first)?;
        loop {
            self.to.write_all(&passed).await?;
            self.ledger.sent(passed.len());
            if sniffer.is_over() {
                return Ok(true);
            }
            let read = self.from.read(buffer);
            let count = match sniffer.is_inside() {
                true => timeout(patience, read)
                    .await
                    .map_err(|_elapsed| HelloError::Malformed)??,
                false => read.await?,
            };
            match count {
                0 if sniffer.is_inside() => return Err(HelloError::Malformed.into()),
                0 => return Ok(false),
                _ => passed = sniffer.push(buffer.get(..count).unwrap_or_default())?,
            }
        }
    }
}

async fn inward(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    ledger: &Ledger,
) -> Result<(), Torn> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let bytes = match from.read(&mut buffer).await? {
            0 => break,
            count => buffer.get(..count).unwrap_or_default(),
        };
        to.write_all(bytes).await?;
        ledger.received(bytes.len());
    }
    Ok(to.shutdown().await?)
}

/// Resolves when nothing has moved in either direction for the given time.
async fn silence(ledger: &Ledger, patience: Duration) {
    loop {
        let before = ledger.moved();
        sleep(patience).await;
        if ledger.moved() == before {
            return;
        }
    }
}

/// Bytes for each direction: eight times the usual 8 KiB doubles the throughput.
const BUFFER: usize = 64 << 10;
