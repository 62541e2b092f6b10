//! The transport that there is always: threads that read requests from `/dev/fuse` and write their
//! answers to it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::io::{Errno, read, write};

use super::abi::{Fields, Header, REPLY_HEADER, Reply};
use super::server::{Outcome, Server};

/// What precedes the bytes of a write, and the slack that the kernel wants (`FUSE_BUFFER_HEADER_SIZE`
/// of libfuse).
const SLACK: usize = 4096;
/// The smallest buffer that the kernel reads into (`FUSE_MIN_READ_BUFFER`).
const SMALLEST: usize = 8192;

/// Starts `threads` threads that serve a connection until it ends.
///
/// # Errors
/// When a thread can not be started.
pub(super) fn start(
    connection: &Arc<OwnedFd>,
    server: &Server,
    threads: usize,
) -> io::Result<Vec<JoinHandle<io::Result<()>>>> {
    (0..threads.max(1))
        .map(|number| {
            let (connection, server) = (Arc::clone(connection), server.clone());
            std::thread::Builder::new()
                .name(format!("fuse-{number}"))
                .spawn(move || serve(&connection, &server))
        })
        .collect()
}

/// Serves until the connection ends: by an unmount, or because it was aborted.
pub(super) fn serve(connection: &OwnedFd, server: &Server) -> io::Result<()> {
    let size = server.agreed().largest_message();
    let mut request = vec![0; (size + SLACK).max(SMALLEST)];
    let mut answer = vec![0; REPLY_HEADER + size + SLACK];
    loop {
        let length = match read(connection, &mut *request) {
            Ok(length) => length,
            // ENOENT: the one who asked was interrupted before the request got here.
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => continue,
            Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        let request = request.get(..length).unwrap_or_default();
        if let Some(length) = respond(server, request, &mut answer) {
            send(connection, answer.get(..length).unwrap_or_default())?;
        }
    }
}

/// Puts the answer to a request together; returns its length, or `None` when there is none.
pub(super) fn respond(server: &Server, request: &[u8], answer: &mut [u8]) -> Option<usize> {
    let mut fields = Fields(request);
    // What has no header has nobody who waits for an answer.
    let header = Header::take(&mut fields).ok()?;
    let (head, body) = answer.split_at_mut_checked(REPLY_HEADER)?;
    let mut reply = Reply::new(body);
    let outcome = if header.length as usize == request.len() {
        let split = server.argument_size(header.opcode).min(fields.0.len());
        let (argument, rest) = fields.0.split_at_checked(split)?;
        server.serve(&header, argument, rest, &mut reply)
    } else {
        Outcome::Answer(Err(Errno::INVAL))
    };
    let Outcome::Answer(result) = outcome else {
        return None;
    };
    if result.is_err() {
        reply.clear();
    }
    let length = REPLY_HEADER + reply.len();
    reply_header(head, length, result, header.unique);
    Some(length)
}

/// `struct fuse_out_header`.
pub(super) fn reply_header(head: &mut [u8], length: usize, result: Result<(), Errno>, unique: u64) {
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    let error = result.map_or_else(|errno| -errno.raw_os_error(), |()| 0);
    let fields = [length.to_ne_bytes(), error.to_ne_bytes()].concat();
    let fields = fields.into_iter().chain(unique.to_ne_bytes());
    for (byte, value) in head.iter_mut().zip(fields) {
        *byte = value;
    }
}

/// One message is one write(2).
fn send(connection: &OwnedFd, answer: &[u8]) -> io::Result<()> {
    match write(connection, answer) {
        // ENOENT: nobody waits any more. What else is wrong with one answer concerns one request.
        Ok(_) | Err(Errno::NOENT | Errno::INVAL | Errno::NODEV) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
