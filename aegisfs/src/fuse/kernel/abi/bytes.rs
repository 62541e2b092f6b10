//! Fields of a message, one after another.

use rustix::io::Errno;

/// A message that is shorter than its kind, or holds a name without an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fuse::kernel) struct Malformed;

impl From<Malformed> for Errno {
    fn from(_: Malformed) -> Self {
        Self::INVAL
    }
}

/// What is left of a message that is being taken apart.
#[derive(Clone, Copy, Debug)]
pub(in crate::fuse::kernel) struct Fields<'a>(pub(in crate::fuse::kernel) &'a [u8]);

impl<'a> Fields<'a> {
    pub(in crate::fuse::kernel) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_ne_bytes(self.array()?))
    }

    pub(in crate::fuse::kernel) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_ne_bytes(self.array()?))
    }

    /// Leaves out what nobody needs.
    pub(in crate::fuse::kernel) fn skip(&mut self, count: usize) -> Result<(), Malformed> {
        self.take(count).map(drop)
    }

    /// So many bytes.
    pub(in crate::fuse::kernel) fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    /// A name: what precedes the next zero.
    pub(in crate::fuse::kernel) fn name(&mut self) -> Result<&'a [u8], Malformed> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(Malformed)?;
        let name = self.take(end)?;
        self.skip(1)?;
        Ok(name)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_end_where_the_message_does() {
        let mut fields = Fields(b"\x01\0\0\0name\0rest");
        assert_eq!(fields.u32(), Ok(1_u32.to_le()));
        assert_eq!(fields.name(), Ok(&b"name"[..]));
        assert_eq!(fields.name(), Err(Malformed), "no zero");
        assert_eq!(fields.u64(), Err(Malformed), "four bytes are left");
        assert_eq!(fields.take(4), Ok(&b"rest"[..]));
        assert_eq!(fields.u32(), Err(Malformed));
        assert_eq!(fields.skip(0), Ok(()));
    }
}
