//! The project's own `.git`: which of its names may land, and in what condition.
//!
//! Everything that git would execute or that redirects it stays out by name. What may land is
//! checked for being what its name says: an agent that could land a pack with a false index would
//! choose the content of every commit there is.

mod history;
mod index;
mod names;
mod objects;
mod reach;
mod refs;

pub use history::{Advance, advances};
pub(crate) use index::{same_entries, sanitize, staged};
pub(crate) use names::{Rule, is_volatile, rule};
pub(crate) use objects::Bench;
pub(crate) use reach::{History, Leaf};
pub(crate) use refs::{Value, check as check_reference, noted, packed, value};

use aegis_policies::RelPath;

use super::item::Group;

/// The part of the path below `.git`, when the path is the project's `.git` or lies in it.
pub(crate) fn inside(path: &RelPath) -> Option<&[u8]> {
    match path.as_bytes().strip_prefix(b".git")? {
        [] => Some(b""),
        [b'/', rest @ ..] => Some(rest),
        _ => None,
    }
}

/// The group of a path.
pub(crate) fn group(path: &RelPath) -> Group {
    match inside(path) {
        None => Group::Files,
        Some(rest) if rest == b"objects" || rest.starts_with(b"objects/") => Group::Objects,
        Some(_) => Group::Git,
    }
}
