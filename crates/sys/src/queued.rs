//! Receives that bring the number of bytes still queued (`TCP_INQ`, `SO_INQ`; tcp(7), recvmsg(2)).
//!
//! Never sets the option: [`crate::option`] does.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::datagram::control::{Control, first, word};
use crate::syscall_result;

/// `TCP_CM_INQ` (linux/tcp.h).
const TCP_CM_INQ: libc::c_int = 36;

/// `SCM_INQ` (asm-generic/socket.h).
const SCM_INQ: libc::c_int = 84;

/// Receives as [`crate::socket::receive`] does, and returns the number of bytes that are still queued; `None` if the kernel
/// attached none.
///
/// # Errors
///
/// As [`crate::socket::receive`].
#[inline]
pub fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Option<u32>)> {
    let mut control = Control::EMPTY;
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: a message header of zeros is one without name and buffers.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    (message.msg_control, message.msg_controllen) = (Control::raw(&raw mut control), Control::ROOM as _);
    // SAFETY: the kernel writes at most `iov_len` bytes to `buffer`, which is borrowed exclusively, and `msg_controllen` bytes
    // to `control`; all outlive the call.
    let received = syscall_result::of_count(unsafe { libc::recvmsg(fd.as_raw_fd(), &mut message, 0) })?;
    let queued = match first(control.filled(message.msg_controllen as usize)) {
        Some((libc::SOL_TCP, TCP_CM_INQ, value) | (libc::SOL_SOCKET, SCM_INQ, value)) => word(value),
        _ => None,
    };
    Ok((received, queued))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;
    use crate::option::{self, Form, KernelOption, Layer};
    use crate::tcp_pair::tcp_pair;

    #[test]
    fn the_rest_of_the_queue_is_counted() {
        let (mut client, server) = tcp_pair();
        let inq = KernelOption::new("TCP_INQ", Layer::Tcp, TCP_CM_INQ, Form::Flag, "");
        client.write_all(&[1; 100]).unwrap();
        let mut buffer = [0; 40];
        assert_eq!(receive(server.as_fd(), &mut buffer).unwrap(), (40, None), "not requested");
        option::set(server.as_fd(), &inq.to(true)).unwrap();
        assert_eq!(receive(server.as_fd(), &mut buffer).unwrap(), (40, Some(20)));
        assert_eq!(receive(server.as_fd(), &mut buffer).unwrap(), (20, Some(0)));
    }
}
