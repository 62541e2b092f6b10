//! A ring through which the kernel hands FUSE requests to one thread (io_uring(7),
//! Documentation/filesystems/fuse/fuse-io-uring.rst).
//!
//! The ring owns the memory that the kernel writes requests to. A slot is either the kernel's or
//! ours; only the latter can be looked at.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::io_uring::{
    IoringEnterFlags, IoringSetupFlags, io_uring_enter, io_uring_params, io_uring_setup,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// Bytes of `struct fuse_uring_req_header`.
pub(crate) const HEADERS: usize = 288;
/// Where the fixed argument starts in it.
pub(crate) const ARGUMENT: usize = 128;
/// Where the kernel and we say how long the payload is, behind flags and the number to commit.
pub(crate) const COMMIT_ID: usize = 264;
/// The length of the payload.
pub(crate) const PAYLOAD_SIZE: usize = 272;

/// Room for the headers of a slot; the payload starts on a page.
const HEADER_ROOM: usize = 4096;
/// Bytes of a submission with a command of 80 bytes.
const SUBMISSION: usize = 128;
/// Bytes of a completion.
const COMPLETION: usize = 16;
/// `IORING_OFF_SQ_RING` and `IORING_OFF_SQES` of io_uring(7).
const RINGS: u64 = 0;
const SUBMISSIONS: u64 = 0x1000_0000;
/// `IORING_OP_URING_CMD`.
const COMMAND: u8 = 46;
/// `FUSE_IO_URING_CMD_REGISTER` and `FUSE_IO_URING_CMD_COMMIT_AND_FETCH`.
const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;

/// Memory that is mapped, here or also in the kernel.
#[derive(Debug)]
struct Mapping {
    address: NonNull<u8>,
    length: usize,
}

/// Which side a slot is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Kernel,
    Ours,
    /// The kernel gave it back for good.
    Done,
}

/// The base and length of one buffer (`struct iovec` where pointers have 64 bits).
type Buffer = [u64; 2];

/// One ring, of one queue of a connection.
#[derive(Debug)]
pub(crate) struct Ring {
    ring: OwnedFd,
    queues: Mapping,
    submissions: Mapping,
    params: io_uring_params,
    slots: Vec<Side>,
    memory: Option<Mapping>,
    buffers: Vec<[Buffer; 2]>,
    payload: usize,
    device: i32,
    queue: u16,
    pending: u32,
}

// SAFETY: the mappings belong to this value alone; nothing in it is bound to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    fn of(ring: &OwnedFd, length: usize, offset: u64) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let address = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
                protection,
                flags,
                ring,
                offset,
            )?
        };
        Self::at(address.cast(), length)
    }

    fn anonymous(length: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as above.
        let address =
            unsafe { mmap_anonymous(std::ptr::null_mut(), length, protection, MapFlags::PRIVATE)? };
        Self::at(address.cast(), length)
    }

    fn at(address: *mut u8, length: usize) -> io::Result<Self> {
        let address = NonNull::new(address).ok_or(Errno::NOMEM)?;
        Ok(Self { address, length })
    }

    /// A number that the kernel may change at any time.
    fn shared(&self, offset: usize) -> Result<&AtomicU32, Errno> {
        self.check(offset, 4)?;
        if !offset.is_multiple_of(4) {
            return Err(Errno::FAULT);
        }
        // SAFETY: inside the mapping, which starts on a page, and aligned; it lives as long as
        // `self`. Both sides go by atomic accesses.
        Ok(unsafe { AtomicU32::from_ptr(self.address.as_ptr().add(offset).cast()) })
    }

    /// Writes bytes to a part that the kernel does not look at now.
    fn put(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Errno> {
        self.check(offset, bytes.len())?;
        // SAFETY: inside the mapping, and `bytes` can not overlap with it: nothing refers to it.
        unsafe {
            let to = self.address.as_ptr().add(offset);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        Ok(())
    }

    /// Reads bytes from a part that the kernel does not write to now.
    fn get<const N: usize>(&self, offset: usize) -> Result<[u8; N], Errno> {
        self.check(offset, N)?;
        let mut bytes = [0; N];
        // SAFETY: inside the mapping, and `bytes` is a value of its own.
        unsafe {
            let from = self.address.as_ptr().add(offset);
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), N);
        }
        Ok(bytes)
    }

    /// A part that the kernel leaves alone while it is borrowed.
    fn part(&mut self, offset: usize, length: usize) -> Result<&mut [u8], Errno> {
        self.check(offset, length)?;
        // SAFETY: inside the mapping, initialised by the kernel with zeros, and borrowed from
        // `self` as a whole. The caller sees to it that the kernel does not write to it.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr().add(offset), length) })
    }

    fn check(&self, offset: usize, length: usize) -> Result<(), Errno> {
        match offset.checked_add(length) {
            Some(end) if end <= self.length => Ok(()),
            _ => Err(Errno::FAULT),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and nothing borrows from it any more.
        let _ = unsafe { munmap(self.address.as_ptr().cast(), self.length) };
    }
}

