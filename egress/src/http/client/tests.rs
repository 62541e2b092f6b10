//! Tests of `client`.

use super::*;

#[test]
fn the_end_of_a_head_is_found_wherever_it_is_split() {
    let wire = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nbody";
    let end = wire.len() - 4;
    for split in 0..wire.len() {
        let first = find_end(&wire[..split], 0).unwrap();
        assert_eq!(first, (split >= end).then_some(end), "{split}");
        assert_eq!(
            find_end(wire, split.min(end).saturating_sub(3)).unwrap(),
            Some(end)
        );
    }
}

#[test]
fn a_bare_line_feed_is_refused_at_once() {
    for wire in [
        &b"GET / HTTP/1.1\n"[..],
        b"GET / HTTP/1.1\r\nHost: a\n\n",
        b"\n",
    ] {
        assert!(find_end(wire, 0).is_err(), "{wire:?}");
    }
}

#[test]
fn a_reason_phrase_is_one_harmless_line() {
    let words = "refused `a`\r\nset-cookie: x=1; more\u{1b}[2J".to_owned();
    let answer = Answer {
        status: StatusCode::FORBIDDEN,
        words,
    };
    assert_eq!(answer.reason_phrase(), "refused `a`");
}

#[test]
fn responses_are_framed_for_the_client() {
    let of = |method, version, status, length| BodyFraming::of(&method, version, status, length);
    let ok = StatusCode::OK;
    assert_eq!(
        of(Method::GET, Version::Http11, ok, Some(3)),
        BodyFraming::Length(3)
    );
    assert_eq!(
        of(Method::GET, Version::Http11, ok, None),
        BodyFraming::Chunked
    );
    assert_eq!(
        of(Method::GET, Version::Http10, ok, None),
        BodyFraming::Close
    );
    assert_eq!(
        of(Method::HEAD, Version::Http11, ok, None),
        BodyFraming::None
    );
    let none = StatusCode::NO_CONTENT;
    assert_eq!(
        of(Method::GET, Version::Http11, none, None),
        BodyFraming::None
    );
}
