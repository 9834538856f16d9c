//! Sends that ask the kernel not to copy (`MSG_ZEROCOPY`), and the notifications by which it returns their memory.
//!
//! Facts from Documentation/networking/msg_zerocopy.rst: the socket needs `SO_ZEROCOPY`. Each successful send has the next
//! number of 32 bits, from 0 on. A notification on the error queue covers a range of numbers, and shows whether the kernel
//! copied after all. It always copies over loopback (net/core/skbuff.c, `skb_orphan_frags_rx`).
//!
//! Never waits for a notification: [`crate::socket::wait`] does, which reports it as an error.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::net::{self, SendFlags};

use crate::errno;

/// `SO_EE_ORIGIN_ZEROCOPY` (linux/errqueue.h).
const ORIGIN_ZERO_COPY: u8 = 5;

/// `SO_EE_CODE_ZEROCOPY_COPIED` (linux/errqueue.h).
const CODE_COPIED: u8 = 1;

/// Words of 8 bytes for control messages: a header and `struct sock_extended_err` with an IPv6 address take 60 bytes.
const CONTROL_WORDS: usize = 16;

/// A notification: the memory of these sends is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReturnedSends {
    /// The number of the first send.
    pub first: u32,
    /// The number of the last send, which is less than that of the first where the numbers wrapped.
    pub last: u32,
    /// Whether the kernel copied them after all.
    pub copied: bool,
}

impl ReturnedSends {
    /// Sends that it covers.
    pub fn count(&self) -> u64 {
        u64::from(self.last.wrapping_sub(self.first)) + 1
    }
}

/// Sends on a connected socket with `MSG_ZEROCOPY`, as the socket blocks or not. The memory must not change before a
/// [`ReturnedSends`] covers the send.
///
/// # Errors
///
/// As [`crate::socket::send`]; `ENOBUFS` if too many notifications wait (`net.core.optmem_max`), or too much memory is locked:
/// it can be repeated when some were taken.
#[inline]
pub fn send(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // Memory that changes changes what is sent, also that of a later owner (`AlignedBuffer::abandon`).
    let flags = SendFlags::NOSIGNAL | SendFlags::from_bits_retain(libc::MSG_ZEROCOPY as u32);
    Ok(net::send(fd, bytes, flags)?)
}

/// Takes the next notification from the error queue; `None` if there is none.
///
/// # Errors
///
/// The kernel's errors untouched.
pub fn completion(fd: BorrowedFd<'_>) -> io::Result<Option<ReturnedSends>> {
    let mut control = [0u64; CONTROL_WORDS];
    // SAFETY: a message header of zeros is one without name and buffers.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the kernel writes at most `msg_controllen` bytes to `control`, which outlives the call.
    let received = unsafe { libc::recvmsg(fd.as_raw_fd(), &mut message, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
    match errno::of_count(received) {
        Ok(_) => Ok(found(&message)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

fn found(message: &libc::msghdr) -> Option<ReturnedSends> {
    // SAFETY: the kernel filled the control messages within `msg_controllen`, and the macros stay within it.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            let kind = ((*header).cmsg_level, (*header).cmsg_type);
            if matches!(kind, (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)) {
                let error = std::ptr::read_unaligned(libc::CMSG_DATA(header).cast::<libc::sock_extended_err>());
                if error.ee_errno == 0 && error.ee_origin == ORIGIN_ZERO_COPY {
                    return Some(ReturnedSends {
                        first: error.ee_info,
                        last: error.ee_data,
                        copied: error.ee_code & CODE_COPIED != 0,
                    });
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;

    use super::*;
    use crate::buffer::AlignedBuffer;
    use crate::option::{self, KernelOption};
    use crate::socket::{self, Until};
    use crate::tests::tcp_pair;

    #[test]
    fn each_send_is_completed_once() {
        let (client, server) = tcp_pair();
        let zero_copy =
            KernelOption { name: "SO_ZEROCOPY", place: (libc::SOL_SOCKET, libc::SO_ZEROCOPY), ..option::NO_DELAY };
        option::set(client.as_fd(), &zero_copy.to(true)).unwrap();
        assert_eq!(completion(client.as_fd()).unwrap(), None);
        let bytes = vec![7u8; 4096];
        let mut completed = 0;
        for number in 0..3u64 {
            assert_eq!(send(client.as_fd(), &bytes).unwrap(), bytes.len());
            let mut received = vec![0u8; bytes.len()];
            (&server).read_exact(&mut received).unwrap();
            assert_eq!(received, bytes);
            while completed <= number {
                match completion(client.as_fd()).unwrap() {
                    Some(found) => {
                        assert_eq!(u64::from(found.first), completed);
                        completed += found.count();
                    }
                    None => drop(socket::wait(client.as_fd(), Until::Notified, 1_000_000_000)),
                }
            }
        }
        assert_eq!(completed, 3);
    }

    #[test]
    fn abandoned_memory_keeps_what_is_sent() {
        const BYTES: usize = 1 << 16;
        let (client, mut server) = tcp_pair();
        let zero_copy =
            KernelOption { name: "SO_ZEROCOPY", place: (libc::SOL_SOCKET, libc::SO_ZEROCOPY), ..option::NO_DELAY };
        option::set(client.as_fd(), &zero_copy.to(true)).unwrap();
        client.set_nonblocking(true).unwrap();
        let filled = |byte| {
            let mut buffer = AlignedBuffer::new(BYTES);
            buffer.fill(byte);
            buffer
        };
        // Until the socket is full: bytes for which the other end has no room are still in this memory.
        let mut sent = Vec::new();
        let held: Vec<AlignedBuffer> = (0..1000)
            .map_while(|_| {
                let buffer = filled(7);
                sent.push(send(client.as_fd(), &buffer).ok()?);
                Some(buffer)
            })
            .collect();
        assert!(held.len() < 1000, "the socket takes everything");
        let count = held.len();
        held.into_iter().for_each(AlignedBuffer::abandon);
        let others: Vec<AlignedBuffer> = (0..count).map(|_| filled(9)).collect();
        let mut received = vec![0; sent.iter().sum()];
        server.read_exact(&mut received).unwrap();
        assert_eq!(received.iter().position(|byte| *byte != 7), None);
        drop(others);
    }

    #[test]
    fn a_range_may_wrap() {
        let count = |first, last| ReturnedSends { first, last, copied: false }.count();
        assert_eq!([count(0, 0), count(3, 7), count(u32::MAX, 0)], [1, 5, 2]);
    }
}
