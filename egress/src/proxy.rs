//! The proxy port: CONNECT, and `http://` URLs in absolute form.

use aegis_policies::{Kind, Permit, Scope};
use hyper::http::uri::PathAndQuery;
use hyper::{Request, StatusCode};

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
                let next = request(room, &mut client, &head, destination, path).await;
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

async fn request(
    room: &Room,
    client: &mut Client,
    head: &RequestHead,
    destination: Authority,
    path: PathAndQuery,
) -> Next {
    let listing = room.allow.listing(&destination);
    match room.desk.connect(&destination, listing) {
        Ok(permit) => forward(permit, room, client, head, destination, path, listing).await,
        Err(refusal) => Next::Answer(words::not_allowed(&destination, &refusal)),
    }
}

/// Carries out a permitted request over a connection of its own.
async fn forward(
    permit: Permit,
    room: &Room,
    client: &mut Client,
    head: &RequestHead,
    destination: Authority,
    path: PathAndQuery,
    listing: Listing,
) -> Next {
    let stream = match room.dialer.dial(&destination, listing).await {
        Ok(stream) => stream,
        Err(error) => {
            let answer = words::not_connected(&destination, &error);
            if answer.status == StatusCode::FORBIDDEN {
                room.desk.block_permitted(&permit, &error.to_string());
            }
            return Next::Answer(answer);
        }
    };
    let act = Act::Request {
        upstream: destination.to_string(),
        method: head.method.to_string(),
        path: path.path().to_owned(),
    };
    let ledger = Ledger::open(&room.desk, permit, act);
    let exchange = Exchange {
        head,
        limits: &room.limits,
        timeouts: &room.timeouts,
        ledger: &ledger,
        destination: &destination,
        scrubber: None,
    };
    let outgoing = match outgoing(head, &destination, path) {
        Ok(outgoing) => outgoing,
        Err(answer) => return Next::Answer(answer),
    };
    match Link::open(stream).await {
        Ok(mut link) => exchange.run(client, &mut link, outgoing).await.next,
        Err(error) => Next::Answer(exchange.failed(&error.to_string())),
    }
}

fn outgoing(
    head: &RequestHead,
    destination: &Authority,
    path: PathAndQuery,
) -> Result<Request<()>, Answer> {
    let mut request = Request::new(());
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = path.into();
    let mut headers = head.headers.clone();
    RequestHead::strip_hop_by_hop(&mut headers);
    headers.remove(hyper::header::EXPECT);
    let host = destination.without_default(80).try_into();
    headers.insert(
        hyper::header::HOST,
        host.map_err(|_| words::not_for_a_proxy())?,
    );
    *request.headers_mut() = headers;
    Ok(request)
}
