//! Tests of `head`.

use super::*;
use hyper::http::uri::PathAndQuery;

fn parse(lines: &[&str]) -> Result<RequestHead, HeadError> {
    RequestHead::parse(format!("{}\r\n\r\n", lines.join("\r\n")).as_bytes(), 20)
}

fn reason(lines: &[&str]) -> &'static str {
    parse(lines).unwrap_err().reason
}

#[test]
fn the_four_forms_of_a_target() {
    let head = parse(&["GET /a?b=c HTTP/1.1", "Host: x"]).unwrap();
    assert_eq!(
        head.target,
        Target::Origin(PathAndQuery::from_static("/a?b=c"))
    );
    let head = parse(&["CONNECT Example.com.:443 HTTP/1.1", "Host: example.com:443"]).unwrap();
    let Target::Authority(authority) = head.target else {
        unreachable!()
    };
    assert_eq!(authority.to_string(), "example.com:443");
    let head = parse(&["GET HTTP://a.example?q HTTP/1.1", "host: a.example"]).unwrap();
    let Target::Absolute(authority, path) = head.target else {
        unreachable!()
    };
    assert_eq!((authority.port, path.as_str()), (80, "/?q"));
    assert_eq!(
        parse(&["OPTIONS * HTTP/1.1", "Host: x"]).unwrap().target,
        Target::Asterisk
    );
}

#[test]
fn heads_that_two_parsers_read_in_two_ways_are_refused() {
    let get = "GET / HTTP/1.1";
    for (lines, expected) in [
        (&[get][..], "Host is missing"),
        (&[get, "Host: a", "Host: a"], "Host stands twice"),
        (
            &[get, "Host: a", "Host : b"],
            "a header name is not a token",
        ),
        (&[get, "Host: a", " folded"], "a header field has no colon"),
        (
            &[get, "Host: a", "\tx: folded"],
            "a header name is not a token",
        ),
        (
            &[get, "Host: a", "x: a\nContent-Length: 4"],
            "a header value holds a control character",
        ),
        (
            &[get, "Host: a", "x: a\rb"],
            "a header value holds a control character",
        ),
        (
            &[get, "Host: a", "x: a\0b"],
            "a header value holds a control character",
        ),
        (
            &["GET  / HTTP/1.1", "Host: a"],
            "the request line does not have three parts",
        ),
        (
            &["GET /", "Host: a"],
            "the request line does not have three parts",
        ),
        (
            &["GET / HTTP/1.2", "Host: a"],
            "the protocol is not HTTP/1.1",
        ),
        (
            &["GET / http/1.1", "Host: a"],
            "the protocol is not HTTP/1.1",
        ),
        (
            &["GE T / HTTP/1.1", "Host: a"],
            "the request line does not have three parts",
        ),
        (
            &["G\u{e9}T / HTTP/1.1", "Host: a"],
            "the method is not a token",
        ),
        (
            &["", get, "Host: a"],
            "the request line does not have three parts",
        ),
    ] {
        assert_eq!(reason(lines), expected, "{lines:?}");
    }
}