impl Ring {
    /// A ring with `depth` slots for payloads of `payload` bytes, for a queue of the connection
    /// `device`. The thread that first enters it is the one that has to serve it.
    ///
    /// # Errors
    /// ENOSYS, EPERM or EINVAL where the kernel has no such rings or lets nobody use them.
    pub(crate) fn new(
        device: BorrowedFd<'_>,
        queue: u16,
        depth: u32,
        payload: usize,
    ) -> io::Result<Self> {
        let mut params = io_uring_params::default();
        params.flags = IoringSetupFlags::SQE128
            | IoringSetupFlags::SINGLE_ISSUER
            | IoringSetupFlags::DEFER_TASKRUN
            | IoringSetupFlags::COOP_TASKRUN
            | IoringSetupFlags::NO_SQARRAY;
        // SAFETY: `params` is valid for the call, and asks for no memory of ours.
        let ring = unsafe { io_uring_setup(depth, &mut params)? };
        let last = params.cq_off.cqes as usize + params.cq_entries as usize * COMPLETION;
        let queues = Mapping::of(&ring, last, RINGS)?;
        let submitted = params.sq_entries as usize * SUBMISSION;
        let submissions = Mapping::of(&ring, submitted, SUBMISSIONS)?;
        let slots = vec![Side::Done; depth as usize];
        let memory = Mapping::anonymous(slots.len() * (HEADER_ROOM + payload))?;
        let base = memory.address.as_ptr() as u64;
        let buffers = (0..u64::from(depth)).map(|slot| {
            let header = base + slot * (HEADER_ROOM + payload) as u64;
            let content = header + HEADER_ROOM as u64;
            [[header, HEADERS as u64], [content, payload as u64]]
        });
        Ok(Self {
            ring,
            queues,
            submissions,
            params,
            slots,
            buffers: buffers.collect(),
            memory: Some(memory),
            payload,
            device: device.as_raw_fd(),
            queue,
            pending: 0,
        })
    }

    /// Gives every slot to the kernel, which fills them with requests from here on.
    ///
    /// # Errors
    /// What the kernel said.
    pub(crate) fn register(&mut self) -> io::Result<()> {
        for slot in 0..self.slots.len() {
            let buffers = self.buffers.get(slot).ok_or(Errno::FAULT)?;
            let address = buffers.as_ptr() as u64;
            self.submit(slot, REGISTER, address, 0)?;
        }
        Ok(())
    }

    /// Answers the request in a slot, and lets the kernel fill it again.
    ///
    /// # Errors
    /// `InvalidInput` when the slot is not ours.
    pub(crate) fn commit(&mut self, slot: usize, commit_id: u64) -> io::Result<()> {
        if self.slots.get(slot) != Some(&Side::Ours) {
            return Err(Errno::INVAL.into());
        }
        self.submit(slot, COMMIT_AND_FETCH, 0, commit_id)
    }

    /// Waits for the next slot with a request; `None` once the kernel has given all slots back.
    ///
    /// # Errors
    /// What io_uring_enter(2) said.
    pub(crate) fn next(&mut self) -> io::Result<Option<usize>> {
        loop {
            while let Some((slot, result)) = self.completion()? {
                let side = self.slots.get_mut(slot).ok_or(Errno::FAULT)?;
                if result >= 0 {
                    *side = Side::Ours;
                    return Ok(Some(slot));
                }
                *side = Side::Done;
            }
            if self.slots.iter().all(|side| *side == Side::Done) {
                return Ok(None);
            }
            self.enter(1)?;
        }
    }

    /// The headers of a slot that is ours.
    ///
    /// # Errors
    /// `InvalidInput` when it is not.
    pub(crate) fn headers(&self, slot: usize) -> io::Result<[u8; HEADERS]> {
        self.ours(slot)?;
        let memory = self.memory.as_ref().ok_or(Errno::FAULT)?;
        Ok(memory.get(slot * (HEADER_ROOM + self.payload))?)
    }

    /// Writes a part of the headers of a slot that is ours.
    ///
    /// # Errors
    /// `InvalidInput` when it is not, or when it does not fit.
    pub(crate) fn put_header(&mut self, slot: usize, at: usize, bytes: &[u8]) -> io::Result<()> {
        self.ours(slot)?;
        if at.saturating_add(bytes.len()) > HEADERS {
            return Err(Errno::INVAL.into());
        }
        let start = slot * (HEADER_ROOM + self.payload);
        let memory = self.memory.as_mut().ok_or(Errno::FAULT)?;
        Ok(memory.put(start + at, bytes)?)
    }

    /// The payload of a slot that is ours.
    ///
    /// # Errors
    /// `InvalidInput` when it is not.
    pub(crate) fn payload(&mut self, slot: usize) -> io::Result<&mut [u8]> {
        self.ours(slot)?;
        let start = slot * (HEADER_ROOM + self.payload) + HEADER_ROOM;
        let memory = self.memory.as_mut().ok_or(Errno::FAULT)?;
        Ok(memory.part(start, self.payload)?)
    }

