//! Duplicates descriptors of other processes, to read a socket's kind, addresses and options without its owner
//! (pidfd_getfd(2), Linux 5.6).
//!
//! Needs permission to trace the process. Never reads from a socket or writes to it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::datagram::PeerAddress;
use crate::option::{self, Name};
use crate::{children, errno};

/// A duplicate of a process's descriptor.
///
/// # Errors
///
/// `EPERM` if the process may not be traced, `EBADF` if it has no such descriptor, `ESRCH` if it has ended, `ENOSYS` on
/// a kernel before 5.6.
pub fn descriptor(pid: u32, fd: i32) -> io::Result<OwnedFd> {
    get(children::watch(pid)?.as_fd(), fd)
}

/// A process or thread, by its number (pidfd_open(2)).
pub(crate) fn open(number: u32, flags: libc::c_uint) -> io::Result<OwnedFd> {
    // SAFETY: passes two integers and no memory, and makes a descriptor.
    unsafe {
        let made = libc::syscall(libc::SYS_pidfd_open, number as libc::pid_t, flags);
        errno::descriptor(made as libc::c_int)
    }
}

/// A duplicate of the descriptor of an opened process ([`children::watch`]).
///
/// # Errors
///
/// As [`descriptor`].
pub fn get(process: BorrowedFd<'_>, fd: i32) -> io::Result<OwnedFd> {
    // SAFETY: passes three integers and no memory, and makes a descriptor.
    unsafe {
        let made = libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0 as libc::c_uint);
        errno::descriptor(made as libc::c_int)
    }
}

/// Family and type of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketKind {
    /// `AF_UNIX`, `AF_INET`, …
    pub family: i32,
    /// `SOCK_STREAM`, `SOCK_DGRAM`, …
    pub kind: i32,
}

impl SocketKind {
    /// The name of the transport, if bytegauge has one: `tcp`, `tcp6`, `udp`, `udp6`, `unix`, `unix-dgram`, `unix-seqpacket`.
    #[must_use]
    pub fn transport(self) -> Option<&'static str> {
        Some(match (self.family, self.kind) {
            (libc::AF_INET, libc::SOCK_STREAM) => "tcp",
            (libc::AF_INET6, libc::SOCK_STREAM) => "tcp6",
            (libc::AF_INET, libc::SOCK_DGRAM) => "udp",
            (libc::AF_INET6, libc::SOCK_DGRAM) => "udp6",
            (libc::AF_UNIX, libc::SOCK_STREAM) => "unix",
            (libc::AF_UNIX, libc::SOCK_DGRAM) => "unix-dgram",
            (libc::AF_UNIX, libc::SOCK_SEQPACKET) => "unix-seqpacket",
            _ => return None,
        })
    }
}

/// Reads family and type of a socket (socket(7), `SO_DOMAIN`, `SO_TYPE`).
///
/// # Errors
///
/// `ENOTSOCK` if it is not a socket.
pub fn socket_kind(fd: BorrowedFd<'_>) -> io::Result<SocketKind> {
    let read = |number| option::read_int(fd, Name(libc::SOL_SOCKET, number));
    Ok(SocketKind { family: read(libc::SO_DOMAIN)?, kind: read(libc::SO_TYPE)? })
}

/// `SOCK_RCVBUF_LOCK` of `SO_BUF_LOCK` (linux/socket.h): the program has set the receive buffer, so it no longer grows.
const RECEIVE_BUFFER_LOCK: i32 = 2;

const BUFFER_LOCKS: Name = Name(libc::SOL_SOCKET, libc::SO_BUF_LOCK);

/// The buffers of a socket that a program has set, which no longer grow: `SOCK_SNDBUF_LOCK` and `SOCK_RCVBUF_LOCK`.
///
/// # Errors
///
/// `ENOPROTOOPT` before Linux 5.14.
pub fn buffer_locks(fd: BorrowedFd<'_>) -> io::Result<i32> {
    option::read_int(fd, BUFFER_LOCKS)
}

/// Fixes these buffers of a socket, and lets the others grow again.
///
/// # Errors
///
/// As [`buffer_locks`].
pub fn set_buffer_locks(fd: BorrowedFd<'_>, locks: i32) -> io::Result<()> {
    option::write_int(fd, BUFFER_LOCKS, locks)
}

/// Whether a program has fixed the receive buffer of a socket; false if that is unknown.
#[must_use]
pub fn has_fixed_receive_buffer(fd: BorrowedFd<'_>) -> bool {
    buffer_locks(fd).is_ok_and(|locks| locks & RECEIVE_BUFFER_LOCK != 0)
}

/// The process at the other end of a Unix socket, at the time of connecting (unix(7), `SO_PEERCRED`); `None` if it is
/// unknown.
#[must_use]
pub fn unix_peer(fd: BorrowedFd<'_>) -> Option<u32> {
    let bytes: [u8; size_of::<libc::ucred>()] =
        option::read_array(fd, Name(libc::SOL_SOCKET, libc::SO_PEERCRED)).ok()?;
    // struct ucred: the process comes first.
    let pid = i32::from_ne_bytes(*bytes.first_chunk()?);
    u32::try_from(pid).ok().filter(|pid| *pid > 0)
}

/// The local and the peer address of an internet socket; `None` for each that does not exist.
#[must_use]
pub fn addresses(fd: BorrowedFd<'_>) -> (Option<SocketAddr>, Option<SocketAddr>) {
    (address(fd, libc::getsockname), address(fd, libc::getpeername))
}

type Asks = unsafe extern "C" fn(libc::c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> libc::c_int;

fn address(fd: BorrowedFd<'_>, asks: Asks) -> Option<SocketAddr> {
    let (mut address, mut len) = (PeerAddress::NONE, PeerAddress::ROOM);
    // SAFETY: the kernel writes at most `len` bytes at the address, which has that room, and the number to `len`.
    errno::of(unsafe { asks(fd.as_raw_fd(), PeerAddress::raw(&raw mut address).cast(), &mut len) }).ok()?;
    address.set_len(len);
    address.ip()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_borrowed_socket_is_the_same_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let borrowed = descriptor(std::process::id(), client.as_raw_fd()).unwrap();
        assert_eq!(socket_kind(borrowed.as_fd()).unwrap().transport(), Some("tcp"));
        let expected = (client.local_addr().ok(), client.peer_addr().ok());
        assert_eq!(addresses(borrowed.as_fd()), expected);
        assert_eq!(addresses(listener.as_fd()), (listener.local_addr().ok(), None));
    }

    #[test]
    fn a_unix_socket_has_its_peer() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(socket_kind(one.as_fd()).unwrap().transport(), Some("unix"));
        assert_eq!(unix_peer(one.as_fd()), Some(std::process::id()));
        assert_eq!(addresses(one.as_fd()), (None, None));
    }

    #[test]
    fn missing_sockets_are_errors() {
        let error = descriptor(std::process::id(), 1 << 20).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
        let (reader, _writer) = io::pipe().unwrap();
        assert_eq!(socket_kind(reader.as_fd()).unwrap_err().raw_os_error(), Some(libc::ENOTSOCK));
    }
}