#[test]
fn a_body_has_one_length() {
    let with = |fields: &[&str]| parse(&[&["POST / HTTP/1.1", "Host: a"], fields].concat());
    assert_eq!(with(&[]).unwrap().framing, Framing::Empty);
    assert_eq!(
        with(&["Content-Length: 5"]).unwrap().framing,
        Framing::Length(5)
    );
    assert_eq!(
        with(&["Content-Length: 0"]).unwrap().framing,
        Framing::Empty
    );
    assert_eq!(
        with(&["Transfer-Encoding: Chunked"]).unwrap().framing,
        Framing::Chunked
    );
    for fields in [
        &["Content-Length: 5", "Transfer-Encoding: chunked"][..],
        &["Transfer-Encoding: chunked", "Content-Length: 5"],
        &["Content-Length: 5", "Content-Length: 5"],
        &["Content-Length: 5, 5"],
        &["Content-Length: +5"],
        &["Content-Length: 0x5"],
        &["Content-Length: -1"],
        &["Content-Length:"],
        &["Content-Length: 99999999999999999999"],
        &["Transfer-Encoding: identity, chunked"],
        &["Transfer-Encoding: gzip"],
        &["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
        &["Transfer-Encoding: \u{b}chunked"],
    ] {
        let error = with(fields).unwrap_err();
        assert_eq!(error.status, StatusCode::BAD_REQUEST, "{fields:?}");
    }
    assert!(parse(&["POST / HTTP/1.0", "Transfer-Encoding: chunked"]).is_err());
}

#[test]
fn the_authority_is_the_same_everywhere() {
    for lines in [
        ["GET http://a.example/ HTTP/1.1", "Host: b.example"],
        ["GET http://a.example:8080/ HTTP/1.1", "Host: a.example"],
        ["CONNECT a.example:443 HTTP/1.1", "Host: a.example:444"],
        ["CONNECT a.example:443 HTTP/1.1", "Host: b.example:443"],
    ] {
        assert_eq!(
            reason(&lines),
            "Host differs from the authority of the request line"
        );
    }
    assert!(parse(&["GET http://a.example/ HTTP/1.1", "Host: A.EXAMPLE.:80"]).is_ok());
    assert!(parse(&["CONNECT a.example:443 HTTP/1.1", "Host: a.example"]).is_ok());
}

#[test]
fn targets_that_hide_a_host_are_refused() {
    for target in [
        "http://user@a.example/",
        "http://a.example@evil.test/",
        "http:///x",
        "https://a.example/",
        "ftp://a.example/",
        "//a.example/",
        "a.example",
        "http://0x7f.1/",
        "http://[::1/",
        "http://a.example:0/",
        "/a#b",
        "/\u{e9}",
        "/a\tb",
        "http://a.example:99999/",
    ] {
        let line = format!("GET {target} HTTP/1.1");
        let result = parse(&[&line, "Host: a.example"]);
        let hidden = matches!(
            result,
            Ok(RequestHead {
                target: Target::Origin(_),
                ..
            })
        );
        assert!(
            result.is_err() || (hidden && target.starts_with("//")),
            "{target}: {result:?}"
        );
    }
    for target in [
        "a.example",
        "a.example:",
        "http://a.example:443",
        "/x",
        "2130706433:80",
        "*",
    ] {
        assert!(
            parse(&[&format!("CONNECT {target} HTTP/1.1"), "Host: a"]).is_err(),
            "{target}"
        );
    }
}

#[test]
fn too_many_fields_are_refused() {
    let many: Vec<String> = (0..21).map(|number| format!("x-{number}: 1")).collect();
    let mut lines = vec!["GET / HTTP/1.1"];
    lines.extend(many.iter().map(String::as_str));
    let status = parse(&lines).unwrap_err().status;
    assert_eq!(status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
}

#[test]
fn fields_of_one_connection_do_not_travel() {
    let mut head = parse(&[
        "GET / HTTP/1.1",
        "Host: a",
        "Connection: close, X-Mine",
        "X-Mine: 1",
        "Keep-Alive: 5",
        "Proxy-Connection: keep-alive",
        "Proxy-Authorization: Basic x",
        "TE: trailers",
        "Upgrade: h2c",
        "X-Other: 2",
    ])
    .unwrap();
    assert!(!head.keeps_alive());
    RequestHead::strip_hop_by_hop(&mut head.headers);
    let names: Vec<&str> = head.headers.keys().map(HeaderName::as_str).collect();
    assert_eq!(names, ["host", "x-other"]);
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_taken_calmly(bytes: Vec<u8>) {
        let _ = RequestHead::parse(&[&bytes[..], b"\r\n\r\n"].concat(), 20);
    }
}
