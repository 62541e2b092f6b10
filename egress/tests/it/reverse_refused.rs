//! What the APIs' ports refuse.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::mpsc;

use aegis_policies::journal::Event;

use crate::reverse::{OK, anthropic, post};
use crate::support::{House, KEY, connect, exchange, options, read_to_end, recording, server};

fn counted() -> (SocketAddr, mpsc::Receiver<String>) {
    recording(OK)
}

#[test]
fn only_the_listed_requests_get_the_key() {
    let (upstream, requests) = counted();
    let house = anthropic(upstream);
    for (request, status) in [
        (post("/v1/files", "", "{}"), "403"),
        (post("/v1/organizations/x", "", "{}"), "403"),
        (post("/v1/messagesX", "", "{}"), "403"),
        (post("/", "", "{}"), "403"),
        (
            "DELETE /v1/messages HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
            "403",
        ),
        (
            "post /v1/messages HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
            "403",
        ),
        (post("/v1/messages/../files", "", "{}"), "400"),
        (post("/v1/messages/%2e%2e/files", "", "{}"), "400"),
        (post("/v1/messages/..%2Ffiles", "", "{}"), "400"),
        (post("/v1/messages/%252e%252e/files", "", "{}"), "400"),
        (post("//v1/messages", "", "{}"), "400"),
        (post("/v1//messages", "", "{}"), "400"),
        (post("/v1/messages\\..\\files", "", "{}"), "400"),
        (
            post("http://api.anthropic.com/v1/messages", "", "{}"),
            "400",
        ),
        (
            "CONNECT api.anthropic.com:443 HTTP/1.1\r\nHost: api.anthropic.com\r\n\r\n".into(),
            "400",
        ),
        ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), "400"),
    ] {
        let answer = exchange(house.anthropic, &request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request}: {answer}"
        );
        assert!(answer.contains("aegis-os refused"), "{answer}");
    }
    assert_eq!(requests.try_iter().count(), 0);
    let (summary, events) = house.close();
    assert_eq!((summary.refused, summary.requests), (16, 0));
    let blocked = events
        .iter()
        .filter(|event| matches!(event, Event::Blocked { .. }))
        .count();
    assert!(blocked >= 15, "{blocked}");
}

#[test]
fn what_two_servers_read_in_two_ways_is_refused() {
    let (upstream, requests) = counted();
    let house = anthropic(upstream);
    let start = "POST /v1/messages HTTP/1.1\r\n";
    for rest in [
        "Host: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Host: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "Host: a\r\nHost: b\r\nContent-Length: 2\r\n\r\n{}",
        "Host: a\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        "Host: a\r\nTransfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
        "Host: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "Host: a\r\nX: 1\r\n Content-Length: 2\r\n\r\n{}",
        "Host: a\nContent-Length: 2\r\n\r\n{}",
        "Content-Length: 2\r\n\r\n{}",
        "Host: a\r\nX: \0\r\n\r\n",
    ] {
        let answer = exchange(house.anthropic, format!("{start}{rest}"));
        assert!(answer.starts_with("HTTP/1.1 400 "), "{rest}: {answer}");
    }
    assert_eq!(requests.try_iter().count(), 0);
    assert_eq!(house.close().0.refused, 10);
}

#[test]
fn bad_chunks_are_never_completed_upstream() {
    let (report, ends) = mpsc::channel();
    let upstream = server(move |mut stream| report.send(read_to_end(&mut stream)).unwrap());
    let house = anthropic(upstream);
    let head = "POST /v1/messages HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for chunks in [
        "3\r\nabcX\r\n0\r\n\r\n",
        "3;x=y\r\nabc\r\n0\r\n\r\n",
        "3\nabc\n0\n\n",
        "zz\r\n",
    ] {
        let answer = exchange(house.anthropic, format!("{head}{chunks}"));
        assert!(answer.starts_with("HTTP/1.1 400 "), "{chunks}: {answer}");
        let seen = ends.recv().unwrap();
        assert!(!seen.contains("\r\n0\r\n\r\n"), "{seen}");
    }
}

#[test]
fn a_body_over_the_limit_is_refused() {
    let (report, ends) = mpsc::channel();
    let upstream = server(move |mut stream| report.send(read_to_end(&mut stream)).unwrap());
    let base = format!("http://{upstream}");
    let mut small = options(&[]);
    small.limits.body_bytes = 1000;
    let variables = [("ANTHROPIC_BASE_URL", &*base), ("ANTHROPIC_API_KEY", KEY)];
    let house = House::with(small, &variables);
    let announced = exchange(house.anthropic, post("/v1/messages", "", &"a".repeat(1001)));
    assert!(announced.starts_with("HTTP/1.1 413 "), "{announced}");
    let chunk = format!("1f4\r\n{}\r\n", "a".repeat(500));
    let chunked = format!(
        "POST /v1/messages HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}{chunk}{chunk}"
    );
    let answer = exchange(house.anthropic, chunked);
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    for seen in [ends.recv().unwrap(), ends.recv().unwrap()] {
        assert!(
            !seen.ends_with("\r\n0\r\n\r\n"),
            "the body was completed: {seen}"
        );
    }
    assert!(
        house
            .refusals()
            .iter()
            .all(|reason| reason.contains("larger than"))
    );
}

#[test]
fn an_api_without_a_key_says_which_variable_to_set() {
    let house = House::allowing(&[]);
    for (port, variable) in [
        (
            house.anthropic,
            "`ANTHROPIC_API_KEY` or `ANTHROPIC_AUTH_TOKEN`",
        ),
        (house.openai, "`OPENAI_API_KEY`"),
    ] {
        let answer = exchange(port, post("/v1/messages", "x-api-key: my-own\r\n", "{}"));
        assert!(
            answer.starts_with("HTTP/1.1 401 ") && answer.contains(variable),
            "{answer}"
        );
    }
    assert_eq!(house.refusals().len(), 2);
}

#[test]
fn a_compressed_answer_could_hide_the_key() {
    let (upstream, _requests) =
        recording("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nzz");
    let house = anthropic(upstream);
    let answer = exchange(house.anthropic, post("/v1/messages", "", "{}"));
    assert!(
        answer.starts_with("HTTP/1.1 502 ") && answer.contains("compressed"),
        "{answer}"
    );
    assert_eq!(house.refusals().len(), 1);
}

#[test]
fn an_api_that_misbehaves_is_reported() {
    let silent = server(drop);
    let garbage = server(|mut stream| stream.write_all(b"garbage\r\n\r\n").unwrap());
    let switching = server(|mut stream| {
        crate::support::read_message(&mut stream);
        let answer =
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n";
        stream.write_all(answer.as_bytes()).unwrap();
    });
    for upstream in [silent, garbage, switching] {
        let house = anthropic(upstream);
        let answer = exchange(house.anthropic, post("/v1/messages", "", "{}"));
        assert!(
            answer.starts_with("HTTP/1.1 502 aegis-os got no answer"),
            "{answer}"
        );
        assert!(!answer.contains(KEY));
    }
}

#[test]
fn a_request_hidden_behind_another_is_judged_by_itself() {
    let (upstream, requests) = counted();
    let house = anthropic(upstream);
    let hidden = "POST /v1/files HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    let mut stream = connect(house.anthropic);
    stream
        .write_all(format!("{}{hidden}", post("/v1/messages", "", "{}")).as_bytes())
        .unwrap();
    let answers = read_to_end(&mut stream);
    assert!(
        answers.starts_with("HTTP/1.1 200 ") && answers.contains("HTTP/1.1 403 "),
        "{answers}"
    );
    assert_eq!(requests.try_iter().count(), 1);
}
