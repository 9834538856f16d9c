//! Waits for events of descriptors (ppoll(2)).
//!
//! Never repeats an interrupted wait.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::clock::timespec;
use crate::errno;

/// A descriptor, and the events to wait for.
#[inline]
pub(crate) fn asked(fd: BorrowedFd<'_>, events: libc::c_short) -> libc::pollfd {
    libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 }
}

/// Waits until a descriptor has an event, for at most `timeout_ns` nanoseconds; without a number, until there is one. Returns how
/// many have one.
///
/// # Errors
///
/// `EINTR` if a signal arrived.
#[inline]
pub(crate) fn wait(polled: &mut [libc::pollfd], timeout_ns: Option<u64>) -> io::Result<libc::c_int> {
    let timeout = timeout_ns.map(timespec);
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the kernel reads and writes as many entries as are there, and reads a time that lives until it returns; a null mask
    // leaves the signal mask alone.
    errno::of(unsafe { libc::ppoll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout, std::ptr::null()) })
}
