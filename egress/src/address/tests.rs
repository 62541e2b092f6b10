//! Tests of `address`.

use super::*;

fn special(text: &str) -> Option<Special> {
    Special::of(text.parse().unwrap())
}

#[test]
fn every_special_range_has_its_class() {
    for (text, class) in [
        ("127.0.0.1", Special::Loopback),
        ("127.255.255.254", Special::Loopback),
        ("::1", Special::Loopback),
        ("0.0.0.0", Special::Unspecified),
        ("0.1.2.3", Special::Unspecified),
        ("::", Special::Unspecified),
        ("169.254.1.1", Special::LinkLocal),
        ("fe80::1", Special::LinkLocal),
        ("febf::1", Special::LinkLocal),
        ("10.0.0.1", Special::Private),
        ("172.16.0.1", Special::Private),
        ("172.31.255.255", Special::Private),
        ("192.168.1.1", Special::Private),
        ("100.64.0.1", Special::Private),
        ("100.127.255.255", Special::Private),
        ("fc00::1", Special::Private),
        ("fdff::1", Special::Private),
        ("fec0::1", Special::Private),
        ("169.254.169.254", Special::Metadata),
        ("168.63.129.16", Special::Metadata),
        ("100.100.100.200", Special::Metadata),
        ("fd00:ec2::254", Special::Metadata),
        ("224.0.0.1", Special::Multicast),
        ("255.255.255.255", Special::Multicast),
        ("ff02::1", Special::Multicast),
        ("192.0.2.1", Special::Documentation),
        ("198.51.100.1", Special::Documentation),
        ("203.0.113.1", Special::Documentation),
        ("198.18.0.1", Special::Documentation),
        ("2001:db8::1", Special::Documentation),
        ("3fff:fff::1", Special::Documentation),
        ("192.0.0.8", Special::Reserved),
        ("192.88.99.1", Special::Reserved),
        ("240.0.0.1", Special::Reserved),
        ("100::1", Special::Reserved),
        ("64:ff9b:1::1", Special::Reserved),
        ("5f00::1", Special::Reserved),
        ("4000::1", Special::Reserved),
        ("2001:10::1", Special::Reserved),
    ] {
        assert_eq!(special(text), Some(class), "{text}");
    }
}

#[test]
fn transition_addresses_are_seen_through() {
    for text in [
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:0:127.0.0.1",
        "64:ff9b::127.0.0.1",
        "2002:7f00:1::",
        "2001:0:7f00:1::",
        "2001:0:808:808::80ff:fffe",
        "2600::5efe:7f00:1",
        "2600::200:5efe:127.0.0.1",
    ] {
        assert_eq!(special(text), Some(Special::Loopback), "{text}");
    }
    for text in [
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
    ] {
        assert_eq!(special(text), Some(Special::Metadata), "{text}");
    }
    for text in ["::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "2002:c0a8:101::"] {
        assert_eq!(special(text), Some(Special::Private), "{text}");
    }
}

#[test]
fn plain_hosts_pass() {
    for text in [
        "8.8.8.8",
        "1.1.1.1",
        "172.15.0.1",
        "172.32.0.1",
        "100.63.0.1",
        "100.128.0.1",
        "223.255.255.255",
        "2606:4700::1111",
        "2a00:1450::1",
        "64:ff9b::8.8.8.8",
        "::ffff:8.8.8.8",
        "2002:808:808::1",
    ] {
        assert_eq!(special(text), None, "{text}");
    }
}

#[test]
fn this_machine_is_recognised_by_its_routes() {
    assert!(is_own("127.0.0.1".parse().unwrap()));
    assert!(!is_own("8.8.8.8".parse().unwrap()));
}
