//! Counts what one permitted act moved, and journals it at its end, however it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::Instant;

use aegis_policies::Permit;
use aegis_policies::journal::Event;

use crate::desk::Desk;

/// The account of one tunnel or one request. Dropping it writes the entry, so that a connection
/// that is torn down in the middle is on the record, too.
#[derive(Debug)]
pub(crate) struct Ledger {
    desk: Arc<Desk>,
    permit: Permit,
    act: Act,
    started: Instant,
    status: AtomicU16,
    sent: AtomicU64,
    received: AtomicU64,
}

/// What is accounted for.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// A tunnel; what is inside is not known.
    Tunnel { host: String, port: u16 },
    /// A request that was read.
    Request {
        upstream: String,
        method: String,
        path: String,
    },
}

impl Ledger {
    /// Opens the account of the act that `permit` allows.
    pub(crate) fn open(desk: &Arc<Desk>, permit: Permit, act: Act) -> Self {
        let tally = match &act {
            Act::Tunnel { .. } => &desk.tally.connections,
            Act::Request { .. } => &desk.tally.requests,
        };
        tally.fetch_add(1, Ordering::Relaxed);
        Self {
            desk: Arc::clone(desk),
            permit,
            act,
            started: Instant::now(),
            status: AtomicU16::new(0),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
        }
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        self.desk
            .tally
            .sent
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
        self.desk
            .tally
            .received
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The HTTP status that came back.
    pub(crate) fn answered(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }

    /// Bytes in both directions; stands still when nothing moves.
    pub(crate) fn moved(&self) -> u64 {
        self.sent
            .load(Ordering::Relaxed)
            .wrapping_add(self.received.load(Ordering::Relaxed))
    }

    /// Journals that the door cuts the act off.
    pub(crate) fn block(&self, reason: &str) {
        self.desk.block_permitted(&self.permit, reason);
    }

    fn event(&self) -> Event {
        let sent = self.sent.load(Ordering::Relaxed);
        let received = self.received.load(Ordering::Relaxed);
        let millis = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        match self.act.clone() {
            Act::Tunnel { host, port } => Event::Tunnel {
                host,
                port,
                sent,
                received,
                millis,
            },
            Act::Request {
                upstream,
                method,
                path,
            } => {
                let status = self.status.load(Ordering::Relaxed);
                Event::Request {
                    upstream,
                    method,
                    path,
                    status,
                    sent,
                    received,
                    millis,
                }
            }
        }
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.desk.record(&self.permit, self.event());
    }
}
