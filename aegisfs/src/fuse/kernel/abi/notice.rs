//! What this side tells the kernel without being asked.

use super::REPLY_HEADER;

/// A notice; its code stands where an answer has its error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fuse::kernel) enum Notice<'a> {
    /// The attributes of a node are not to be trusted, and its pages are dropped.
    Node { node: u64, pages: bool },
    /// A name is dropped, with what is below it.
    Name { folder: u64, name: &'a [u8] },
    /// No name is to be trusted (7.44).
    Epoch,
}

impl Notice<'_> {
    /// The bytes to write.
    pub(in crate::fuse::kernel) fn encode(&self) -> Vec<u8> {
        let (code, body) = match self {
            Self::Node { node, pages } => {
                // A negative offset leaves the pages alone, and so waits for none.
                let offset: i64 = if *pages { 0 } else { -1 };
                let fields = [*node, offset.cast_unsigned(), 0];
                (INVAL_INODE, fields.map(u64::to_ne_bytes).concat())
            }
            Self::Name { folder, name } => {
                let length = u32::try_from(name.len()).unwrap_or(u32::MAX);
                let mut body = folder.to_ne_bytes().to_vec();
                body.extend_from_slice(&length.to_ne_bytes());
                body.extend_from_slice(&[0; 4]);
                body.extend_from_slice(name);
                body.push(0);
                (INVAL_ENTRY, body)
            }
            Self::Epoch => (INC_EPOCH, Vec::new()),
        };
        let length = u32::try_from(REPLY_HEADER + body.len()).unwrap_or(u32::MAX);
        let mut bytes = [length.to_ne_bytes(), code.to_ne_bytes()].concat();
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&body);
        bytes
    }
}

const INVAL_INODE: i32 = 2;
const INVAL_ENTRY: i32 = 3;
const INC_EPOCH: i32 = 8;
