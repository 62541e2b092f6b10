//! The APIs' own ports: what the API sees, and what the agent sees.

use std::io::{Read, Write};
use std::net::SocketAddr;

use aegis_policies::journal::Event;
use rustls::{ServerConnection, StreamOwned};

use crate::support::{
    House, KEY, connect, exchange, options, read_message, read_until, recording, server,
};
use crate::tls::Authority;

pub const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

/// A door whose Anthropic API is `upstream`, with a key.
pub fn anthropic(upstream: SocketAddr) -> House {
    let base = format!("http://{upstream}");
    House::with(
        options(&[]),
        &[("ANTHROPIC_BASE_URL", &base), ("ANTHROPIC_API_KEY", KEY)],
    )
}

pub fn post(path: &str, fields: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:4001\r\nContent-Length: {length}\r\n{fields}\r\n{body}"
    )
}

#[test]
fn the_agents_credentials_are_replaced_by_the_key() {
    let (upstream, requests) = recording(OK);
    let house = anthropic(upstream);
    let fields = "X-Api-Key: stolen-1\r\nx-api-key: stolen-2\r\nAuthorization: Bearer stolen-3\r\n\
                  Cookie: stolen-4\r\nProxy-Authorization: stolen-5\r\nAccept-Encoding: gzip\r\n\
                  Connection: x-api-key\r\nRange: bytes=0-1\r\nanthropic-version: 2023-06-01\r\n";
    let mut stream = connect(house.anthropic);
    stream
        .write_all(post("/v1/messages?beta=true", fields, "{}").as_bytes())
        .unwrap();
    assert!(read_message(&mut stream).ends_with("hi"));
    let seen = requests.recv().unwrap();
    assert!(
        seen.starts_with("POST /v1/messages?beta=true HTTP/1.1\r\n"),
        "{seen}"
    );
    assert!(seen.contains(&format!("x-api-key: {KEY}\r\n")), "{seen}");
    assert!(seen.contains(&format!("host: {upstream}\r\n")), "{seen}");
    assert!(seen.contains("accept-encoding: identity\r\n"), "{seen}");
    assert!(
        seen.contains("anthropic-version: 2023-06-01\r\n") && seen.ends_with("{}"),
        "{seen}"
    );
    assert!(
        !seen.contains("stolen") && !seen.contains("range"),
        "{seen}"
    );
    assert_eq!(seen.matches("x-api-key").count(), 1);
    let (summary, events) = house.close();
    assert_eq!((summary.requests, summary.refused), (1, 0));
    assert!(events.iter().any(|event| matches!(event, Event::Request {
        upstream, method, path, status: 200, sent: 2, received: 2, ..
    } if upstream == "anthropic" && method == "POST" && path == "/v1/messages")));
    assert!(
        !format!("{events:?}").contains(KEY),
        "the key is in the journal"
    );
}

#[test]
fn the_openai_api_has_its_own_header_and_suffix() {
    let (upstream, requests) = recording(OK);
    let base = format!("http://{upstream}/v1");
    let variables = [("OPENAI_BASE_URL", &*base), ("OPENAI_API_KEY", KEY)];
    let house = House::with(options(&[]), &variables);
    let request = post(
        "/v1/responses",
        "Authorization: Bearer sk-aegis-stand-in\r\n",
        "{}",
    );
    let mut stream = connect(house.openai);
    stream.write_all(request.as_bytes()).unwrap();
    read_message(&mut stream);
    let seen = requests.recv().unwrap();
    assert!(
        seen.starts_with("POST /v1/responses HTTP/1.1\r\n"),
        "{seen}"
    );
    assert!(
        seen.contains(&format!("authorization: Bearer {KEY}\r\n")),
        "{seen}"
    );
    assert!(!seen.contains("stand-in"), "{seen}");
}

#[test]
fn an_api_that_echoes_the_key_gives_it_to_nobody() {
    let upstream = server(|mut stream| {
        let request = read_message(&mut stream);
        assert!(request.contains(KEY));
        let (first, second) = KEY.split_at(9);
        let head = format!(
            "HTTP/1.1 200 OK\r\nX-Echo: key={KEY};\r\nLocation: https://evil.test/?k={KEY}\r\n\
             Transfer-Encoding: chunked\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        for piece in ["you sent ", first, second, " and ", KEY, "!"] {
            let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
            stream.write_all(chunk.as_bytes()).unwrap();
        }
        stream
            .write_all(format!("0\r\nx-trailer: {KEY}\r\n\r\n").as_bytes())
            .unwrap();
    });
    let house = anthropic(upstream);
    let answer = exchange(
        house.anthropic,
        post("/v1/messages", "Connection: close\r\n", "{}"),
    );
    let mask = "*".repeat(KEY.len());
    assert!(answer.contains(&format!("x-echo: key={mask};")), "{answer}");
    assert!(
        answer.contains(&format!("location: https://evil.test/?k={mask}")),
        "{answer}"
    );
    let body: String = answer
        .split("\r\n")
        .filter(|line| !line.contains(": "))
        .collect();
    assert!(!answer.contains(KEY) && !body.contains(KEY), "{answer}");
    assert!(!answer.contains(&KEY[..9]), "{answer}");
    assert_eq!(body.matches('*').count(), 2 * KEY.len(), "{answer}");
}

