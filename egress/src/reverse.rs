//! An API's own port: plain HTTP inside, the API with the session's key outside.

use std::sync::Arc;

use aegis_policies::{Kind, Permit, Scope};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{Request, StatusCode};

use crate::dial::DialError;
use crate::forward::{Exchange, Next};
use crate::http::{Answer, Client, HeadError, RequestHead, Target};
use crate::ledger::{Act, Ledger};
use crate::link::Link;
use crate::room::{Api, Room};
use crate::scrub::Scrubber;
use crate::upstream::{Key, Upstream, is_plain};
use crate::words;

/// Serves one connection of the sandbox to an API.
pub(crate) async fn serve(room: &Room, api: &Arc<Api>, mut client: Client) {
    loop {
        let head = match client.read_head(&room.limits, &room.timeouts).await {
            Ok(Some(head)) => head,
            Ok(None) => return,
            Err(error) => return reject(room, api, client, error).await,
        };
        let port = Port {
            room,
            api,
            head: &head,
        };
        let next = port.request(&mut client).await;
        if let Next::Close = next.settle(&mut client, &head.method).await {
            return client.close().await;
        }
    }
}

/// Refuses a head that can not be read; the rest of the connection can not be read either.
async fn reject(room: &Room, api: &Api, mut client: Client, error: HeadError) {
    let upstream = api.upstream.name().to_owned();
    let scope = Scope::Request {
        upstream,
        method: String::new(),
        path: String::new(),
    };
    room.desk.block(Kind::NetRequest, scope, error.reason);
    drop(
        client
            .answer(&words::unreadable(error), &hyper::Method::GET)
            .await,
    );
    client.close().await;
}

/// One request at the port of an API.
struct Port<'a> {
    room: &'a Room,
    api: &'a Arc<Api>,
    head: &'a RequestHead,
}

/// What a request to an API needs: the right to send it, and the right to spend the key on it.
struct Permits {
    request: Permit,
    secret: Permit,
}

