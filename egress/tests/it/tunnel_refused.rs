//! What CONNECT refuses.

use std::io::Write;
use std::net::Shutdown;
use std::sync::atomic::Ordering;

use aegis_egress::Options;
use aegis_policies::journal::Event;

use crate::support::{House, Names, at, exchange, options, read_to_end, server, tunnel};
use crate::tunnel::{connect_to, echo};

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
fn policy_has_the_last_word_over_the_list() {
    let echo = echo();
    let policy = r#"@id("me.never") @reason("not today")
        forbid(principal, action == Action::"net.connect", resource is Endpoint);"#;
    let house = House::judged_by(policy, options(&[&at(echo)]));
    let answer = exchange(house.proxy, connect_to(&at(echo)));
    assert!(
        answer.starts_with("HTTP/1.1 403 ") && answer.contains("not today"),
        "{answer}"
    );
    let plain = format!("GET http://{0}/ HTTP/1.1\r\nHost: {0}\r\n\r\n", at(echo));
    assert!(exchange(house.proxy, plain).starts_with("HTTP/1.1 403 "));
    let (summary, events) = house.close();
    assert_eq!((summary.connections, summary.refused), (0, 2));
    assert!(
        !events
            .iter()
            .any(|event| matches!(event, Event::Begun { .. }))
    );
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
