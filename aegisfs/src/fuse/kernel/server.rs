//! One request taken from the kernel's message and its answer put into one, for whatever transport.

use std::sync::Arc;

use rustix::io::Errno;

use super::abi::{
    Agreed, Flags, Header, OpenFlags, Operation, Reply, Setattr, argument_size, forgotten, refusal,
};
use super::passthrough::Passthrough;
use crate::fuse::requests::{Asker, Fitting, Lookup, Make, Move, Requests, fitting};
use crate::overlay::{Durable, HandleId, Rest, SetAttr};

/// `FUSE_FSYNC_FDATASYNC`.
const DATA_ONLY: u32 = 1 << 0;

/// Answers in the kernel's terms.
#[derive(Clone, Debug)]
pub(super) struct Server {
    requests: Requests,
    agreed: Agreed,
    passthrough: Option<Arc<Passthrough>>,
}

/// What the kernel is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The answer that has been put together, or an error.
    Answer(Result<(), Errno>),
    /// Nothing: there is no answer to a request of this kind.
    Silence,
}

impl Server {
    pub(super) const fn new(requests: Requests, agreed: Agreed) -> Self {
        Self {
            requests,
            agreed,
            passthrough: None,
        }
    }

    /// The same, with files that the kernel reads without asking.
    pub(super) fn with_passthrough(self, passthrough: Passthrough) -> Self {
        Self {
            passthrough: Some(Arc::new(passthrough)),
            ..self
        }
    }

    /// What answers.
    #[cfg(test)]
    pub(super) const fn requests(&self) -> &Requests {
        &self.requests
    }

    /// What was agreed on with the kernel.
    pub(super) const fn agreed(&self) -> &Agreed {
        &self.agreed
    }

    /// Bytes of the fixed argument of a request.
    pub(super) const fn argument_size(&self, opcode: u32) -> usize {
        argument_size(opcode, self.agreed.flags)
    }

    /// Takes the fixed argument of a request and what follows it, and answers.
    pub(super) fn serve(
        &self,
        header: &Header,
        argument: &[u8],
        rest: &[u8],
        reply: &mut Reply<'_>,
    ) -> Outcome {
        let operation = match Operation::read(header.opcode, argument, rest) {
            Ok(operation) => operation,
            Err(malformed) => return Outcome::Answer(Err(malformed.into())),
        };
        match operation {
            Operation::Forget { count } => self.requests.forget(header.node, count),
            Operation::BatchForget { nodes } => {
                for (node, count) in forgotten(nodes) {
                    self.requests.forget(node, count);
                }
            }
            operation => return Outcome::Answer(self.answer(header, &operation, reply)),
        }
        Outcome::Silence
    }

    fn answer(
        &self,
        header: &Header,
        operation: &Operation<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        let (node, asker) = (header.node, header.asker);
        match *operation {
            Operation::Lookup { name } => match self.requests.lookup(node, name)? {
                Lookup::Found(named) => reply.entry(&named),
                Lookup::Missing(lifetime) => reply.absent(lifetime),
            },
            Operation::Getattr => reply.attr(&self.requests.getattr(node)?),
            Operation::Setattr(set) => {
                reply.attr(&self.requests.setattr(asker, node, attributes(asker, set))?)
            }
            Operation::Readlink => reply.bytes(&self.requests.readlink(node)?),
            Operation::Symlink { .. }
            | Operation::Mknod { .. }
            | Operation::Mkdir { .. }
            | Operation::Link { .. } => self.make(header, operation, reply),
            Operation::Unlink { name } => self.requests.unlink(asker, node, name),
            Operation::Rmdir { name } => self.requests.rmdir(asker, node, name),
            Operation::Rename {
                name,
                folder,
                new_name,
                flags,
            } => {
                let (from, to) = ((node, name), (folder, new_name));
                self.requests.rename(asker, Move { from, to, flags })
            }
            Operation::Statfs => reply.statfs(&self.requests.statfs()?),
            Operation::Setxattr {
                name,
                value,
                flags,
                kills,
            } => {
                let how = (flags, asker.caller(kills));
                self.requests.setxattr(asker, node, name, value, how)
            }
            Operation::Getxattr { name, size } => {
                put(fitting(self.requests.getxattr(node, name)?, size)?, reply)
            }
            Operation::Listxattr { size } => {
                put(fitting(self.requests.listxattr(node)?, size)?, reply)
            }
            Operation::Removexattr { name } => self.requests.removexattr(asker, node, name),
            Operation::Opendir
            | Operation::Readdir { .. }
            | Operation::Readdirplus { .. }
            | Operation::Releasedir => self.folder(header, operation, reply),
            Operation::Fsyncdir | Operation::Syncfs => self.requests.fsyncdir(),
            Operation::Destroy => Ok(()),
            ref operation => self.file(header, operation, reply),
        }
    }

    /// A new name.
    fn make(
        &self,
        header: &Header,
        operation: &Operation<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        let (parent, asker) = (header.node, header.asker);
        let make = |name, mode, umask| Make {
            parent,
            name,
            mode,
            umask,
        };
        let named = match *operation {
            Operation::Symlink { name, target } => {
                self.requests.symlink(asker, parent, name, target)
            }
            Operation::Mknod {
                name,
                mode,
                device,
                umask,
            } => self.requests.mknod(asker, make(name, mode, umask), device),
            Operation::Mkdir { name, mode, umask } => {
                self.requests.mkdir(asker, make(name, mode, umask))
            }
            Operation::Link { node, name } => self.requests.link(asker, node, parent, name),
            _ => Err(Errno::NOSYS),
        };
        reply.entry(&named?)
    }

