//! The lazy copy-on-write tree.

pub mod changes;
