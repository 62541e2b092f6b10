//! `http://` URLs at the proxy port.

use std::io::Write;

use aegis_policies::journal::Event;

use crate::support::{House, at, connect, exchange, read_message, recording};

const OK: &str =
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: timeout=5\r\nX-Up: 1\r\n\r\nhi";

#[test]
fn a_listed_host_is_asked_without_what_belongs_to_the_proxy() {
    let (server, requests) = recording(OK);
    let house = House::allowing(&[&at(server)]);
    let mut stream = connect(house.proxy);
    let name = at(server);
    let request = format!(
        "POST http://{name}/path?query=1 HTTP/1.1\r\nHost: {name}\r\nProxy-Connection: keep-alive\r\n\
         Proxy-Authorization: Basic c2VjcmV0\r\nConnection: X-Mine\r\nX-Mine: 1\r\nX-Kept: 2\r\n\
         Upgrade: websocket\r\nContent-Length: 4\r\n\r\nbody"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let answer = read_message(&mut stream);
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nhi"),
        "{answer}"
    );
    assert!(
        answer.contains("x-up: 1") && !answer.contains("keep-alive"),
        "{answer}"
    );
    let seen = requests.recv().unwrap().to_ascii_lowercase();
    assert!(
        seen.starts_with("post /path?query=1 http/1.1\r\n"),
        "{seen}"
    );
    assert!(
        seen.contains(&format!("host: {name}\r\n")) && seen.contains("x-kept: 2"),
        "{seen}"
    );
    assert!(seen.ends_with("\r\n\r\nbody"), "{seen}");
    for gone in ["proxy-", "x-mine", "upgrade", "c2vjcmv0"] {
        assert!(!seen.contains(gone), "{gone}: {seen}");
    }
}

#[test]
fn each_request_of_a_connection_is_judged() {
    let (server, _requests) = recording(OK);
    let house = House::allowing(&[&at(server)]);
    let mut stream = connect(house.proxy);
    let name = at(server);
    for _ in 0..2 {
        let request = format!("GET http://{name}/ HTTP/1.1\r\nHost: {name}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        assert!(read_message(&mut stream).starts_with("HTTP/1.1 200 "));
    }
    stream
        .write_all(b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n")
        .unwrap();
    assert!(read_message(&mut stream).starts_with("HTTP/1.1 403 "));
    let (summary, events) = house.close();
    assert_eq!((summary.requests, summary.refused), (2, 1));
    let requests = events.iter().filter(
        |event| matches!(event, Event::Request { upstream, status: 200, .. } if *upstream == name),
    );
    assert_eq!(requests.count(), 2);
}

#[test]
fn what_is_for_no_proxy_is_refused() {
    let (server, _requests) = recording(OK);
    let house = House::allowing(&[&at(server), "a.example"]);
    let port = server.port();
    for (request, status) in [
        (
            "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n".to_owned(),
            "400",
        ),
        (
            "OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n".to_owned(),
            "400",
        ),
        (
            "GET https://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n".to_owned(),
            "400",
        ),
        (
            "GET http://a.example@127.0.0.1/ HTTP/1.1\r\nHost: a.example\r\n\r\n".to_owned(),
            "400",
        ),
        (
            "GET http://a.example/ HTTP/1.1\r\nHost: evil.test\r\n\r\n".to_owned(),
            "400",
        ),
        (
            format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"),
            "403",
        ),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), "400"),
        ("\u{16}\u{3}\u{1}\0\u{5}hello\r\n\r\n".to_owned(), "400"),
        ("\u{5}\u{1}\0\r\n\r\n".to_owned(), "400"),
        ("GET http://a.example/\n\n".to_owned(), "400"),
    ] {
        let answer = exchange(house.proxy, &request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request}: {answer}"
        );
    }
    let (summary, events) = house.close();
    assert_eq!(summary.refused, 10);
    assert!(
        events
            .iter()
            .any(|event| matches!(event, Event::Blocked { .. }))
    );
    assert!(
        events
            .iter()
            .any(|event| matches!(event, Event::Refused { .. }))
    );
}
