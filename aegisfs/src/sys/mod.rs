//! The only unsafe code of this crate: what rustix has no safe face for.

#![expect(
    unsafe_code,
    reason = "system calls without a safe wrapper; every other room has none"
)]

pub(crate) mod backing;
pub(crate) mod lease;
pub(crate) mod ring;
