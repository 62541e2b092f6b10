//! The session keyring (keyrings(7)).

use std::io;
use std::ptr;

/// From linux/keyctl.h; libc names it on some targets only.
const KEYCTL_JOIN_SESSION_KEYRING: libc::c_int = 1;

/// Leaves the inherited session keyring for a fresh one without a name.
///
/// # Errors
/// `ENOSYS` when the kernel has no keyrings; the caller treats that as success.
pub(crate) fn join_fresh() -> io::Result<()> {
    // SAFETY: the operation takes one pointer; null asks for an anonymous keyring.
    let serial = unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            KEYCTL_JOIN_SESSION_KEYRING,
            ptr::null::<libc::c_char>(),
        )
    };
    if serial < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
