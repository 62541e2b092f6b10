//! HTTP/1.1 as the sandbox speaks it to us: read strictly, answered plainly.
//!
//! hyper speaks to the upstreams. It does not read requests here, because it resolves
//! `Content-Length` with `Transfer-Encoding` before a service sees the head, and because a tunnel
//! needs the bare socket. What two parsers could read in two ways (RFC 9112, section 11.2) is not
//! resolved in this room, it is refused.

mod body;
mod client;
mod head;
mod target;

pub(crate) use body::{BodyDecoder, BodyError, Decoded};
pub(crate) use client::{Answer, BodyFraming, Client};
pub(crate) use head::{Framing, HeadError, RequestHead};
pub(crate) use target::Target;
