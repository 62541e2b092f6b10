//! The socket between the launcher and the stage, or the keeper: length, JSON, and descriptors beside it.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Arguments and environment fit into ARG_MAX (a quarter of the stack limit, 2 MiB commonly); as
/// JSON numbers a byte takes up to four.
const LONGEST: usize = 32 << 20;
/// More than doors, streams and pidfds together; the kernel's own limit is 253.
pub(super) const MOST_DESCRIPTORS: usize = 64;

/// One end of the socket.
#[derive(Debug)]
pub(crate) struct Channel(OwnedFd);

impl Channel {
    /// Two connected ends.
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Self(ours), Self(theirs)))
    }

    /// An end that was inherited.
    pub(super) fn from_inherited(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// Sends a message with descriptors beside it.
    pub(crate) fn send<T: Serialize>(&self, message: &T, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let body = serde_json::to_vec(message)?;
        let length = u32::try_from(body.len())
            .map_err(io::Error::other)?
            .to_le_bytes();
        self.send_head(&length, fds)?;
        self.send_all(&body)
    }

    /// Receives one message; `UnexpectedEof` when the other end is gone.
    pub(crate) fn receive<T: DeserializeOwned>(&self) -> io::Result<(T, Vec<OwnedFd>)> {
        let mut head = [0_u8; 4];
        let descriptors = self.receive_head(&mut head)?;
        let length = usize::try_from(u32::from_le_bytes(head)).map_err(io::Error::other)?;
        if length > LONGEST {
            return Err(io::Error::other("a message is too long"));
        }
        let mut body = vec![0; length];
        self.receive_exact(&mut body)?;
        Ok((serde_json::from_slice(&body)?, descriptors))
    }

    fn send_head(&self, head: &[u8; 4], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(io::Error::other("too many descriptors for one message"));
        }
        let slices = [IoSlice::new(head)];
        let sent = rustix::io::retry_on_intr(|| {
            rustix::net::sendmsg(&self.0, &slices, &mut control, SendFlags::NOSIGNAL)
        })?;
        // A stream socket takes four bytes whole or not at all while its buffer is empty.
        if sent == head.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::WriteZero.into())
        }
    }

    fn send_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = rustix::io::retry_on_intr(|| {
                rustix::net::send(&self.0, bytes, SendFlags::NOSIGNAL)
            })?;
            bytes = bytes.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    fn receive_head(&self, head: &mut [u8; 4]) -> io::Result<Vec<OwnedFd>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
        let received = rustix::io::retry_on_intr(|| {
            rustix::net::recvmsg(&self.0, &mut [IoSliceMut::new(head)], &mut control, flags)
        })?;
        if received.bytes != head.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let rights = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        Ok(rights.flatten().collect())
    }

    fn receive_exact(&self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let count = rustix::io::retry_on_intr(|| rustix::io::read(&self.0, &mut *buffer))?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer = buffer.get_mut(count..).unwrap_or_default();
        }
        Ok(())
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_message_arrives_with_its_descriptors() {
        let (ours, theirs) = Channel::pair().unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let words = vec![
            "x".repeat(50_000),
            String::from_utf8(vec![0, 1, 2]).unwrap(),
        ];
        ours.send(&words, &[writer.as_fd()]).unwrap();
        drop(writer);
        let (received, mut given): (Vec<String>, _) = theirs.receive().unwrap();
        assert_eq!(received, words);
        let mut writer = std::fs::File::from(given.pop().unwrap());
        writer.write_all(b"through").unwrap();
        drop((writer, given));
        let mut said = String::new();
        std::fs::File::from(reader)
            .read_to_string(&mut said)
            .unwrap();
        assert_eq!(said, "through");
    }

    #[test]
    fn an_end_that_is_gone_is_the_end() {
        let (ours, theirs) = Channel::pair().unwrap();
        drop(ours);
        let error = theirs.receive::<String>().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(theirs.send(&"nobody hears", &[]).is_err());
    }

    #[test]
    fn what_is_not_a_message_is_refused() {
        let (ours, theirs) = Channel::pair().unwrap();
        ours.send_all(&u32::MAX.to_le_bytes()).unwrap();
        assert!(theirs.receive::<String>().is_err());
        ours.send(&7, &[]).unwrap();
        assert!(theirs.receive::<String>().is_err());
    }
}
