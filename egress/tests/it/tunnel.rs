//! CONNECT.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aegis_egress::Options;
use aegis_policies::journal::Event;

use crate::support::{
    House, Names, at, connect, exchange, options, read_to_end, read_until, server, tunnel,
};

fn echo() -> std::net::SocketAddr {
    server(|mut stream| {
        let mut text = Vec::new();
        stream.read_to_end(&mut text).unwrap();
        stream.write_all(&text).unwrap();
    })
}

fn connect_to(destination: &str) -> String {
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
fn an_unlisted_host_is_refused_in_words() {
    let house = House::allowing(&["registry.example"]);
    let answer = exchange(house.proxy, connect_to("evil.test:443"));
    assert!(
        answer.starts_with("HTTP/1.1 403 aegis-os refused the connection to evil.test:443\r\n")
    );
    assert!(
        answer.contains("aegis-os run --allow evil.test`"),
        "{answer}"
    );
    let port = exchange(house.proxy, connect_to("registry.example:22"));
    assert!(
        port.contains("aegis-os run --allow registry.example:22`"),
        "{port}"
    );
    assert_eq!(house.refusals(), ["policy", "policy"]);
}

#[test]
fn every_spelling_of_this_machine_is_refused() {
    let secret = server(|mut stream| stream.write_all(b"the secret").unwrap());
    let house = House::allowing(&["registry.example"]);
    let port = secret.port();
    let named = [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1.2.3",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[0:0:0:0:0:ffff:7f00:1]",
        "[2002:7f00:1::]",
        "169.254.169.254",
        "10.0.0.1",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "255.255.255.255",
        "224.0.0.1",
    ];
    let unreadable = [
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.1%00",
        "127.0.0.1\0",
        "[::1%lo]",
        "[127.0.0.1]",
        "::1",
        "localhost%2e",
        "user@localhost",
        "localhost\u{3002}",
        "\u{2488}27.0.0.1",
        "127.0.0.1 ",
        "",
    ];
    for (hosts, status) in [(&named[..], "403"), (&unreadable[..], "400")] {
        for host in hosts {
            let answer = exchange(house.proxy, connect_to(&format!("{host}:{port}")));
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{host}: {answer}"
            );
            assert!(!answer.contains("secret"), "{host}");
        }
    }
    let (summary, events) = house.close();
    let refused = events
        .iter()
        .filter(|event| matches!(event, Event::Refused { .. }))
        .count();
    let blocked = events
        .iter()
        .filter(|event| matches!(event, Event::Blocked { .. }))
        .count();
    // Equal names make one entry: `127.0.0.1.`, `LOCALHOST`, `localhost.` and the long `::ffff:`.
    assert_eq!(refused, named.len() - 4);
    assert_eq!(blocked, 3, "unreadable heads, by reason");
    assert_eq!(summary.refused as usize, named.len() + unreadable.len());
    assert_eq!(summary.connections, 0);
}

#[test]
fn a_listed_name_that_leads_inside_is_refused() {
    for address in [
        "127.0.0.1",
        "10.0.0.7",
        "169.254.169.254",
        "::ffff:127.0.0.1",
        "fd00::1",
    ] {
        let names = Names::lead_to(&[address]);
        let house = House::with(
            Options {
                resolver: names.clone(),
                ..options(&["rebind.example:8080"])
            },
            &[],
        );
        let answer = exchange(house.proxy, connect_to("rebind.example:8080"));
        assert!(answer.starts_with("HTTP/1.1 403 "), "{address}: {answer}");
        assert!(answer.contains("--allow"), "{answer}");
        assert_eq!(names.asked.load(Ordering::SeqCst), 1);
        let refusals = house.refusals();
        assert!(refusals[0].contains(address), "{refusals:?}");
        assert_eq!(refusals.len(), 1);
    }
}

#[test]
fn the_machines_own_addresses_are_refused() {
    // A UDP socket shows which address this machine would use towards the internet, if any.
    let probe = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let own = probe.connect("8.8.8.8:9").and_then(|()| probe.local_addr());
    let own = own.map_or("127.0.0.1".to_owned(), |own| own.ip().to_string());
    let names = Names::lead_to(&[&own]);
    let mut options = options(&["me.example:80"]);
    options.resolver = names;
    let house = House::with(options, &[]);
    assert!(exchange(house.proxy, connect_to("me.example:80")).starts_with("HTTP/1.1 403 "));
}

#[test]
fn a_tunnel_does_not_lead_back_to_the_proxy() {
    let echo = echo();
    let house = House::allowing(&[&at(echo)]);
    let answer = exchange(
        house.proxy,
        connect_to(&format!("localhost:{}", house.proxy.port())),
    );
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    // Inside a tunnel, a CONNECT is only text for the other end.
    let mut stream = tunnel(house.proxy, &at(echo));
    stream
        .write_all(connect_to("evil.test:443").as_bytes())
        .unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&mut stream), connect_to("evil.test:443"));
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
