//! Duplicates descriptors of other processes, to read a socket's kind, addresses and options without its owner
//! (pidfd_getfd(2), Linux 5.6).
//!
//! Needs permission to trace the process. Never reads from a socket or writes to it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrAny, SocketType, sockopt};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::children;
use crate::option;

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
pub(crate) fn open(number: u32, flags: PidfdFlags) -> io::Result<OwnedFd> {
    Ok(pidfd_open(Pid::from_raw(number as i32).ok_or(Errno::SRCH)?, flags)?)
}

/// A duplicate of the descriptor of an opened process ([`children::watch`]).
///
/// # Errors
///
/// As [`descriptor`].
pub fn get(process: BorrowedFd<'_>, fd: i32) -> io::Result<OwnedFd> {
    Ok(pidfd_getfd(process, fd, PidfdGetfdFlags::empty())?)
}

/// The transport of a socket, if bytegauge has one: `tcp`, `tcp6`, `udp`, `udp6`, `unix`, `unix-dgram`, `unix-seqpacket`; `None` also
/// for what is no socket.
pub fn transport_of(fd: BorrowedFd<'_>) -> Option<&'static str> {
    let (family, kind) = (sockopt::socket_domain(fd).ok()?, sockopt::socket_type(fd).ok()?);
    Some(match (family, kind) {
        (AddressFamily::INET, SocketType::STREAM) => "tcp",
        (AddressFamily::INET6, SocketType::STREAM) => "tcp6",
        (AddressFamily::INET, SocketType::DGRAM) => "udp",
        (AddressFamily::INET6, SocketType::DGRAM) => "udp6",
        (AddressFamily::UNIX, SocketType::STREAM) => "unix",
        (AddressFamily::UNIX, SocketType::DGRAM) => "unix-dgram",
        (AddressFamily::UNIX, SocketType::SEQPACKET) => "unix-seqpacket",
        _ => return None,
    })
}

/// `SOCK_RCVBUF_LOCK` of `SO_BUF_LOCK` (linux/socket.h): the program has set the receive buffer, so it no longer grows.
const RECEIVE_BUFFER_LOCK: i32 = 2;

const BUFFER_LOCKS: option::Place = (libc::SOL_SOCKET, libc::SO_BUF_LOCK);

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
pub fn has_fixed_receive_buffer(fd: BorrowedFd<'_>) -> bool {
    buffer_locks(fd).is_ok_and(|locks| locks & RECEIVE_BUFFER_LOCK != 0)
}

/// The process at the other end of a Unix socket, at the time of connecting (unix(7), `SO_PEERCRED`); `None` if it is
/// unknown.
pub fn unix_peer(fd: BorrowedFd<'_>) -> Option<u32> {
    let bytes: [u8; size_of::<libc::ucred>()] = option::read_array(fd, (libc::SOL_SOCKET, libc::SO_PEERCRED)).ok()?;
    // struct ucred: the process comes first.
    let pid = i32::from_ne_bytes(*bytes.first_chunk()?);
    u32::try_from(pid).ok().filter(|pid| *pid > 0)
}

/// The local and the peer address of an internet socket; `None` for each that does not exist.
pub fn addresses(fd: BorrowedFd<'_>) -> (Option<SocketAddr>, Option<SocketAddr>) {
    let ip = |address: SocketAddrAny| address.try_into().ok();
    (net::getsockname(fd).ok().and_then(ip), net::getpeername(fd).ok().flatten().and_then(ip))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_borrowed_socket_is_the_same_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let borrowed = descriptor(std::process::id(), client.as_raw_fd()).unwrap();
        assert_eq!(transport_of(borrowed.as_fd()), Some("tcp"));
        let expected = (client.local_addr().ok(), client.peer_addr().ok());
        assert_eq!(addresses(borrowed.as_fd()), expected);
        assert_eq!(addresses(listener.as_fd()), (listener.local_addr().ok(), None));
    }

    #[test]
    fn a_unix_socket_has_its_peer() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(transport_of(one.as_fd()), Some("unix"));
        assert_eq!(unix_peer(one.as_fd()), Some(std::process::id()));
        assert_eq!(addresses(one.as_fd()), (None, None));
    }

    #[test]
    fn missing_sockets_are_errors() {
        let error = descriptor(std::process::id(), 1 << 20).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
        let (reader, _writer) = io::pipe().unwrap();
        assert_eq!(transport_of(reader.as_fd()), None);
    }
}
