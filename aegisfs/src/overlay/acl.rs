//! POSIX access control lists (acl(5)), in the form in which their extended attributes hold them:
//! version 2, then a type, permissions and an id for each entry, little endian.
//!
//! The permission bits of a node are the truth for three entries of its list, as on every Linux file
//! system: the owner, the mask (the group, where there is no mask), and everybody else. A list is
//! kept as it was set and shown with the bits that the node has, so a chmod(2) needs no other record.

/// Who may access a node.
pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
/// What a node that is made in a directory begins with.
pub(crate) const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: [u8; 4] = [2, 0, 0, 0];
/// An id that the user namespace has no number for. Nobody in it can be meant, and the kernel takes
/// no list that has one.
const UNMAPPED: u32 = u32::MAX;

const OWNER: u16 = 0x01;
const GROUP: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;
const NAMED: [u16; 2] = [0x02, 0x08];

/// A list of at least the owner, the group and everybody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acl(Vec<Entry>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    tag: u16,
    /// Of `rwx`.
    bits: u16,
    id: u32,
}

/// Whether this attribute holds a list.
pub(crate) fn is_acl(name: &[u8]) -> bool {
    name == ACCESS || name == DEFAULT
}

impl Acl {
    /// The list that an attribute holds; `None` when it holds none.
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let (entries, rest) = value.strip_prefix(&VERSION)?.as_chunks::<8>();
        let entries = entries.iter().map(Entry::parse);
        let known = |entry: &Entry| !(NAMED.contains(&entry.tag) && entry.id == UNMAPPED);
        let list = Self(entries.filter(known).collect());
        let has = |tag| list.0.iter().filter(|entry| entry.tag == tag).count() == 1;
        (rest.is_empty() && has(OWNER) && has(GROUP) && has(OTHERS)).then_some(list)
    }

    /// The value of the attribute.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let entries = self.0.iter().flat_map(|entry| entry.encode());
        VERSION.into_iter().chain(entries).collect()
    }

    /// The permission bits that the list stands for.
    pub(crate) fn mode(&self) -> u32 {
        let of = |tag| self.bits(tag).unwrap_or(0);
        let group = self.bits(MASK).unwrap_or_else(|| of(GROUP));
        of(OWNER) << 6 | group << 3 | of(OTHERS)
    }

    /// The list on a node with these permission bits; `None` when the bits alone say as much.
    pub(crate) fn with_mode(mut self, mode: u32) -> Option<Self> {
        let group = if self.bits(MASK).is_some() {
            MASK
        } else {
            GROUP
        };
        for (tag, shift) in [(OWNER, 6), (group, 3), (OTHERS, 0)] {
            for entry in self.0.iter_mut().filter(|entry| entry.tag == tag) {
                entry.bits = u16::try_from(mode >> shift & 7).unwrap_or(0);
            }
        }
        let more = |entry: &Entry| ![OWNER, GROUP, OTHERS].contains(&entry.tag);
        self.0.iter().any(more).then_some(self)
    }

    fn bits(&self, tag: u16) -> Option<u32> {
        let entry = self.0.iter().find(|entry| entry.tag == tag);
        entry.map(|entry| u32::from(entry.bits))
    }
}

impl Entry {
    fn parse(&[a, b, c, d, e, f, g, h]: &[u8; 8]) -> Self {
        Self {
            tag: u16::from_le_bytes([a, b]),
            bits: u16::from_le_bytes([c, d]) & 7,
            id: u32::from_le_bytes([e, f, g, h]),
        }
    }

    fn encode(self) -> [u8; 8] {
        let ([a, b], [c, d]) = (self.tag.to_le_bytes(), self.bits.to_le_bytes());
        let [e, f, g, h] = self.id.to_le_bytes();
        [a, b, c, d, e, f, g, h]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16, u32)]) -> Acl {
        let entry = |&(tag, bits, id): &(u16, u16, u32)| Entry { tag, bits, id };
        Acl(entries.iter().map(entry).collect())
    }

    fn long() -> Acl {
        let (user, group) = ((NAMED[0], 7, 5), (NAMED[1], 1, 6));
        list(&[
            (OWNER, 6, 0),
            user,
            (GROUP, 4, 0),
            group,
            (MASK, 5, 0),
            (OTHERS, 1, 0),
        ])
    }

    #[test]
    fn a_list_survives_its_attribute() {
        assert_eq!(Acl::parse(&long().encode()), Some(long()));
        for damaged in [&long().encode()[..11], b"", &[1, 0, 0, 0], &VERSION] {
            assert_eq!(Acl::parse(damaged), None);
        }
    }

    #[test]
    fn the_bits_of_a_group_are_the_mask() {
        assert_eq!(long().mode(), 0o651);
        let shown = long().with_mode(0o4723).unwrap();
        assert_eq!(shown.mode(), 0o723);
        assert_eq!(shown.bits(GROUP), Some(4));
        let short = list(&[(OWNER, 6, 0), (GROUP, 4, 0), (OTHERS, 1, 0)]);
        assert_eq!((short.mode(), short.with_mode(0o700)), (0o641, None));
    }

    #[test]
    fn who_has_no_number_here_is_left_out() {
        let (user, group) = ((NAMED[0], 7, UNMAPPED), (NAMED[1], 0, 6));
        let base = [(OWNER, 6, 0), (GROUP, 4, 0), (MASK, 5, 0), (OTHERS, 1, 0)];
        let full: Vec<_> = base.into_iter().chain([user, group]).collect();
        let kept: Vec<_> = base.into_iter().chain([group]).collect();
        assert_eq!(Acl::parse(&list(&full).encode()), Some(list(&kept)));
    }
}