impl Port<'_> {
    async fn request(&self, client: &mut Client) -> Next {
        match self.judge() {
            Ok((permits, key, path)) => match self.outgoing(permits.secret, key, path) {
                Ok(outgoing) => self.forward(permits.request, key, client, outgoing).await,
                Err(answer) => Next::Answer(answer),
            },
            Err(answer) => Next::Answer(answer),
        }
    }

    /// Names the request and has it judged: first what the API's table says, then the policy.
    fn judge(&self) -> Result<(Permits, &Key, PathAndQuery), Answer> {
        let upstream = &self.api.upstream;
        let Target::Origin(path) = &self.head.target else {
            return Err(self.block(
                "the request is not for an API's port",
                words::not_for_an_api(),
            ));
        };
        if !is_plain(path.path()) {
            return Err(self.block("the path is ambiguous", words::ambiguous_path()));
        }
        let Some(key) = &upstream.key else {
            return Err(self.block("the launcher has no key for it", words::no_key(upstream)));
        };
        if !upstream
            .entry
            .allows(self.head.method.as_str(), path.path())
        {
            let reason = "this request is not among those that the session's key is used for";
            return Err(self.block(reason, words::not_offered(upstream, reason)));
        }
        let judge = |kind| {
            let verdict = self.room.desk.judge(kind, self.scope());
            verdict.map_err(|refusal| words::not_offered(upstream, &refusal.to_string()))
        };
        let request = judge(Kind::NetRequest)?;
        let secret = judge(Kind::SecretInject)?;
        for permit in [&request, &secret] {
            let begun = self.room.desk.begin(permit);
            begun.map_err(|error| words::unrecorded(&error))?;
        }
        let outside = upstream.base.path(path).ok_or_else(words::ambiguous_path)?;
        Ok((Permits { request, secret }, key, outside))
    }

    fn block(&self, reason: &str, answer: Answer) -> Answer {
        self.room.desk.block(Kind::NetRequest, self.scope(), reason);
        answer
    }

    fn scope(&self) -> Scope {
        Scope::Request {
            upstream: self.api.upstream.name().to_owned(),
            method: self.head.method.to_string(),
            path: self.path().to_owned(),
        }
    }

    fn path(&self) -> &str {
        match &self.head.target {
            Target::Origin(path) | Target::Absolute(_, path) => path.path(),
            Target::Authority(_) => "",
            Target::Asterisk => "*",
        }
    }

    /// The request as the API sees it. What the agent put where a key belongs is gone before the
    /// session's key is added, so that neither another key nor a `Connection` field can replace it.
    fn outgoing(
        &self,
        secret: Permit,
        key: &Key,
        path: PathAndQuery,
    ) -> Result<Request<()>, Answer> {
        let upstream = &self.api.upstream;
        let mut headers = self.head.headers.clone();
        RequestHead::strip_hop_by_hop(&mut headers);
        upstream.strip(&mut headers);
        headers.insert(
            header::ACCEPT_ENCODING,
            HeaderValue::from_static("identity"),
        );
        headers.insert(header::HOST, host(upstream)?);
        inject(secret, key, &mut headers).map_err(|_| words::no_key(upstream))?;
        let mut request = Request::new(());
        *request.method_mut() = self.head.method.clone();
        *request.uri_mut() = path.into();
        *request.headers_mut() = headers;
        Ok(request)
    }

    async fn forward(
        &self,
        permit: Permit,
        key: &Key,
        client: &mut Client,
        outgoing: Request<()>,
    ) -> Next {
        let act = Act::Request {
            upstream: self.api.upstream.name().to_owned(),
            method: self.head.method.to_string(),
            path: self.path().to_owned(),
        };
        let ledger = Ledger::open(&self.room.desk, permit, act);
        let mut link = match self.link().await {
            Ok(link) => link,
            Err(answer) => {
                if answer.status == StatusCode::FORBIDDEN {
                    ledger.block("the API's name leads to an address that it must not lead to");
                }
                return Next::Answer(answer);
            }
        };
        let exchange = Exchange {
            head: self.head,
            limits: &self.room.limits,
            timeouts: &self.room.timeouts,
            ledger: &ledger,
            destination: &self.api.upstream.base.authority,
            scrubber: Scrubber::new(key.secret.bytes()),
        };
        let done = exchange.run(client, &mut link, outgoing).await;
        if done.reusable {
            self.api.pool.put(link).await;
        }
        done.next
    }

    /// A connection to the API: one that waits, or a new one.
    async fn link(&self) -> Result<Link, Answer> {
        if let Some(link) = self.api.pool.take().await {
            return Ok(link);
        }
        let base = &self.api.upstream.base;
        let dialled = self.api.dialer.dial(&base.authority, base.listing()).await;
        let stream = dialled.map_err(|error| self.not_connected(&error))?;
        let failed =
            |why: String| words::upstream_failed(StatusCode::BAD_GATEWAY, &base.authority, &why);
        if base.secure {
            let wrapped = self.room.tls.wrap(&base.authority.host, stream).await;
            let stream = wrapped.map_err(|error| failed(error.to_string()))?;
            Link::open(stream)
                .await
                .map_err(|error| failed(error.to_string()))
        } else {
            Link::open(stream)
                .await
                .map_err(|error| failed(error.to_string()))
        }
    }

    fn not_connected(&self, error: &DialError) -> Answer {
        let status = match error {
            DialError::Forbidden { .. } => StatusCode::FORBIDDEN,
            DialError::Late(_) => StatusCode::GATEWAY_TIMEOUT,
            DialError::Unresolved(_) | DialError::Unreachable(_) => StatusCode::BAD_GATEWAY,
        };
        words::upstream_failed(
            status,
            &self.api.upstream.base.authority,
            &error.to_string(),
        )
    }
}

/// Spends the right to use the key.
fn inject(
    _secret: Permit,
    key: &Key,
    headers: &mut HeaderMap,
) -> Result<(), header::InvalidHeaderValue> {
    headers.insert(&key.header, key.secret.header(&key.credential.prefix)?);
    Ok(())
}

fn host(upstream: &Upstream) -> Result<HeaderValue, Answer> {
    let base = &upstream.base;
    let port = if base.secure { 443 } else { 80 };
    let host = base.authority.without_default(port);
    HeaderValue::from_str(&host).map_err(|_| words::not_offered(upstream, "its host is not valid"))
}
