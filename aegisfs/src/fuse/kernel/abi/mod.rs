//! The messages of linux/fuse.h, protocol 7.31 to 7.45, as values.
//!
//! They are taken from bytes field by field and put together the same way; a length that does not
//! fit is an error, never a guess. Integers are in the machine's order.

mod bytes;
mod init;
mod notice;
mod operation;
mod reply;

pub(super) use bytes::Fields;
pub(super) use init::{Agreed, Agreement, Flags, Wish, ask_again};
pub(super) use notice::Notice;
pub(super) use operation::{Header, Operation, Setattr, argument_size, forgotten, refusal};
pub(super) use reply::{OpenFlags, Reply};

/// The size of `struct fuse_out_header`.
pub(super) const REPLY_HEADER: usize = 16;
