//! Floods, slowness and garbage.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::reverse::{OK, anthropic, post};
use crate::support::{House, KEY, at, connect, exchange, options, read_to_end, server, tunnel};

#[test]
fn two_hundred_connections_are_served_sixteen_at_a_time() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (open, peak) = (Arc::clone(&now), Arc::clone(&most));
    let server = server(move |mut stream| {
        peak.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let mut text = [0; 4];
        stream.read_exact(&mut text).unwrap();
        // Leaves before the client does, so that the door can not have let another one in.
        open.fetch_sub(1, Ordering::SeqCst);
        stream.write_all(&text).unwrap();
    });
    let mut bounded = options(&[&at(server)]);
    bounded.limits.connections = 16;
    let house = House::with(bounded, &[]);
    let proxy = house.proxy;
    let clients: Vec<_> = (0..200)
        .map(|_| {
            std::thread::spawn(move || {
                let mut stream = tunnel(proxy, &at(server));
                stream.write_all(b"ping").unwrap();
                assert_eq!(read_to_end(&mut stream), "ping");
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    assert!(most.load(Ordering::SeqCst) <= 16, "{most:?}");
    assert_eq!(house.close().0.connections, 200);
}

#[test]
fn a_slow_head_is_cut_off_and_others_are_served() {
    let upstream = server(|mut stream| {
        crate::support::read_message(&mut stream);
        stream.write_all(OK.as_bytes()).unwrap();
    });
    let base = format!("http://{upstream}");
    let mut hasty = options(&[]);
    hasty.timeouts.head = Duration::from_millis(50);
    hasty.timeouts.keep_alive = Duration::from_millis(50);
    let variables = [("ANTHROPIC_BASE_URL", &*base), ("ANTHROPIC_API_KEY", KEY)];
    let house = House::with(hasty, &variables);
    let mut slow = connect(house.anthropic);
    slow.write_all(b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nX: ")
        .unwrap();
    let mut silent = connect(house.anthropic);
    assert!(exchange(house.anthropic, post("/v1/messages", "", "{}")).ends_with("hi"));
    assert!(read_to_end(&mut slow).starts_with("HTTP/1.1 408 "));
    assert_eq!(read_to_end(&mut silent), "");
    assert_eq!(house.refusals(), ["the head is late"]);
}

#[test]
fn huge_heads_are_refused() {
    let house = House::allowing(&["a.example"]);
    let line = format!("GET http://a.example/{} HTTP/1.1\r\n", "a".repeat(70_000));
    let field = format!(
        "GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n",
        "a".repeat(70_000)
    );
    let many = format!(
        "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
        "x: 1\r\n".repeat(200)
    );
    let endless = "a".repeat(300_000);
    for request in [line, field, many, endless] {
        let answer = exchange(house.proxy, &request);
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    assert_eq!(house.close().0.refused, 4);
}

#[test]
fn garbage_is_refused_and_the_door_stays_open() {
    let upstream = server(|mut stream| {
        crate::support::read_message(&mut stream);
        stream.write_all(OK.as_bytes()).unwrap();
    });
    let house = anthropic(upstream);
    // A fixed generator (xorshift), so that a failure can be repeated.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..300 {
        let mut bytes: Vec<u8> = (0..next() % 400).map(|_| next().to_le_bytes()[0]).collect();
        if round % 3 == 0 {
            bytes.splice(0..0, *b"POST /v1/messages HTTP/1.1\r\nHost: a\r\n");
        }
        let address = if round % 2 == 0 {
            house.proxy
        } else {
            house.anthropic
        };
        let mut stream = connect(address);
        // The door may answer and close before everything is written.
        drop(stream.write_all(&bytes));
        drop(stream.shutdown(std::net::Shutdown::Write));
        let answer = read_to_end(&mut stream);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
            "{answer}"
        );
        assert!(!answer.contains(KEY));
    }
    let request = post("/v1/messages", "Connection: close\r\n", "{}");
    assert!(exchange(house.anthropic, request).ends_with("hi"));
    let (summary, events) = house.close();
    // One entry for each reason, however often it was met.
    assert!(
        summary.refused > 100 && events.len() < 100,
        "{summary:?} {}",
        events.len()
    );
}
