//! Our own transport: the protocol of linux/fuse.h without a library between.
//!
//! It does what `fuser` can not: nodes that are not their `st_ino`, files without a name, notices
//! of every kind, what the kernel says about set-id bits, rings, and files that the kernel reads
//! without asking.

mod abi;
mod device;
mod notify;
mod passthrough;
mod rings;
mod server;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::io::{Errno, read, write};

use super::options::{BACKGROUND, Feature, Features, Options, Transport};
use super::requests::Requests;
use crate::guard::Guard;
use abi::{Agreed, Agreement, Fields, Flags, Header, Operation, REPLY_HEADER, Wish, ask_again};
use notify::Memory;
use passthrough::Passthrough;
use rings::Waiting;
use server::Server;

/// Bytes in one write, and so the most that one request carries; the kernel's own limit is as high
/// (`fs.fuse.max_pages_limit`, 256 pages).
const LARGEST_WRITE: u32 = 1 << 20;
/// Room for the first request; the kernel wants 8 KiB at least.
const FIRST_REQUEST: usize = 16 << 10;

/// The threads that serve a connection.
#[derive(Debug)]
pub(super) struct Service {
    threads: Vec<JoinHandle<io::Result<()>>>,
    requests: Requests,
    features: Features,
}

impl Service {
    /// Agrees with the kernel and starts to answer.
    ///
    /// # Errors
    /// When the handshake fails: the kernel is too old, or the mount is gone.
    pub(super) fn start(
        connection: OwnedFd,
        guard: &Arc<Guard>,
        options: Options,
    ) -> io::Result<Self> {
        let connection = Arc::new(connection);
        let requests = Requests::new(Arc::clone(guard));
        let mut wish = wish(options, &requests);
        let rings = offered_rings(&connection, options, &wish);
        if rings.is_ok() {
            wish.flags = wish.flags | Flags::OVER_IO_URING;
        }
        let agreed = handshake(&connection, &wish)?;
        let overlay = guard.overlay();
        let memory = Memory::new(Arc::clone(&connection), overlay.root());
        overlay.attach_kernel(Arc::new(memory));
        let mut server = Server::new(requests.clone(), agreed);
        let passed = passed_through(&connection, &agreed, options, &requests);
        let passed = match passed {
            Ok(passthrough) => {
                server = server.with_passthrough(passthrough);
                Feature::on(
                    "passthrough",
                    "files of 256 KiB and more are read by the kernel",
                )
            }
            Err(reason) => Feature::off("passthrough", reason),
        };
        let (mut threads, ringing) = match rings {
            Ok(rings) if agreed.flags.has(Flags::OVER_IO_URING) => {
                (rings.start(&server), Feature::on("io_uring", ""))
            }
            Ok(_) => (
                Vec::new(),
                Feature::off("io_uring", "the kernel does not offer it"),
            ),
            Err(reason) => (Vec::new(), Feature::off("io_uring", reason)),
        };
        let transport = if ringing.in_force {
            Transport::IoUring
        } else {
            Transport::Device
        };
        // What has no answer comes by the device all the same.
        let by_device = if ringing.in_force { 1 } else { options.threads };
        threads.extend(device::start(&connection, &server, by_device)?);
        let mut features = features(&agreed, transport, threads.len());
        features.features.extend([ringing, passed]);
        Ok(Self {
            features,
            requests,
            threads,
        })
    }

    /// What is in force.
    pub(super) const fn features(&self) -> &Features {
        &self.features
    }

    /// Waits until the connection ends.
    ///
    /// # Errors
    /// The first error of a thread.
    pub(super) fn join(self) -> io::Result<()> {
        let mut result = Ok(());
        for thread in self.threads {
            let ended = thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a thread of the server ended early")));
            result = result.and(ended);
        }
        // What was open when the mount went is closed by nobody else.
        self.requests.end();
        result
    }
}

