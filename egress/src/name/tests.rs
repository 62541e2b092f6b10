//! Tests of `name`.

use super::*;

fn shown(text: &str) -> Result<String, NameError> {
    Host::parse(text.as_bytes()).map(|host| host.to_string())
}

#[test]
fn one_spelling_for_a_name() {
    for text in ["example.com", "EXAMPLE.com", "Example.COM.", "eXaMpLe.CoM"] {
        assert_eq!(shown(text).unwrap(), "example.com", "{text}");
    }
    assert_eq!(
        shown("xn--bcher-kva.example").unwrap(),
        "xn--bcher-kva.example"
    );
    assert_eq!(
        shown("_service.db-1.internal").unwrap(),
        "_service.db-1.internal"
    );
}

#[test]
fn one_spelling_for_an_address() {
    assert_eq!(shown("127.0.0.1").unwrap(), "127.0.0.1");
    assert_eq!(shown("127.0.0.1.").unwrap(), "127.0.0.1");
    assert_eq!(shown("[0:0:0:0:0:0:0:1]").unwrap(), "[::1]");
    assert_eq!(shown("[::FFFF:7f00:1]").unwrap(), "[::ffff:127.0.0.1]");
}

#[test]
fn odd_addresses_are_refused() {
    for text in [
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "127.1",
        "127.0.1",
        "127.0.0.01",
        "1.2.3.4.5",
        "256.1.1.1",
        "example.0x",
        "evil.1",
        "127.0.0.0x1",
    ] {
        assert_eq!(shown(text), Err(NameError::OddAddress), "{text}");
    }
}

#[test]
fn hostile_texts_are_refused() {
    for text in [
        "",
        ".",
        "..",
        "a..b",
        ".a",
        "a b",
        "a\0b",
        "a\r\nb",
        "a\tb",
        "a/b",
        "a@b",
        "a%41",
        "a:b",
        "::1",
        "[::1",
        "[::1%eth0]",
        "[127.0.0.1]",
        "[]",
        "b\u{fc}cher.de",
        "a\u{7f}",
        "a?b",
        "a#b",
        "a\\b",
        "[::1]x",
        "a]",
    ] {
        assert!(shown(text).is_err(), "{text:?}");
    }
    assert!(shown(&"a".repeat(64)).is_err());
    assert!(shown(&["a"; 130].join(".")).is_err());
}

#[test]
fn ports_are_plain_decimal() {
    let parse = |text: &str| Authority::parse(text.as_bytes(), None);
    assert_eq!(parse("[::1]:443").unwrap().to_string(), "[::1]:443");
    assert_eq!(parse("a.example:8443").unwrap().port, 8443);
    for text in [
        "a", "a:", "a:0", "a:+80", "a:080", "a:65536", "a:4 43", "a:443:1", "a:0x50",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
    assert_eq!(Authority::parse(b"a.example", Some(80)).unwrap().port, 80);
}

proptest::proptest! {
    #[test]
    fn parsing_is_idempotent(text in "[a-zA-Z0-9._:\\[\\]-]{0,40}") {
        if let Ok(host) = Host::parse(text.as_bytes()) {
            proptest::prop_assert_eq!(Host::parse(host.to_string().as_bytes()), Ok(host));
        }
    }
}
