//! One TCP port with several listeners: selects the one that gets new connections, and passes connections between
//! processes.
//!
//! Listeners with `SO_REUSEPORT` form a group, in the order in which they began to listen. The kernel distributes
//! connections over the group, unless a program attached to it selects a listener (socket(7),
//! `SO_ATTACH_REUSEPORT_CBPF`, Linux 4.6). A descriptor is passed between processes over a Unix socket (unix(7),
//! `SCM_RIGHTS`).
//!
//! Sending never waits and never retries.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::errno;
use crate::option::{self, Name};

/// `BPF_RET | BPF_K` (linux/bpf_common.h): returns a constant.
const RETURN: u16 = 0x06;

/// Size of a control message with one descriptor, in machine words: larger than its header of 16 bytes and the descriptor
/// (cmsg(3)).
type ControlWords = [u64; 4];

/// Makes a bound socket that does not listen yet the first of a group in which every connection goes to the second one.
/// While there is no second one, it gets the connections itself: if the program selects a missing listener, the kernel
/// distributes over the existing ones (net/core/sock_reuseport.c).
///
/// # Errors
///
/// The kernel's error, if it is older than 4.6 or a sandbox forbids the call.
pub fn give_way(socket: BorrowedFd<'_>) -> io::Result<()> {
    option::write_int(socket, Name(libc::SOL_SOCKET, libc::SO_REUSEPORT), 1)?;
    let mut filter = libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: 1 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut filter };
    // SAFETY: the kernel reads the structure and the instruction that it points to, which both live until the call
    // returns.
    errno::of(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Sends a descriptor with a few bytes; the receiver gets a duplicate of it.
///
/// # Errors
///
/// `EAGAIN` if the receiver's queue is full, `ENOTSOCK` if `over` is not a Unix socket.
pub fn pass_on(over: BorrowedFd<'_>, bytes: &[u8], fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut rights: ControlWords = [0; 4];
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let message = message(&mut part, &mut rights);
    // SAFETY: `rights` is aligned for a header and has room for one with a descriptor, so that CMSG_FIRSTHDR points
    // into it, and CMSG_DATA to room for an int after it. The kernel only reads the memory of the message, which lives
    // until the call returns.
    let sent = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
        libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(fd.as_raw_fd());
        libc::sendmsg(over.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
    };
    errno::of_count(sent).map(drop)
}

/// Receives a message of [`pass_on`]: its bytes, and the descriptor if there is one. Zero bytes without a descriptor:
/// all senders have closed.
///
/// # Errors
///
/// The kernel's error untouched, `EINTR` included.
pub fn take_on(over: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut rights: ControlWords = [0; 4];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut message = message(&mut part, &mut rights);
    // SAFETY: the kernel writes only into the memory of the message, all of which is borrowed exclusively.
    let received = unsafe { libc::recvmsg(over.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    let received = errno::of_count(received)?;
    // SAFETY: the kernel has filled in the control message within `rights`, if the header indicates one; a descriptor
    // in it was made for this process alone.
    let fd = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        let is_one = !header.is_null()
            && ((*header).cmsg_level, (*header).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS)
            && (*header).cmsg_len as usize == libc::CMSG_LEN(size_of::<RawFd>() as u32) as usize;
        is_one.then(|| OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned()))
    };
    Ok((received, fd))
}

/// A message of some bytes and room for one descriptor.
fn message(part: &mut libc::iovec, rights: &mut ControlWords) -> libc::msghdr {
    // SAFETY: the structure is plain data for which zeros are valid: no name, no parts, no flags.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = part;
    message.msg_iovlen = 1;
    message.msg_control = rights.as_mut_ptr().cast();
    // SAFETY: computes a length.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<RawFd>() as u32) } as _;
    message
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_descriptor_arrives_with_its_bytes() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut passed, mut other) = UnixStream::pair().unwrap();
        pass_on(ours.as_fd(), b"so far", passed.as_fd()).unwrap();
        pass_on(ours.as_fd(), b"x", other.as_fd()).unwrap();
        let mut bytes = [0; 64];
        // One message per call, although there is room for both.
        let (read, fd) = take_on(theirs.as_fd(), &mut bytes).unwrap();
        assert_eq!(&bytes[..read], b"so far");
        let mut taken = UnixStream::from(fd.unwrap());
        taken.write_all(b"hello").unwrap();
        let mut heard = [0; 5];
        other.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"hello");
        other.write_all(b"b").unwrap();
        passed.read_exact(&mut heard[..1]).unwrap();
        assert!(matches!(take_on(theirs.as_fd(), &mut bytes).unwrap(), (1, Some(_))));
        drop(ours);
        assert!(matches!(take_on(theirs.as_fd(), &mut bytes).unwrap(), (0, None)));
        assert!(pass_on(theirs.as_fd(), b"x", taken.as_fd()).is_err());
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(pass_on(file.as_fd(), b"x", taken.as_fd()).is_err());
    }

    #[test]
    fn sending_to_a_full_queue_does_not_wait() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let full = (0..100_000).find_map(|_| pass_on(ours.as_fd(), b"x", ours.as_fd()).err());
        assert!(full.is_some());
    }
}
