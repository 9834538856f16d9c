//! Names of error numbers (errno(3)), to distinguish errors that [`std::io::ErrorKind`] does not.
//!
//! Numbers differ between architectures, so they come from libc.
//!
//! Also turns the return value of a system call into a `Result`.

pub use libc::{
    EACCES, EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT, EAGAIN, ECONNABORTED, ECONNREFUSED, ECONNRESET, EHOSTUNREACH,
    EINPROGRESS, EINVAL, EMFILE, ENETUNREACH, ENFILE, ENOBUFS, ENOENT, ENOPROTOOPT, EPIPE, ESOCKTNOSUPPORT, ESRCH,
    ETIMEDOUT,
};

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

// Turns the return value of a system call into a `Result`.
//
// Never retries: an interrupted call is reported as interrupted, since only the caller can decide whether the signal
// was a stop request.

/// The value of a call that returns −1 and sets `errno` on failure.
#[inline]
pub(crate) fn of(returned: libc::c_int) -> io::Result<libc::c_int> {
    if returned == -1 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

/// The descriptor that a call made, which returns −1 and sets `errno` on failure.
///
/// # Safety
///
/// The call made the descriptor for its caller alone.
pub(crate) unsafe fn descriptor(returned: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: the caller vouches that nothing else owns it.
    of(returned).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The byte count of a call that returns −1 and sets `errno` on failure.
#[inline]
pub(crate) fn of_count(returned: libc::ssize_t) -> io::Result<usize> {
    // Negative means failure; a count always fits usize.
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}
