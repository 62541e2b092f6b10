//! Content by blocks: a large file of the host's, or of an older generation, is not copied when it
//! is first written to. Its blocks come up one by one, and the rest shows from below.

mod below;
mod body;
mod keeper;
mod load;
mod map;
mod partial;
mod shelf;
mod store;
#[cfg(test)]
mod tests;

pub(crate) use body::Body;
pub(crate) use load::{complete, read_content};
pub(crate) use partial::Partial;
pub(crate) use shelf::content_of;
pub(crate) use store::{Blocks, OpenHost};
