//! Tests of `sniff`.

use super::*;
use crate::hello::tests::{body, server_name};

fn sniffer(encrypted: EncryptedHello) -> Sniffer {
    Sniffer::new(Host::parse(b"a.example").unwrap(), encrypted)
}

fn record(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
    [&[kind, 3, 1, length[0], length[1]], payload].concat()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[kind, length[1], length[2], length[3]], body].concat()
}

fn hello(name: &str) -> Vec<u8> {
    message(1, &body(&[server_name(&[name])]))
}

/// Feeds the wire in two parts and gives what was passed on.
fn feed(wire: &[u8], split: usize) -> Result<(Vec<u8>, bool), HelloError> {
    let mut sniffer = sniffer(EncryptedHello::CompareOuter);
    let mut passed = sniffer.push(&wire[..split])?;
    passed.extend(sniffer.push(&wire[split..])?);
    Ok((passed, sniffer.is_over()))
}

#[test]
fn a_hello_for_the_allowed_name_passes_however_it_is_cut() {
    let hello = hello("a.example");
    for cut in 1..hello.len() {
        let wire = [record(22, &hello[..cut]), record(22, &hello[cut..])].concat();
        for split in [
            0,
            1,
            4,
            5,
            6,
            cut,
            cut + 5,
            cut + 6,
            wire.len() - 1,
            wire.len(),
        ] {
            let split = split.min(wire.len());
            assert_eq!(
                feed(&wire, split).unwrap(),
                (wire.clone(), false),
                "{cut} {split}"
            );
        }
    }
}

#[test]
fn nothing_of_a_hello_for_another_name_passes() {
    let wire = record(22, &hello("evil.test"));
    for split in 0..=wire.len() {
        let mut sniffer = sniffer(EncryptedHello::CompareOuter);
        let first = sniffer.push(&wire[..split]);
        let second = first.and_then(|passed| {
            assert_eq!(passed, b"");
            sniffer.push(&wire[split..])
        });
        assert_eq!(second, Err(HelloError::OtherName), "{split}");
    }
}

#[test]
fn a_second_hello_is_judged_too() {
    let first = record(22, &hello("a.example"));
    let change = record(20, &[1]);
    let data = record(23, b"secret");
    let good = [&first[..], &change, &first, &data].concat();
    let evil = [&first[..], &change, &record(22, &hello("evil.test"))].concat();
    for split in 0..=good.len() {
        assert_eq!(feed(&good, split).unwrap(), (good.clone(), true), "{split}");
    }
    for split in 0..=evil.len() {
        assert_eq!(feed(&evil, split), Err(HelloError::OtherName), "{split}");
    }
}

#[test]
fn ordinary_handshakes_go_on() {
    let first = record(22, &hello("a.example"));
    let several = [message(11, b"certificate"), message(16, b"key exchange")].concat();
    for next in [
        record(22, &several),
        record(23, b"data"),
        record(21, &[2, 40]),
    ] {
        let wire = [&first[..], &next].concat();
        assert_eq!(feed(&wire, first.len()).unwrap(), (wire, true));
    }
}

#[test]
fn what_is_not_tls_passes_at_once() {
    for wire in [
        &b"SSH-2.0-OpenSSH_9.6\r\n"[..],
        b"GET / HTTP/1.1\r\n",
        b"\0\0\0\x08",
    ] {
        assert_eq!(feed(wire, 0).unwrap(), (wire.to_vec(), true));
    }
}

#[test]
fn handshakes_that_hide_something_are_refused() {
    let hello = hello("a.example");
    let followed = [&hello[..], &message(1, b"more")].concat();
    let interleaved = [
        record(22, &hello[..9]),
        record(20, &[1]),
        record(22, &hello[9..]),
    ]
    .concat();
    for wire in [
        record(22, &followed),
        interleaved,
        record(22, &message(2, b"server hello")),
        record(22, &[]),
        [&[22, 2, 0, 0, 40], &hello[..]].concat(),
        vec![22, 3, 1, 0xff, 0xff],
        record(22, &[1, 0xff, 0xff, 0xff]),
    ] {
        for split in 0..=wire.len() {
            assert!(feed(&wire, split).is_err(), "{wire:?} {split}");
        }
    }
}

#[test]
fn an_endless_hello_is_refused() {
    let mut sniffer = sniffer(EncryptedHello::CompareOuter);
    let piece = record(22, &[1, 0, 0x3f, 0xff]);
    let mut pushed = sniffer.push(&piece);
    for _ in 0..5000 {
        if pushed.is_err() {
            break;
        }
        pushed = sniffer.push(&record(22, &[0]));
    }
    assert_eq!(pushed, Err(HelloError::TooLong));
}

#[test]
fn encrypted_hellos_follow_the_option() {
    let decoy = (0xfe0d, vec![0; 64]);
    let wire = record(
        22,
        &message(1, &body(&[server_name(&["a.example"]), decoy])),
    );
    assert!(sniffer(EncryptedHello::CompareOuter).push(&wire).is_ok());
    assert_eq!(
        sniffer(EncryptedHello::Refuse).push(&wire),
        Err(HelloError::Encrypted)
    );
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_taken_calmly(bytes: Vec<u8>, split: usize) {
        let _ = feed(&bytes, split.min(bytes.len()));
    }

    #[test]
    fn what_passes_is_what_came(bytes: Vec<u8>, first in 0u8..30) {
        let wire = [&[first], &bytes[..]].concat();
        if let Ok((passed, _)) = feed(&wire, 0) {
            proptest::prop_assert!(wire.starts_with(&passed));
        }
    }
}
