//! The proxy port: CONNECT, and `http://` URLs in absolute form.

use aegis_policies::{Kind, Permit, Scope};
use hyper::Request;
use hyper::header::{self, HeaderValue};
use hyper::http::uri::PathAndQuery;

use crate::allow::Listing;
use crate::forward::{Exchange, Next};
use crate::http::{Answer, Client, HeadError, RequestHead, Target};
use crate::ledger::{Act, Ledger};
use crate::link::Link;
use crate::name::Authority;
use crate::room::Room;
use crate::{tunnel, words};

/// Serves one connection until it ends or becomes a tunnel.
pub(crate) async fn serve(room: &Room, mut client: Client) {
    loop {
        let head = match client.read_head(&room.limits, &room.timeouts).await {
            Ok(Some(head)) => head,
            Ok(None) => return,
            Err(error) => return reject(room, client, error).await,
        };
        match head.target.clone() {
            Target::Authority(destination) => {
                return tunnel::connect(room, client, destination).await;
            }
            Target::Absolute(destination, path) => {
                let plain = Plain {
                    room,
                    head: &head,
                    destination,
                    path,
                };
                let next = plain.serve(&mut client).await;
                if let Next::Close = next.settle(&mut client, &head.method).await {
                    return client.close().await;
                }
            }
            Target::Origin(_) | Target::Asterisk => {
                let answer = words::not_for_a_proxy();
                room.desk
                    .block(Kind::NetConnect, nowhere(), "the request is for no proxy");
                drop(client.answer(&answer, &head.method).await);
                return client.close().await;
            }
        }
    }
}

/// Refuses a head that can not be read; the rest of the connection can not be read either.
async fn reject(room: &Room, mut client: Client, error: HeadError) {
    room.desk.block(Kind::NetConnect, nowhere(), error.reason);
    drop(
        client
            .answer(&words::unreadable(error), &hyper::Method::GET)
            .await,
    );
    client.close().await;
}

/// The scope of a request that names no destination.
fn nowhere() -> Scope {
    Scope::Endpoint {
        host: String::new(),
        port: 0,
        listed: false,
    }
}

/// A request for a URL.
struct Plain<'a> {
    room: &'a Room,
    head: &'a RequestHead,
    destination: Authority,
    path: PathAndQuery,
}

impl Plain<'_> {
    async fn serve(self, client: &mut Client) -> Next {
        let listing = self.room.allow.listing(&self.destination);
        match self.room.desk.connect(&self.destination, listing) {
            Ok(permit) => self.forward(permit, client, listing).await,
            Err(refusal) => Next::Answer(words::not_allowed(&self.destination, listing, &refusal)),
        }
    }

    /// Carries out a permitted request over a connection of its own.
    async fn forward(self, permit: Permit, client: &mut Client, listing: Listing) -> Next {
        let connected = self.room.connect(&permit, &self.destination, listing).await;
        let (stream, outgoing) = match (connected, self.outgoing()) {
            (Ok(stream), Ok(outgoing)) => (stream, outgoing),
            (Err(answer), _) | (_, Err(answer)) => return Next::Answer(answer),
        };
        let act = Act::Request {
            upstream: self.destination.to_string(),
            method: self.head.method.to_string(),
            path: self.path.path().to_owned(),
        };
        let ledger = Ledger::open(&self.room.desk, permit, act);
        let exchange = Exchange {
            head: self.head,
            limits: &self.room.limits,
            timeouts: &self.room.timeouts,
            ledger: &ledger,
            destination: &self.destination,
            scrubber: None,
        };
        match Link::open(stream).await {
            Ok(mut link) => exchange.run(client, &mut link, outgoing).await.next,
            Err(error) => Next::Answer(exchange.failed(&error.to_string())),
        }
    }

    fn outgoing(&self) -> Result<Request<()>, Answer> {
        let mut request = Request::new(());
        *request.method_mut() = self.head.method.clone();
        *request.uri_mut() = self.path.clone().into();
        let mut headers = self.head.headers.clone();
        RequestHead::strip_hop_by_hop(&mut headers);
        headers.remove(header::EXPECT);
        let host = HeaderValue::from_str(&self.destination.without_default(80));
        headers.insert(header::HOST, host.map_err(|_| words::not_for_a_proxy())?);
        *request.headers_mut() = headers;
        Ok(request)
    }
}