    fn ours(&self, slot: usize) -> io::Result<()> {
        match self.slots.get(slot) {
            Some(Side::Ours) => Ok(()),
            _ => Err(Errno::INVAL.into()),
        }
    }

    /// Puts a command in the queue; it is handed over at the next [`Ring::next`].
    fn submit(&mut self, slot: usize, kind: u32, address: u64, commit: u64) -> io::Result<()> {
        let mask = self.queues.shared(self.params.sq_off.ring_mask as usize)?;
        let mask = mask.load(Ordering::Relaxed);
        let tail = self.params.sq_off.tail as usize;
        let at = self.queues.shared(tail)?.load(Ordering::Relaxed);
        let entry = command(self.device, kind, address, slot as u64, commit, self.queue);
        let place = (at & mask) as usize * SUBMISSION;
        self.submissions.put(place, &entry)?;
        let next = at.wrapping_add(1);
        self.queues.shared(tail)?.store(next, Ordering::Release);
        self.pending += 1;
        if let Some(side) = self.slots.get_mut(slot) {
            *side = Side::Kernel;
        }
        Ok(())
    }

    /// Hands over what is in the queue, and waits for so many completions.
    fn enter(&mut self, wait: u32) -> io::Result<()> {
        let flags = IoringEnterFlags::GETEVENTS;
        // SAFETY: the commands point to memory of this value, which stays until the kernel has
        // given every slot back.
        match unsafe { io_uring_enter(&self.ring, self.pending, wait, flags) } {
            Ok(taken) => {
                self.pending = self.pending.saturating_sub(taken);
                Ok(())
            }
            Err(Errno::INTR | Errno::AGAIN) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The next completion: a slot, and how it went.
    fn completion(&mut self) -> io::Result<Option<(usize, i32)>> {
        let offsets = &self.params.cq_off;
        let head = self.queues.shared(offsets.head as usize)?;
        let tail = self.queues.shared(offsets.tail as usize)?;
        let at = head.load(Ordering::Relaxed);
        if at == tail.load(Ordering::Acquire) {
            return Ok(None);
        }
        let mask = self.queues.shared(offsets.ring_mask as usize)?;
        let index = (at & mask.load(Ordering::Relaxed)) as usize;
        let place = offsets.cqes as usize + index * COMPLETION;
        let slot = u64::from_ne_bytes(self.queues.get(place)?);
        let result = i32::from_ne_bytes(self.queues.get(place + 8)?);
        head.store(at.wrapping_add(1), Ordering::Release);
        Ok(Some((usize::try_from(slot).unwrap_or(usize::MAX), result)))
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.slots.contains(&Side::Kernel) {
            // The kernel may still write to it.
            std::mem::forget(self.memory.take());
            std::mem::forget(std::mem::take(&mut self.buffers));
        }
    }
}

/// `struct io_uring_sqe` of a command with 80 bytes, which hold `struct fuse_uring_cmd_req`.
fn command(
    device: i32,
    kind: u32,
    address: u64,
    user: u64,
    commit: u64,
    queue: u16,
) -> [u8; SUBMISSION] {
    let mut entry = [0; SUBMISSION];
    // A request has two buffers: headers and payload.
    let buffers: u32 = if address == 0 { 0 } else { 2 };
    let fields: [(usize, &[u8]); 8] = [
        (0, &[COMMAND]),
        (4, &device.to_ne_bytes()),
        (8, &kind.to_ne_bytes()),
        (16, &address.to_ne_bytes()),
        (24, &buffers.to_ne_bytes()),
        (32, &user.to_ne_bytes()),
        (56, &commit.to_ne_bytes()),
        (64, &queue.to_ne_bytes()),
    ];
    for (offset, bytes) in fields {
        for (to, from) in entry.iter_mut().skip(offset).zip(bytes) {
            *to = *from;
        }
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_slot_is_closed_until_the_kernel_hands_it_over() {
        let plain = tempfile::tempfile().unwrap();
        // Where rings are refused there is nothing to look at.
        let Ok(mut ring) = Ring::new(plain.as_fd(), 0, 2, 8192) else {
            return;
        };
        assert!(ring.payload(0).is_err() && ring.headers(1).is_err());
        assert!(ring.commit(0, 1).is_err());
        ring.register().unwrap();
        assert_eq!(ring.next().unwrap(), None, "a plain file takes no commands");
        assert!(ring.payload(0).is_err());
    }

    #[test]
    fn a_command_is_laid_out_as_the_kernel_reads_it() {
        let entry = command(5, REGISTER, 0x1000, 1, 0, 3);
        assert_eq!((entry[0], entry[4], entry[8], entry[24]), (46, 5, 1, 2));
        assert_eq!((entry[17], entry[32], entry[64]), (0x10, 1, 3));
        let entry = command(5, COMMIT_AND_FETCH, 0, 1, 77, 3);
        assert_eq!((entry[8], entry[24], entry[56]), (2, 0, 77));
    }
}
