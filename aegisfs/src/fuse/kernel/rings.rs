//! Requests through io_uring (FUSE_OVER_IO_URING, Linux 6.14): a request is answered and the next
//! one fetched by one system call, on the processor of the one who asked.
//!
//! The kernel wants a queue for each processor that the machine may ever have. What has no answer
//! (FORGET) still comes by the device.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use rustix::thread::{CpuSet, sched_setaffinity};

use super::abi::{Fields, Header, Operation, REPLY_HEADER, Reply};
use super::device::reply_header;
use super::server::{Outcome, Server};
use crate::sys::ring::{ARGUMENT, COMMIT_ID, HEADERS, PAYLOAD_SIZE, Ring};

/// Requests of one processor that the kernel hands out at once.
const DEPTH: u32 = 4;
/// Where the administrator allows it.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
/// The largest answer to a write.
const SMALL: usize = 64;

type Thread = JoinHandle<io::Result<()>>;

/// Rings that wait for the kernel to agree.
#[derive(Debug)]
pub(super) struct Waiting {
    threads: Vec<(Sender<Server>, Thread)>,
}

/// Makes the rings, each in the thread that will serve it.
///
/// # Errors
/// The reason why there are none, in words.
pub(super) fn prepare(connection: &Arc<OwnedFd>, payload: usize) -> Result<Waiting, String> {
    match std::fs::read_to_string(SWITCH) {
        Ok(switch) if switch.trim() == "Y" => {}
        Ok(_) => return Err(format!("not allowed; root can: `echo Y > {SWITCH}`")),
        Err(_) => return Err("the kernel has no rings for FUSE (Linux 6.14 has)".to_owned()),
    }
    let processors = processors().map_err(|error| error.to_string())?;
    let (made, results) = channel();
    let threads = (0..processors).map(|queue| {
        let (go, wait) = channel();
        let (connection, made) = (Arc::clone(connection), made.clone());
        let thread = std::thread::Builder::new()
            .name(format!("fuse-ring-{queue}"))
            .spawn(move || run(&connection, queue, payload, &made, &wait));
        thread.map(|thread| (go, thread))
    });
    let threads = threads
        .collect::<io::Result<Vec<_>>>()
        .map_err(|error| error.to_string())?;
    for _ in 0..processors {
        match results.recv() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(format!("no ring can be made: {error}")),
            Err(_) => return Err("no ring can be made".to_owned()),
        }
    }
    Ok(Waiting { threads })
}

impl Waiting {
    /// Gives the rings to the kernel. It sends nothing until it has all of them.
    pub(super) fn start(self, server: &Server) -> Vec<Thread> {
        let started = self.threads.into_iter().map(|(go, thread)| {
            // One that is gone has said so, and its end is seen when it is joined.
            let _ = go.send(server.clone());
            thread
        });
        started.collect()
    }
}

/// One queue: makes its ring, waits for the agreement, serves.
fn run(
    connection: &OwnedFd,
    queue: u16,
    payload: usize,
    made: &Sender<io::Result<()>>,
    wait: &Receiver<Server>,
) -> io::Result<()> {
    stay_on(queue);
    let ring = Ring::new(connection.as_fd(), queue, DEPTH, payload);
    let mut ring = match ring {
        Ok(ring) => ring,
        Err(error) => {
            let _ = made.send(Err(error));
            return Ok(());
        }
    };
    let _ = made.send(Ok(()));
    // Without an agreement there is nothing to do.
    let Ok(server) = wait.recv() else {
        return Ok(());
    };
    ring.register()?;
    let mut scratch = Vec::new();
    while let Some(slot) = ring.next()? {
        serve(&mut ring, slot, &server, &mut scratch)?;
    }
    Ok(())
}

/// Serves the queue of a processor on that processor. One that is not there has nobody who asks.
fn stay_on(queue: u16) {
    let mut processors = CpuSet::new();
    if usize::from(queue) < CpuSet::MAX_CPU {
        processors.set(queue.into());
        let _ = sched_setaffinity(None, &processors);
    }
}

fn serve(ring: &mut Ring, slot: usize, server: &Server, scratch: &mut Vec<u8>) -> io::Result<()> {
    let headers = ring.headers(slot)?;
    let mut fields = Fields(&headers);
    let malformed = |_| io::Error::from(io::ErrorKind::InvalidData);
    let header = Header::take(&mut fields).map_err(malformed)?;
    let commit = number(&headers, COMMIT_ID);
    let size = usize::try_from(number(&headers, PAYLOAD_SIZE) & 0xffff_ffff).unwrap_or(usize::MAX);
    let argument = headers
        .get(ARGUMENT..ARGUMENT + server.argument_size(header.opcode))
        .unwrap_or_default();
    let payload = ring.payload(slot)?;
    let (outcome, length) = answer(server, &header, argument, payload, size, scratch);
    let result = match outcome {
        Outcome::Answer(result) => result,
        // Nothing that has no answer comes this way.
        Outcome::Silence => Ok(()),
    };
    let length = if result.is_ok() { length } else { 0 };
    let mut head = [0; REPLY_HEADER];
    reply_header(&mut head, REPLY_HEADER + length, result, header.unique);
    ring.put_header(slot, 0, &head)?;
    let length = u32::try_from(length).unwrap_or(0);
    ring.put_header(slot, PAYLOAD_SIZE, &length.to_ne_bytes())?;
    ring.commit(slot, commit)
}

/// The answer takes the place of the request: bytes to write stay where they are, the rest of a
/// request is put aside.
fn answer(
    server: &Server,
    header: &Header,
    argument: &[u8],
    payload: &mut [u8],
    size: usize,
    scratch: &mut Vec<u8>,
) -> (Outcome, usize) {
    let Some(request) = payload.get(..size) else {
        return (Outcome::Answer(Err(rustix::io::Errno::INVAL)), 0);
    };
    if Operation::is_write(header.opcode) {
        let mut small = [0; SMALL];
        let mut reply = Reply::new(&mut small);
        let outcome = server.serve(header, argument, request, &mut reply);
        let length = reply.len();
        for (to, from) in payload.iter_mut().zip(small.iter().take(length)) {
            *to = *from;
        }
        return (outcome, length);
    }
    scratch.clear();
    scratch.extend_from_slice(request);
    let mut reply = Reply::new(payload);
    let outcome = server.serve(header, argument, scratch, &mut reply);
    (outcome, reply.len())
}

fn number(headers: &[u8; HEADERS], at: usize) -> u64 {
    let bytes = headers.get(at..).unwrap_or_default();
    Fields(bytes).u64().unwrap_or(0)
}

/// How many processors the machine may ever have: one more than the last of the list (cpu(5) of
/// sysfs).
fn processors() -> io::Result<u16> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    count(&list).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

fn count(list: &str) -> Option<u16> {
    let last = list.trim().rsplit([',', '-']).next()?;
    last.parse::<u16>().ok()?.checked_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_processor_that_may_come_has_a_queue() {
        assert_eq!(count("0-1\n"), Some(2));
        assert_eq!(count("0"), Some(1));
        assert_eq!(count("0-3,8-11\n"), Some(12));
        assert_eq!((count(""), count("65535")), (None, None));
        assert!(processors().unwrap() > 0);
    }
}
