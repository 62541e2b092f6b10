//! The launcher's only unsafe code: what rustix and nix have no safe face for.

#![expect(
    unsafe_code,
    reason = "system calls without a safe wrapper; every other room has none"
)]

pub(crate) mod child;
pub(crate) mod descriptor;
pub(crate) mod files;
pub(crate) mod keyring;
pub(crate) mod signal;
