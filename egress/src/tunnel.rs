//! CONNECT: a tunnel to one host and port. What is inside stays between the two ends, so the record
//! says where to, how much and how long, and nothing else.

use aegis_policies::Permit;
use hyper::Method;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::allow::Listing;
use crate::http::{Answer, Client};
use crate::ledger::{Act, Ledger};
use crate::name::Authority;
use crate::pump::{Torn, pump};
use crate::room::Room;
use crate::sniff::Sniffer;
use crate::words;

/// Answers a CONNECT request: name the effect, have it judged, and tunnel when it may be.
pub(crate) async fn connect(room: &Room, client: Client, destination: Authority) {
    let listing = room.allow.listing(&destination);
    match room.desk.connect(&destination, listing) {
        Ok(permit) => tunnel(permit, room, client, destination, listing).await,
        Err(refusal) => {
            turn_away(client, &words::not_allowed(&destination, listing, &refusal)).await
        }
    }
}

async fn turn_away(mut client: Client, answer: &Answer) {
    // A client that is gone already needs no answer.
    drop(client.answer(answer, &Method::CONNECT).await);
    client.close().await;
}

/// Carries out a permitted connection.
async fn tunnel(
    permit: Permit,
    room: &Room,
    client: Client,
    destination: Authority,
    listing: Listing,
) {
    let upstream = match room.connect(&permit, &destination, listing).await {
        Ok(upstream) => upstream,
        Err(answer) => return turn_away(client, &answer).await,
    };
    let act = Act::Tunnel {
        host: destination.host.bare(),
        port: destination.port,
    };
    let ledger = Ledger::open(&room.desk, permit, act);
    let sniffer = Sniffer::new(destination.host, room.encrypted_hello);
    run(room, client, upstream, sniffer, &ledger).await;
}

async fn run(
    room: &Room,
    mut client: Client,
    mut upstream: TcpStream,
    sniffer: Sniffer,
    ledger: &Ledger,
) {
    if client.stream.write_all(ESTABLISHED).await.is_err() {
        return;
    }
    match pump(&mut client, &mut upstream, sniffer, &room.timeouts, ledger).await {
        Err(Torn::Hello(error)) => {
            ledger.block(&error.to_string());
            drop(client.stream.write_all(UNRECOGNIZED_NAME).await);
            client.close().await;
        }
        // A broken or silent end is the business of the two ends; the entry has the bytes.
        Ok(()) | Err(Torn::Io(_) | Torn::Idle) => {}
    }
}

const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// A fatal TLS alert, unrecognized_name (RFC 6066, section 3): the client then says that the name
/// was refused and not that the network is broken.
const UNRECOGNIZED_NAME: &[u8] = &[21, 3, 3, 0, 2, 2, 112];
