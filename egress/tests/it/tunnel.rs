//! CONNECT.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use aegis_policies::journal::Event;

use crate::support::{
    House, at, connect, exchange, options, read_to_end, read_until, server, tunnel,
};

pub fn echo() -> std::net::SocketAddr {
    server(|mut stream| {
        let mut text = Vec::new();
        stream.read_to_end(&mut text).unwrap();
        stream.write_all(&text).unwrap();
    })
}

pub fn connect_to(destination: &str) -> String {
    format!("CONNECT {destination} HTTP/1.1\r\nHost: {destination}\r\n\r\n")
}

#[test]
fn a_listed_host_is_reached_and_each_side_may_finish_alone() {
    let echo = echo();
    let house = House::allowing(&[&at(echo)]);
    let mut stream = tunnel(house.proxy, &at(echo));
    let text = "x".repeat(300_000);
    stream.write_all(text.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&mut stream), text);
    let (summary, events) = house.close();
    assert_eq!((summary.connections, summary.refused), (1, 0));
    assert_eq!((summary.sent, summary.received), (300_000, 300_000));
    let tunnel = events.iter().find_map(|event| match event {
        Event::Tunnel {
            host,
            port,
            sent,
            received,
            ..
        } => Some((&**host, *port, *sent, *received)),
        _ => None,
    });
    assert_eq!(tunnel, Some(("localhost", echo.port(), 300_000, 300_000)));
}

#[test]
fn a_server_may_speak_first() {
    let server = server(|mut stream| {
        stream.write_all(b"220 ready\r\n").unwrap();
        assert_eq!(read_until(&mut stream, "\r\n"), "HELO\r\n");
        stream.write_all(b"250 ok\r\n").unwrap();
    });
    let house = House::allowing(&[&at(server)]);
    let mut stream = tunnel(house.proxy, &at(server));
    assert_eq!(read_until(&mut stream, "\r\n"), "220 ready\r\n");
    stream.write_all(b"HELO\r\n").unwrap();
    assert_eq!(read_until(&mut stream, "\r\n"), "250 ok\r\n");
}

#[test]
fn bytes_behind_the_head_belong_to_the_tunnel() {
    let echo = echo();
    let house = House::allowing(&[&at(echo)]);
    let mut stream = connect(house.proxy);
    stream
        .write_all(format!("{}early", connect_to(&at(echo))).as_bytes())
        .unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(read_to_end(&mut stream).ends_with("\r\n\r\nearly"));
}

#[test]
fn a_host_that_does_not_answer_is_reported() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let house = House::allowing(&[&at(closed), "nowhere.example"]);
    let answer = exchange(house.proxy, connect_to(&at(closed)));
    assert!(
        answer.starts_with("HTTP/1.1 502 aegis-os could not open the connection"),
        "{answer}"
    );
    let (_, events) = house.close();
    let is_end = |event: &Event| matches!(event, Event::Blocked { reason, .. } if reason.starts_with(aegis_egress::FAILED));
    assert!(events.iter().any(is_end), "{events:?}");
}

#[test]
fn a_silent_tunnel_is_closed() {
    let server = server(|mut stream| drop(stream.read_to_end(&mut Vec::new())));
    let mut options = options(&[&at(server)]);
    options.timeouts.idle = Duration::from_millis(50);
    let house = House::with(options, &[]);
    let mut stream = tunnel(house.proxy, &at(server));
    assert_eq!(read_to_end(&mut stream), "");
    let (_, events) = house.close();
    assert!(
        events
            .iter()
            .any(|event| matches!(event, Event::Tunnel { .. }))
    );
}

/// A name server that never answers.
#[derive(Debug)]
struct Silent(std::sync::mpsc::Sender<()>);

impl aegis_egress::Resolve for Silent {
    fn resolve(&self, _name: &str) -> std::io::Result<Vec<std::net::IpAddr>> {
        self.0.send(()).unwrap();
        loop {
            std::thread::park();
        }
    }
}

#[test]
fn a_look_up_that_hangs_does_not_hold_up_the_end() {
    let (asked, wait) = std::sync::mpsc::channel();
    let mut options = options(&["slow.example"]);
    options.resolver = std::sync::Arc::new(Silent(asked));
    let house = House::with(options, &[]);
    let mut stream = connect(house.proxy);
    stream
        .write_all(connect_to("slow.example:443").as_bytes())
        .unwrap();
    wait.recv().unwrap();
    let (_, events) = house.close();
    assert_eq!(read_to_end(&mut stream), "");
    assert!(
        events
            .iter()
            .any(|event| matches!(event, Event::Begun { .. }))
    );
}

#[test]
fn closing_the_door_ends_tunnels_and_records_them() {
    let server = server(|mut stream| drop(stream.read_to_end(&mut Vec::new())));
    let house = House::allowing(&[&at(server)]);
    let mut stream = tunnel(house.proxy, &at(server));
    stream.write_all(b"hello").unwrap();
    let (summary, events) = house.close();
    assert_eq!(read_to_end(&mut stream), "");
    assert_eq!(summary.connections, 1);
    assert!(
        events
            .iter()
            .any(|event| matches!(event, Event::Tunnel { .. }))
    );
}
