//! Bodies that arrive piece by piece. Order is what is tested, never time: each side goes on only
//! when it has seen what the other sent before.

use std::io::{Read, Write};
use std::sync::mpsc;

use crate::reverse::{OK, anthropic, post};
use crate::support::{connect, read_until, server};

#[test]
fn tokens_are_passed_on_one_by_one() {
    let (seen_by_client, go_on) = mpsc::channel::<usize>();
    let go_on = std::sync::Mutex::new(go_on);
    let upstream = server(move |mut stream| {
        crate::support::read_message(&mut stream);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                    Transfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        for number in 0..50 {
            let event = format!("data: token {number}\n\n");
            stream
                .write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes())
                .unwrap();
            // A proxy that held the token back would wait here for ever.
            assert_eq!(go_on.lock().unwrap().recv().unwrap(), number);
        }
        stream.write_all(b"0\r\n\r\n").unwrap();
    });
    let house = anthropic(upstream);
    let mut stream = connect(house.anthropic);
    stream
        .write_all(post("/v1/messages", "", "{\"stream\":true}").as_bytes())
        .unwrap();
    let head = read_until(&mut stream, "\r\n\r\n");
    assert!(head.contains("content-type: text/event-stream"), "{head}");
    for number in 0..50 {
        let event = read_until(&mut stream, "\n\n");
        assert!(
            event.ends_with(&format!("data: token {number}\n\n")),
            "{event}"
        );
        seen_by_client.send(number).unwrap();
    }
    read_until(&mut stream, "0\r\n\r\n");
    assert_eq!(house.close().0.requests, 1);
}

#[test]
fn a_body_is_forwarded_while_it_is_still_being_sent() {
    let (seen_by_upstream, go_on) = mpsc::channel();
    let upstream = server(move |mut stream| {
        read_until(&mut stream, "\r\n\r\n");
        for _ in 0..3 {
            read_until(&mut stream, "piece");
            seen_by_upstream.send(()).unwrap();
        }
        read_until(&mut stream, "0\r\n\r\n");
        stream.write_all(OK.as_bytes()).unwrap();
    });
    let house = anthropic(upstream);
    let mut stream = connect(house.anthropic);
    let head = "POST /v1/messages HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    for _ in 0..3 {
        stream.write_all(b"5\r\npiece\r\n").unwrap();
        go_on.recv().unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    assert!(read_until(&mut stream, "hi").starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_client_that_waits_for_permission_gets_it() {
    let upstream = server(|mut stream| {
        let request = crate::support::read_message(&mut stream);
        assert!(
            request.ends_with("{\"a\":1}") && !request.contains("expect"),
            "{request}"
        );
        stream.write_all(OK.as_bytes()).unwrap();
    });
    let house = anthropic(upstream);
    let mut stream = connect(house.anthropic);
    let head = "POST /v1/messages HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\
                Content-Length: 7\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(
        read_until(&mut stream, "\r\n\r\n"),
        "HTTP/1.1 100 Continue\r\n\r\n"
    );
    stream.write_all(b"{\"a\":1}").unwrap();
    assert!(read_until(&mut stream, "hi").starts_with("HTTP/1.1 200 "));
}

#[test]
fn large_bodies_pass_unchanged_in_both_directions() {
    const SIZE: usize = 5 << 20;
    let upstream = server(|mut stream| {
        read_until(&mut stream, "\r\n\r\n");
        let mut body = vec![0; SIZE];
        stream.read_exact(&mut body).unwrap();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&body).unwrap();
    });
    let house = anthropic(upstream);
    let body: String = (0..SIZE)
        .map(|index| char::from(b'a' + (index % 23) as u8))
        .collect();
    let mut stream = connect(house.anthropic);
    stream
        .write_all(post("/v1/messages", "", &body).as_bytes())
        .unwrap();
    read_until(&mut stream, "\r\n\r\n");
    let mut answer = vec![0; SIZE];
    stream.read_exact(&mut answer).unwrap();
    assert!(answer == body.as_bytes());
    let (summary, _) = house.close();
    assert_eq!((summary.sent, summary.received), (SIZE as u64, SIZE as u64));
}

#[test]
fn an_answer_that_comes_before_the_body_is_passed_on() {
    let upstream = server(|mut stream| {
        read_until(&mut stream, "\r\n\r\n");
        stream
            .write_all(b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\n\r\nwait")
            .unwrap();
        // The rest of the body is never read.
        drop(stream.read(&mut [0]));
    });
    let house = anthropic(upstream);
    let mut stream = connect(house.anthropic);
    let head = "POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    assert!(read_until(&mut stream, "wait").starts_with("HTTP/1.1 429 "));
}

#[test]
fn a_stream_that_breaks_off_does_not_look_complete() {
    let upstream = server(|mut stream| {
        crate::support::read_message(&mut stream);
        let start = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n";
        stream.write_all(start.as_bytes()).unwrap();
    });
    let house = anthropic(upstream);
    let answer = crate::support::exchange(house.anthropic, post("/v1/messages", "", "{}"));
    assert!(
        answer.contains("part") && !answer.ends_with("0\r\n\r\n"),
        "{answer}"
    );
}
