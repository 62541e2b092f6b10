//! The protocol as bytes: what Linux 6.18 sent, and what nobody should send.

use std::fs::{self, File};
use std::sync::Arc;

use aegis_policies::{Gate, Journal};
use proptest::prelude::*;

use super::abi::{Agreed, Fields, Flags, Header, Operation, Setattr, argument_size};
use super::device::respond;
use super::server::Server;
use super::{handshake, wish};
use crate::fuse::Options;
use crate::fuse::mounting::{Mounted, Terms, in_namespace};
use crate::fuse::requests::{Asker, Requests};
use crate::guard::Guard;
use crate::layout::SessionDir;
use crate::overlay::{Overlay, Relocations, SetTime};

const EINVAL: i32 = 22;
const ENOSYS: i32 = 38;

/// A project with one file, and a server for it.
struct Fixture {
    server: Server,
    _folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["project", "session", "session/journal"] {
            fs::create_dir(path(name)).unwrap();
        }
        fs::write(path("project/x"), "hello\n").unwrap();
        let session = SessionDir::new(path("session"));
        let journal = Arc::new(Journal::create(&session.journal()).unwrap());
        let gate = Arc::new(Gate::with_defaults(journal, None).unwrap());
        let project = File::open(path("project")).unwrap().into();
        let overlay = Overlay::open(project, &session, Relocations::default(), Arc::clone(&gate));
        let guard = Guard::new(overlay.unwrap(), gate, "test".into());
        let agreed = Agreed {
            minor: 45,
            flags: Flags::MAX_PAGES | Flags::SETXATTR_EXT,
            largest_write: 1 << 16,
            max_readahead: 1 << 17,
            max_background: 16,
        };
        Self {
            server: Server::new(Requests::new(Arc::new(guard)), agreed),
            _folder: folder,
        }
    }

    /// The answer to a message: its error and its body; `None` when there is none.
    fn ask(&self, message: &[u8]) -> Option<(i32, Vec<u8>)> {
        let mut answer = vec![0; 1 << 17];
        let length = respond(&self.server, message, &mut answer)?;
        let mut fields = Fields(&answer[..length]);
        assert_eq!(fields.u32(), Ok(u32::try_from(length).unwrap()));
        let error = fields.u32().unwrap().cast_signed();
        assert!((-4095..=0).contains(&error), "{error}");
        assert_eq!(
            fields.u64().unwrap(),
            u64::from_ne_bytes(message[8..16].try_into().unwrap())
        );
        Some((-error, fields.0.to_vec()))
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn message(opcode: u32, node: u64, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(40 + body.len()).unwrap();
    let mut message = [length.to_ne_bytes(), opcode.to_ne_bytes()].concat();
    message.extend_from_slice(&7_u64.to_ne_bytes());
    message.extend_from_slice(&node.to_ne_bytes());
    message.resize(40, 0);
    message.extend_from_slice(body);
    message
}

/// Takes a recorded message apart.
fn read(message: &[u8]) -> (Header, Operation<'_>) {
    let mut fields = Fields(message);
    let header = Header::take(&mut fields).unwrap();
    assert_eq!(header.length as usize, message.len());
    let (argument, rest) = fields
        .0
        .split_at(argument_size(header.opcode, Flags::SETXATTR_EXT));
    (
        header,
        Operation::read(header.opcode, argument, rest).unwrap(),
    )
}

/// Recorded from the kernel; the sizes of the fixed arguments follow from them.
#[test]
fn recorded_requests_are_understood() {
    let asker = |pid| Asker {
        pid,
        uid: 0,
        gid: 0,
    };
    let lookup = bytes(
        "2a0000000100000006000000000000000100000000000000000000000000000025650000000000007800",
    );
    let (header, operation) = read(&lookup);
    assert_eq!(
        (header.unique, header.node, header.asker),
        (6, 1, asker(0x6525))
    );
    assert_eq!(operation, Operation::Lookup { name: b"x" });

    let open = bytes(
        "300000000e0000000800000000000000a5c49a0000000000000000000000000025650000000000000080000000000000",
    );
    assert_eq!(read(&open).1, Operation::Open { flags: 0x8000 });

    let get = bytes(
        "500000000f0000000a00000000000000a5c49a00000000000000000000000000256500000000000001000000000000000000000000000000001000000000000000000000000000000080000000000000",
    );
    assert_eq!(
        read(&get).1,
        Operation::Read {
            handle: 1,
            offset: 0,
            size: 4096
        }
    );

    let create = bytes(
        "3c000000230000001000000000000000010000000000000000000000000000000b6500000000000041820000a481000012000000000000006e657700",
    );
    let expected = Operation::Create {
        name: b"new",
        flags: 0x8241,
        mode: 0o100_644,
        umask: 0o22,
    };
    assert_eq!(read(&create).1, expected);

    let write = bytes(
        "54000000100000001400000000000000010000000000008000000000000000000b65000000000000020000000000000000000000000000000400000000000000000000000000000001800000000000006162630a",
    );
    let expected = Operation::Write {
        handle: 2,
        offset: 0,
        kills: false,
        bytes: b"abc\n",
    };
    assert_eq!(read(&write).1, expected);

    let rename = bytes(
        "420000002d0000001c00000000000000010000000000000000000000000000002665000000000000010000000000000001000000000000006e6577006e6577657200",
    );
    let expected = Operation::Rename {
        name: b"new",
        folder: 1,
        new_name: b"newer",
        flags: 1,
    };
    assert_eq!(read(&rename).1, expected);

    let times = bytes(
        "80000000040000002600000000000000010000000000008000000000000000002c6500000000000030000000000000000000000000000000000000000000000000000000000000000500000000000000050000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
    );
    let at = Some(SetTime::At(5_000_000_000));
    let set = Setattr {
        atime: at,
        mtime: at,
        ..Setattr::default()
    };
    assert_eq!(read(&times).1, Operation::Setattr(set));

    let list = bytes(
        "500000002c0000002c00000000000000010000000000000000000000000000002e6500000000000004000000000000000000000000000000008000000000000000000000000000000088010000000000",
    );
    assert_eq!(
        read(&list).1,
        Operation::Readdirplus {
            offset: 0,
            size: 0x8000
        }
    );

    let close = bytes(
        "40000000120000000c00000000000000a5c49a000000000000000000000000000000000000000000010000000000000000800000000000000000000000000000",
    );
    assert_eq!(read(&close).1, Operation::Release { handle: 1 });

    let xattr = bytes(
        "40000000150000003200000000000000010000000000008000000000000000002f6500000000000001000000000000000000000000000000757365722e610062",
    );
    let expected = Operation::Setxattr {
        name: b"user.a",
        value: b"b",
        flags: 0,
        kills: false,
    };
    assert_eq!(read(&xattr).1, expected);
    // Kernels before 7.33 send eight bytes less.
    let old = Operation::read(21, &xattr[40..48], &xattr[56..]);
    assert_eq!(old, Ok(expected));
}

#[test]
fn a_file_is_found_opened_read_and_closed() {
    let fixture = Fixture::new();
    let (error, entry) = fixture.ask(&message(1, 1, b"x\0")).unwrap();
    assert_eq!((error, entry.len()), (0, 128));
    let node = u64::from_ne_bytes(entry[..8].try_into().unwrap());
    let (error, opened) = fixture.ask(&message(14, node, &[0; 8])).unwrap();
    assert_eq!((error, opened.len()), (0, 16));
    let mut read = opened[..8].to_vec();
    read.extend_from_slice(&1_u64.to_ne_bytes());
    read.extend_from_slice(&100_u64.to_ne_bytes());
    read.resize(40, 0);
    assert_eq!(
        fixture.ask(&message(15, node, &read)),
        Some((0, b"ello\n".to_vec()))
    );
    let mut release = opened[..8].to_vec();
    release.resize(24, 0);
    assert_eq!(
        fixture.ask(&message(18, node, &release)),
        Some((0, Vec::new()))
    );
    assert_eq!(
        fixture.ask(&message(2, node, &1_u64.to_ne_bytes())),
        None,
        "FORGET"
    );
    assert_eq!(fixture.ask(&message(42, 0, &[0; 8])), None, "BATCH_FORGET");
    let (error, missing) = fixture.ask(&message(1, 1, b"nothing\0")).unwrap();
    assert_eq!((error, &missing[..8]), (0, &[0; 8][..]));
}

#[test]
fn what_makes_no_sense_is_an_error_and_what_is_unknown_is_said_to_be() {
    let fixture = Fixture::new();
    assert_eq!(
        fixture.ask(&message(1, 1, b"no end")),
        Some((EINVAL, Vec::new()))
    );
    assert_eq!(
        fixture.ask(&message(16, 1, &[0xff; 44])),
        Some((EINVAL, Vec::new()))
    );
    let mut short = message(1, 1, b"x\0");
    short.pop();
    assert_eq!(
        fixture.ask(&short),
        Some((EINVAL, Vec::new())),
        "shorter than it says"
    );
    for unknown in [36, 37, 40, 52, 999, u32::MAX] {
        assert_eq!(
            fixture.ask(&message(unknown, 1, &[0; 24])),
            Some((ENOSYS, Vec::new()))
        );
    }
    let none = respond(&fixture.server, &[0; 39], &mut [0; 100]);
    assert_eq!(none, None, "no header, nobody to answer");
}

/// Counted where they arrive: the kernel cuts what it writes to the size that was agreed on.
#[test]
fn a_mebibyte_is_written_by_one_request() {
    let fixture = Fixture::new();
    let place = tempfile::tempdir().unwrap();
    let options = Options::default();
    let Ok(connection) = in_namespace(place.path(), options, &Terms::default()) else {
        eprintln!("nobody may mount here");
        return;
    };
    let connection = Arc::new(connection);
    let mounted = Mounted::new(place.path()).unwrap();
    let agreed = handshake(&connection, &wish(options, fixture.server.requests())).unwrap();
    let server = Server::new(fixture.server.requests().clone(), agreed);
    let counting = std::thread::spawn(move || {
        let mut sizes = Vec::new();
        let (mut request, mut answer) = (vec![0; 2 << 20], vec![0; 2 << 20]);
        while let Ok(length) = rustix::io::read(&connection, &mut *request) {
            if request[4..8] == 16_u32.to_ne_bytes() {
                sizes.push(length - 80);
            }
            if let Some(length) = respond(&server, &request[..length], &mut answer) {
                let _ = rustix::io::write(&connection, &answer[..length]);
            }
        }
        sizes
    });
    fs::write(place.path().join("new"), vec![7; 4 << 20]).unwrap();
    mounted.unmount().unwrap();
    assert_eq!(counting.join().unwrap(), [1 << 20; 4]);
}

#[test]
fn nobody_can_make_it_panic() {
    let fixture = Fixture::new();
    let body = proptest::collection::vec(any::<u8>(), 0..200);
    let small = prop_oneof![0_u32..60, any::<u32>()];
    let node = prop_oneof![Just(1_u64), 0_u64..10, any::<u64>()];
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 3000,
        failure_persistence: None,
        ..Default::default()
    });
    let answered = runner.run(&(small, node, body), |(opcode, node, body)| {
        let answer = fixture.ask(&message(opcode, node, &body));
        let silent = matches!(opcode, 2 | 42);
        prop_assert!(answer.is_some() || silent, "{opcode} was not answered");
        Ok(())
    });
    answered.unwrap();
}
