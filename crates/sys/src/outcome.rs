//! Turns what a system call returned into a `Result`.
//!
//! Never retries: an interrupted call is reported as interrupted, since only the caller knows
//! whether the signal meant "stop".

use std::io;

/// The value of a call that returns −1 and sets `errno` on failure.
#[inline]
pub(crate) fn of(returned: libc::c_int) -> io::Result<libc::c_int> {
    if returned == -1 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

/// The byte count of a call that returns −1 and sets `errno` on failure.
#[inline]
pub(crate) fn of_count(returned: libc::ssize_t) -> io::Result<usize> {
    // Negative means failure; a count always fits usize.
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}