#[test]
fn redirects_are_passed_back_and_not_followed() {
    let (upstream, requests) = recording(
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://evil.test/\r\nContent-Length: 0\r\n\r\n",
    );
    let house = anthropic(upstream);
    let mut stream = connect(house.anthropic);
    stream
        .write_all(post("/v1/messages", "", "{}").as_bytes())
        .unwrap();
    let answer = read_message(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 307 ") && answer.contains("location: http://evil.test/"));
    assert_eq!(requests.try_iter().count(), 1);
}

#[test]
fn requests_share_a_connection_to_the_api() {
    let upstream = server(|mut stream| {
        for number in 1.. {
            if !stream.peek(&mut [0]).is_ok_and(|count| count == 1) {
                return;
            }
            read_message(&mut stream);
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let house = anthropic(upstream);
    let mut kept = connect(house.anthropic);
    for number in 1..=3 {
        kept.write_all(post("/v1/messages", "", "{}").as_bytes())
            .unwrap();
        assert!(read_message(&mut kept).ends_with(&format!("\r\n\r\n{number}")));
    }
    let other = exchange(
        house.anthropic,
        post("/v1/messages", "Connection: close\r\n", "{}"),
    );
    assert!(other.ends_with("\r\n\r\n4"), "{other}");
}

#[test]
fn a_connection_that_the_api_closed_is_replaced() {
    let upstream = server(|mut stream| {
        read_message(&mut stream);
        stream.write_all(OK.as_bytes()).unwrap();
    });
    let house = anthropic(upstream);
    let mut stream = connect(house.anthropic);
    for _ in 0..3 {
        stream
            .write_all(post("/v1/messages", "", "{}").as_bytes())
            .unwrap();
        assert!(read_message(&mut stream).ends_with("hi"));
        // The end of the upstream's connection is under way; the next request must not meet it.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn an_https_api_is_reached_with_an_extra_root() {
    let authority = Authority::for_names(&["localhost"]);
    let accept = authority.accept();
    let upstream = server(move |stream| {
        let connection = ServerConnection::new(accept.clone()).unwrap();
        let mut tls = StreamOwned::new(connection, stream);
        assert!(read_message(&mut tls).contains(KEY));
        tls.write_all(OK.as_bytes()).unwrap();
        tls.conn.send_close_notify();
        tls.flush().unwrap();
    });
    let base = format!("https://localhost:{}", upstream.port());
    let variables = [("ANTHROPIC_BASE_URL", &*base), ("ANTHROPIC_API_KEY", KEY)];
    let mut trusting = options(&[]);
    trusting.trust_pem(authority.pem.as_bytes()).unwrap();
    let house = House::with(trusting, &variables);
    let request = post("/v1/messages", "Connection: close\r\n", "{}");
    assert!(exchange(house.anthropic, &request).ends_with("hi"));
    // Without the root, the key is not sent.
    let distrusting = House::with(options(&[]), &variables);
    let answer = exchange(distrusting.anthropic, &request);
    assert!(
        answer.starts_with("HTTP/1.1 502 ") && !answer.contains(KEY),
        "{answer}"
    );
}

#[test]
fn head_and_empty_answers_have_no_body() {
    let (upstream, _requests) = recording("HTTP/1.1 204 No Content\r\n\r\n");
    let house = anthropic(upstream);
    let mut stream = connect(house.anthropic);
    stream
        .write_all(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    let head = read_until(&mut stream, "\r\n\r\n");
    assert!(
        head.starts_with("HTTP/1.1 204 ") && !head.contains("transfer-encoding"),
        "{head}"
    );
    stream
        .write_all(b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    assert!(read_until(&mut stream, "\r\n\r\n").starts_with("HTTP/1.1 204 "));
}

#[test]
fn an_old_client_gets_a_body_that_ends_with_the_connection() {
    let upstream = server(|mut stream| {
        read_message(&mut stream);
        let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let house = anthropic(upstream);
    let answer = exchange(house.anthropic, "GET /v1/models HTTP/1.0\r\n\r\n");
    assert!(
        !answer.contains("chunked") && answer.ends_with("\r\n\r\nhi"),
        "{answer}"
    );
}

#[test]
fn a_client_that_leaves_ends_the_work_upstream() {
    let (report, told) = std::sync::mpsc::channel();
    let upstream = server(move |mut stream| {
        read_message(&mut stream);
        report.send("asked").unwrap();
        let end = stream.read(&mut [0]);
        report
            .send(if matches!(end, Ok(0)) {
                "ended"
            } else {
                "still open"
            })
            .unwrap();
    });
    let house = anthropic(upstream);
    let mut stream = connect(house.anthropic);
    stream
        .write_all(post("/v1/messages", "", "{}").as_bytes())
        .unwrap();
    assert_eq!(told.recv().unwrap(), "asked");
    drop(stream);
    assert_eq!(told.recv().unwrap(), "ended");
    drop(house);
}