/// What is used where the kernel can.
fn wish(options: Options, requests: &Requests) -> Wish {
    let mut flags = Flags::ASYNC_READ
        | Flags::BIG_WRITES
        | Flags::AUTO_INVAL_DATA
        | Flags::DO_READDIRPLUS
        | Flags::READDIRPLUS_AUTO
        | Flags::ASYNC_DIO
        | Flags::PARALLEL_DIROPS
        | Flags::MAX_PAGES
        | Flags::CACHE_SYMLINKS
        | Flags::NO_OPENDIR_SUPPORT
        | Flags::HANDLE_KILLPRIV_V2
        | Flags::SETXATTR_EXT
        | Flags::INIT_EXT
        | Flags::DIRECT_IO_ALLOW_MMAP;
    if options.writeback {
        flags = flags | Flags::WRITEBACK_CACHE;
    }
    if requests.has_acl() {
        flags = flags | Flags::POSIX_ACL | Flags::DONT_MASK;
    }
    if may_pass_through(options, requests) {
        flags = flags | Flags::PASSTHROUGH;
    }
    Wish {
        flags,
        largest_write: LARGEST_WRITE,
        max_background: BACKGROUND,
    }
}

/// Whether files may be read past this server: see [`passthrough`].
fn may_pass_through(options: Options, requests: &Requests) -> bool {
    options.passthrough && options.read_only && requests.is_read_only() && !options.writeback
}

/// What the kernel reads by itself; else why nothing.
fn passed_through(
    connection: &Arc<OwnedFd>,
    agreed: &Agreed,
    options: Options,
    requests: &Requests,
) -> Result<Passthrough, &'static str> {
    if !options.passthrough {
        return Err("not asked for");
    }
    if !may_pass_through(options, requests) {
        return Err("only where nothing can be written: an open file has to see later writes");
    }
    if !agreed.flags.has(Flags::PASSTHROUGH) {
        return Err("the kernel does not offer it (Linux 6.9 does)");
    }
    Passthrough::probe(connection)
}

/// Rings, where they are asked for and can be had; else why not.
fn offered_rings(
    connection: &Arc<OwnedFd>,
    options: Options,
    wish: &Wish,
) -> Result<Waiting, Cow<'static, str>> {
    if options.transport != Transport::IoUring {
        return Err("not asked for (`-o transport=io-uring`)".into());
    }
    rings::prepare(connection, wish.largest_write as usize).map_err(Cow::from)
}

/// Answers the kernel's first request.
fn handshake(connection: &OwnedFd, wish: &Wish) -> io::Result<Agreed> {
    let mut request = vec![0; FIRST_REQUEST];
    loop {
        let length = match read(connection, &mut *request) {
            Ok(length) => length,
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => continue,
            Err(errno) => return Err(errno.into()),
        };
        let mut fields = Fields(request.get(..length).unwrap_or_default());
        let header = Header::take(&mut fields).map_err(|_| Errno::PROTO)?;
        let operation = Operation::read(header.opcode, &[], fields.0);
        let Ok(Operation::Init(init)) = operation else {
            return Err(Errno::PROTO.into());
        };
        match init.agree(wish) {
            Agreement::Reached(agreed) => {
                say(connection, header.unique, Ok(&agreed.encode()))?;
                return Ok(agreed);
            }
            Agreement::AskAgain => say(connection, header.unique, Ok(&ask_again()))?,
            Agreement::TooOld => {
                say(connection, header.unique, Err(Errno::PROTO))?;
                let (major, minor) = init.version;
                let reason = format!("the kernel speaks FUSE {major}.{minor}, 7.31 is needed");
                return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
            }
        }
    }
}

fn say(connection: &OwnedFd, unique: u64, said: Result<&[u8], Errno>) -> io::Result<()> {
    let body = said.unwrap_or_default();
    let mut message = vec![0; REPLY_HEADER];
    message.extend_from_slice(body);
    let (length, result) = (message.len(), said.map(drop));
    device::reply_header(&mut message, length, result, unique);
    write(connection, &message)?;
    Ok(())
}

fn features(agreed: &Agreed, transport: Transport, threads: usize) -> Features {
    let mut features = vec![Feature::on("nameless files", "O_TMPFILE and linkat(2)")];
    features.push(if agreed.flags.has(Flags::WRITEBACK_CACHE) {
        Feature::on(
            "writeback",
            "what was acknowledged is lost when the server is killed",
        )
    } else {
        Feature::off("writeback", "not asked for")
    });
    Features {
        transport,
        protocol: Some([7, agreed.minor]),
        threads,
        largest_write: agreed.largest_write,
        features,
    }
}
