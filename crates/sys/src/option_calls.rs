//! The two system calls under every socket option.
//!
//! Never interprets a value: [`crate::option`], [`crate::tcp_info`] and [`crate::socket_memory`]
//! know what they mean.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::syscall_result;

/// Where an option lives: its level and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name(pub(crate) libc::c_int, pub(crate) libc::c_int);

/// Fills the front of `value` and returns how many bytes the kernel wrote.
pub(crate) fn read_bytes(fd: BorrowedFd<'_>, name: Name, value: &mut [u8]) -> io::Result<usize> {
    let mut len = value.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes at `value`, which is borrowed exclusively,
    // and the number written to `len`.
    syscall_result::of(unsafe {
        libc::getsockopt(fd.as_raw_fd(), name.0, name.1, value.as_mut_ptr().cast(), &mut len)
    })?;
    Ok(len as usize)
}

/// Passes `value` to the kernel as it is.
pub(crate) fn write_bytes(fd: BorrowedFd<'_>, name: Name, value: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel only reads `value.len()` bytes of `value`.
    syscall_result::of(unsafe {
        libc::setsockopt(fd.as_raw_fd(), name.0, name.1, value.as_ptr().cast(), value.len() as libc::socklen_t)
    })
    .map(drop)
}

/// Reads an option that is an `int`.
pub(crate) fn read_int(fd: BorrowedFd<'_>, name: Name) -> io::Result<libc::c_int> {
    let mut value = [0u8; size_of::<libc::c_int>()];
    let len = read_bytes(fd, name, &mut value)?;
    if len == value.len() {
        Ok(libc::c_int::from_ne_bytes(value))
    } else {
        Err(io::Error::from_raw_os_error(libc::EINVAL))
    }
}

/// Writes an option that is an `int`.
pub(crate) fn write_int(fd: BorrowedFd<'_>, name: Name, value: libc::c_int) -> io::Result<()> {
    write_bytes(fd, name, &value.to_ne_bytes())
}

/// ioctl(2) with a request whose answer is an `int`, such as `FIONREAD`.
pub(crate) fn ioctl_int(fd: BorrowedFd<'_>, request: libc::Ioctl) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    // SAFETY: callers pass requests that write exactly one int, for which `value` has room.
    syscall_result::of(unsafe { libc::ioctl(fd.as_raw_fd(), request, &mut value) })?;
    Ok(value)
}