    /// A request about an open file.
    fn file(
        &self,
        header: &Header,
        operation: &Operation<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        let (node, asker) = (header.node, header.asker);
        match *operation {
            Operation::Open { flags } => {
                let opened = self.requests.open(asker, node, flags)?;
                let passed = self.passed_through(node, opened.handle);
                reply.open(&opened, passed)
            }
            Operation::Create {
                name,
                flags,
                mode,
                umask,
            } => {
                let parent = node;
                let make = Make {
                    parent,
                    name,
                    mode,
                    umask,
                };
                let (named, opened) = self.requests.create(asker, make, flags)?;
                reply.entry(&named)?;
                reply.open(&opened, None)
            }
            Operation::Tmpfile { flags, mode, umask } => {
                let make = Make {
                    parent: node,
                    name: b"",
                    mode,
                    umask,
                };
                let (named, opened) = self.requests.tmpfile(asker, make, flags)?;
                reply.entry(&named)?;
                reply.open(&opened, None)
            }
            Operation::Read {
                handle,
                offset,
                size,
            } => self.read(HandleId(handle), offset, size, reply),
            Operation::Write {
                handle,
                offset,
                kills,
                bytes,
            } => {
                let handle = HandleId(handle);
                let caller = header.asker.caller(kills);
                self.requests.write(handle, offset, bytes, caller)?;
                reply.size(u32::try_from(bytes.len()).unwrap_or(u32::MAX))
            }
            Operation::Release { handle } => {
                if let Some(passthrough) = &self.passthrough {
                    passthrough.close(node);
                }
                self.requests.release(HandleId(handle))
            }
            // Writes have reached the content file when write(2) returns.
            Operation::Flush => Ok(()),
            Operation::Fsync { handle, flags } => {
                self.requests.fsync(HandleId(handle), durable(flags))
            }
            Operation::Fallocate {
                handle,
                offset,
                length,
                mode,
            } => self
                .requests
                .fallocate(header.asker, HandleId(handle), mode, offset, length),
            Operation::Lseek {
                handle,
                offset,
                whence,
            } => reply.offset(self.requests.lseek(HandleId(handle), offset, whence)?),
            Operation::CopyFileRange {
                from,
                to,
                length,
                wide,
            } => {
                let (from, to) = ((HandleId(from.0), from.1), (HandleId(to.0), to.1));
                let asker = header.asker;
                let copied = self.requests.copy_file_range(asker, from, to, length)?;
                if wide {
                    reply.offset(copied as u64)
                } else {
                    reply.size(u32::try_from(copied).unwrap_or(u32::MAX))
                }
            }
            ref other => Err(refusal(other)),
        }
    }

    /// What the kernel reads without asking, of a file that was just opened.
    fn passed_through(&self, node: u64, handle: HandleId) -> Option<u32> {
        let passthrough = self.passthrough.as_ref()?;
        let file = self.requests.unchanging_file(handle);
        passthrough.open(node, file.as_deref())
    }

    /// A request about an open directory.
    fn folder(
        &self,
        header: &Header,
        operation: &Operation<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        match *operation {
            Operation::Opendir => {
                let shortcut = self.agreed.flags.has(Flags::NO_OPENDIR_SUPPORT);
                self.requests.opendir(shortcut)?;
                reply.handle(0, OpenFlags::CACHED_DIR, None)
            }
            Operation::Readdir { offset, size } => {
                let listing = self.requests.readdir(header.node, offset)?;
                reply.limit(size);
                list(&listing, reply)
            }
            Operation::Readdirplus { offset, size } => {
                reply.limit(size);
                self.list_with_nodes(header.node, offset, reply)
            }
            Operation::Releasedir => Ok(()),
            ref other => Err(refusal(other)),
        }
    }

    /// A short answer is the end of the file to the kernel: what does not fit is an error.
    fn read(
        &self,
        handle: HandleId,
        offset: u64,
        size: u32,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        let size = size as usize;
        let content = reply.content(size);
        if content.len() < size {
            return Err(Errno::IO);
        }
        let read = self.requests.read(handle, offset, content)?;
        reply.filled(read);
        Ok(())
    }

    fn list_with_nodes(
        &self,
        folder: u64,
        offset: u64,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        let mut fault = Ok(());
        self.requests.readdirplus(folder, offset, |entry, named| {
            let added = reply.dirent_plus(named, entry.next, &entry.name);
            fault = added.map(|_| ());
            added == Ok(true)
        })?;
        fault
    }
}

fn list(listing: &Rest, reply: &mut Reply<'_>) -> Result<(), Errno> {
    for entry in listing.entries() {
        if !reply.dirent(entry.node.0, entry.next, entry.kind, &entry.name)? {
            break;
        }
    }
    Ok(())
}

fn put(fitting: Fitting, reply: &mut Reply<'_>) -> Result<(), Errno> {
    match fitting {
        Fitting::Size(size) => reply.size(size),
        Fitting::Bytes(bytes) => reply.bytes(&bytes),
    }
}

/// The kernel says for a new size whether set-id bits go. At a change of owner it always says so,
/// but root keeps a set-group-id bit that has no group execution (chown(2)).
fn attributes(asker: Asker, set: Setattr) -> SetAttr {
    let kills = if set.size.is_some() {
        set.kills
    } else {
        asker.uid != 0
    };
    SetAttr {
        mode: set.mode,
        uid: set.uid,
        gid: set.gid,
        size: set.size,
        atime: set.atime,
        mtime: set.mtime,
        caller: asker.caller(kills),
    }
}

const fn durable(flags: u32) -> Durable {
    if flags & DATA_ONLY == 0 {
        Durable::Everything
    } else {
        Durable::Data
    }
}
