//! One TCP port with several listeners: selects the one that gets new connections, and passes connections between
//! processes.
//!
//! Listeners with `SO_REUSEPORT` form a group, in the order in which they began to listen. The kernel distributes
//! connections over the group, unless a program attached to it selects a listener (socket(7),
//! `SO_ATTACH_REUSEPORT_CBPF`, Linux 4.6). A descriptor is passed between processes over a Unix socket (unix(7),
//! `SCM_RIGHTS`).
//!
//! Sending never waits and never retries.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg, sockopt,
};

use crate::errno;

/// `BPF_RET | BPF_K` (linux/bpf_common.h): returns a constant.
const RETURN: u16 = 0x06;

/// Bytes of a control message with one descriptor.
const ROOM: usize = cmsg_space!(ScmRights(1));

/// Makes a bound socket that does not listen yet the first of a group in which every connection goes to the second one.
/// While there is no second one, it gets the connections itself: if the program selects a missing listener, the kernel
/// distributes over the existing ones (net/core/sock_reuseport.c).
///
/// # Errors
///
/// The kernel's error, if it is older than 4.6 or a sandbox forbids the call.
pub fn give_way(socket: BorrowedFd<'_>) -> io::Result<()> {
    sockopt::set_socket_reuseport(socket, true)?;
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
    let mut space = [MaybeUninit::uninit(); ROOM];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd];
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)), "room for one descriptor");
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(over, &[IoSlice::new(bytes)], &mut control, flags)?;
    Ok(())
}

/// Receives a message of [`pass_on`]: its bytes, and the descriptor if there is one. Zero bytes without a descriptor:
/// all senders have closed.
///
/// # Errors
///
/// The kernel's error untouched, `EINTR` included.
pub fn take_on(over: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); ROOM];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(over, &mut [IoSliceMut::new(bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok((received.bytes, fd))
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
