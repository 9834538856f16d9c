//! System calls of a server and its clients other than read(2) and write(2): accepting, the result of a connection
//! attempt, and waiting for one socket.
//!
//! Options such as `SO_LINGER` and `SO_REUSEPORT` are in [`crate::option`].
//! Never loops and never retries.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{self, PollFd, PollFlags};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{self, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags};

use crate::clock::timespec;

/// `ETIMEDOUT`: the error number of a connection attempt that was given up.
pub const TIMED_OUT: i32 = libc::ETIMEDOUT;

/// The event that a wait for one socket ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Bytes, the end of the stream, or a connection to accept.
    Readable,
    /// Room for bytes, or the end of a connection attempt.
    Writable,
    /// Either.
    Either,
    /// The end of the peer's stream, or of the connection: as readable, and nothing else is.
    PeerShut,
    /// A notification or an error that waits on the socket, which is reported in any case.
    Notified,
}

/// Takes the next connection (accept4(2)); it is closed on exec.
///
/// # Errors
///
/// `EAGAIN` if a listener that does not block has none; `ECONNABORTED` if the connection went away meanwhile;
/// see [`is_exhausted`] for a lack of descriptors.
pub fn accept(listener: BorrowedFd<'_>, nonblocking: bool) -> io::Result<OwnedFd> {
    let mode = if nonblocking { SocketFlags::NONBLOCK } else { SocketFlags::empty() };
    Ok(net::accept_with(listener, SocketFlags::CLOEXEC | mode)?)
}

/// Whether an error means that descriptors or memory have run out: trying again at once would only spin.
pub fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

/// The action whose error [`is_transient`] judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum During {
    /// Accepting connections, or reading from one that was just accepted: another peer may still come.
    Accept,
    /// Moving bytes or datagrams on a connected socket, or waiting for events: every error of the peer is final.
    Transfer,
    /// Receiving at a socket that any sender may use: an error of the network concerns one earlier datagram.
    Unconnected,
}

/// Whether an error only means that there is nothing to do at this moment, so that the action may be repeated.
///
/// A socket without data (`EAGAIN`, also after `SO_RCVTIMEO`) and a signal (`EINTR`) are transient in every case. accept(2) also
/// reports a connection that went away (`ECONNABORTED`), and an unconnected socket what ICMP reported of an earlier
/// datagram (udp(7)).
pub fn is_transient(error: &io::Error, during: During) -> bool {
    use io::ErrorKind::{
        ConnectionAborted, ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable, WouldBlock,
    };
    match error.kind() {
        WouldBlock | Interrupted => true,
        ConnectionAborted => during == During::Accept,
        ConnectionRefused | HostUnreachable | NetworkUnreachable => during == During::Unconnected,
        _ => false,
    }
}

/// Takes the error that waits on a socket (`SO_ERROR`), such as that of a connection attempt (connect(2)). Reading it
/// clears it.
///
/// # Errors
///
/// The error that waited; `ENOTSOCK` for a pipe or a file.
pub fn take_error(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(sockopt::socket_error(fd)??)
}

/// Sends on a connected socket (send(2)), as the socket blocks or not: the same as write(2), without its detour
/// through the file layer. `SIGPIPE` is not raised.
///
/// # Errors
///
/// The kernel's error untouched, `EINTR` and `EAGAIN` included; `ENOTSOCK` for a pipe or a file
/// ([`is_no_socket`]).
#[inline]
pub fn send(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    send_with(fd, bytes, SendFlags::empty())
}

/// Receives from a connected socket (recv(2)), as the socket blocks or not; 0 at the end of the stream.
///
/// # Errors
///
/// As [`send`].
#[inline]
pub fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    receive_with(fd, buffer, RecvFlags::empty())
}

/// Receives a datagram and returns its whole length, which may be more than was kept (recv(2), `MSG_TRUNC`).
///
/// # Errors
///
/// As [`send`].
#[inline]
pub fn receive_datagram(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    receive_with(fd, buffer, RecvFlags::TRUNC)
}

#[inline]
fn receive_with(fd: BorrowedFd<'_>, buffer: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
    Ok(net::recv(fd, buffer, flags)?.1)
}

/// Copies what a receive would bring, and leaves it there; never waits (recv(2), `MSG_PEEK`).
///
/// # Errors
///
/// `EAGAIN` if there is nothing; otherwise as [`send`].
pub fn peek(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    receive_with(fd, buffer, RecvFlags::PEEK | RecvFlags::DONTWAIT)
}

/// Whether an error means that the descriptor is no socket.
pub fn is_no_socket(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOTSOCK)
}

/// Sends without waiting, whether the socket blocks or not (`MSG_DONTWAIT`).
///
/// # Errors
///
/// `EAGAIN` if there is no room; the kernel's other errors untouched. `SIGPIPE` is not raised.
#[inline]
pub fn send_now(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    send_with(fd, bytes, SendFlags::DONTWAIT)
}

/// Sends a part of a message; the kernel may hold it until the next one if there is `more` (`MSG_MORE`). `at_once` never waits.
///
/// # Errors
///
/// As [`send`].
pub fn send_part(fd: BorrowedFd<'_>, bytes: &[u8], more: bool, at_once: bool) -> io::Result<usize> {
    send_with(fd, bytes, if more { SendFlags::MORE } else { SendFlags::empty() } | mode(at_once))
}

#[inline]
fn send_with(fd: BorrowedFd<'_>, bytes: &[u8], flags: SendFlags) -> io::Result<usize> {
    Ok(net::send(fd, bytes, flags | SendFlags::NOSIGNAL)?)
}

fn mode(at_once: bool) -> SendFlags {
    if at_once { SendFlags::DONTWAIT } else { SendFlags::empty() }
}

/// Sends from several buffers on a connected socket (sendmsg(2)), as the socket blocks or not; `at_once` never waits.
///
/// # Errors
///
/// As [`send`].
pub fn send_vectored(fd: BorrowedFd<'_>, slices: &[io::IoSlice<'_>], at_once: bool) -> io::Result<usize> {
    let flags = SendFlags::NOSIGNAL | mode(at_once);
    Ok(net::sendmsg(fd, slices, &mut SendAncillaryBuffer::default(), flags)?)
}

/// How long a blocking receive on this socket waits at most, nanoseconds (`SO_RCVTIMEO`); 0 means for ever.
/// The kernel counts in ticks (`CONFIG_HZ`), so the wait may last up to a tick longer.
///
/// # Errors
///
/// `ENOTSOCK` for a pipe or a file.
pub fn set_receive_timeout(fd: BorrowedFd<'_>, timeout_ns: u64) -> io::Result<()> {
    set_timeout(fd, Timeout::Recv, timeout_ns)
}

/// How long a blocking send waits at most before it returns what it could take (`SO_SNDTIMEO`); otherwise as
/// [`set_receive_timeout`].
///
/// # Errors
///
/// `ENOTSOCK` for a pipe or a file.
pub fn set_send_timeout(fd: BorrowedFd<'_>, timeout_ns: u64) -> io::Result<()> {
    set_timeout(fd, Timeout::Send, timeout_ns)
}

fn set_timeout(fd: BorrowedFd<'_>, which: Timeout, timeout_ns: u64) -> io::Result<()> {
    // Rounded up to the kernel's microseconds, since 0 would be none.
    let timeout = (timeout_ns > 0).then(|| Duration::from_nanos(timeout_ns));
    Ok(sockopt::set_socket_timeout(fd, which, timeout)?)
}

/// Waits until a socket is ready, for at most `timeout_ns` nanoseconds (ppoll(2)): whether a receive would not block, or else a
/// send; either may return an error. `None`: the time is over.
///
/// # Errors
///
/// `EINTR` if a signal arrived.
pub fn wait(fd: BorrowedFd<'_>, until: Until, timeout_ns: u64) -> io::Result<Option<bool>> {
    let events = match until {
        Until::Readable => PollFlags::IN,
        Until::Writable => PollFlags::OUT,
        Until::Either => PollFlags::IN | PollFlags::OUT,
        Until::PeerShut => PollFlags::RDHUP,
        Until::Notified => PollFlags::empty(),
    };
    let mut polled = [PollFd::from_borrowed_fd(fd, events)];
    let count = event::poll(&mut polled, Some(&timespec(timeout_ns)))?;
    let found = polled[0].revents();
    // An error or a hang-up makes every call return at once.
    let gone = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
    Ok((count > 0).then_some(found.intersects(gone | PollFlags::IN | PollFlags::RDHUP)))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::{clock, io as calls, option};

    #[test]
    fn an_accepted_connection_blocks_or_not_as_asked() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = accept(listener.as_fd(), true).unwrap();
        let error = calls::read(accepted.as_fd(), &mut [0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        listener.set_nonblocking(true).unwrap();
        let error = accept(listener.as_fd(), false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(!is_exhausted(&error));
        assert!(is_exhausted(&io::Error::from_raw_os_error(libc::EMFILE)));
    }

    #[test]
    fn error_is_transient_by_its_action() {
        let transient = |errno| {
            let error = io::Error::from_raw_os_error(errno);
            [During::Accept, During::Transfer, During::Unconnected].map(|during| is_transient(&error, during))
        };
        assert_eq!(transient(libc::EAGAIN), [true; 3]);
        assert_eq!(transient(libc::EINTR), [true; 3]);
        assert_eq!(transient(libc::ECONNABORTED), [true, false, false]);
        assert_eq!(transient(libc::ECONNREFUSED), [false, false, true]);
        assert_eq!(transient(libc::EHOSTUNREACH), [false, false, true]);
        assert_eq!(transient(libc::ECONNRESET), [false; 3]);
        assert_eq!(transient(libc::EMFILE), [false; 3]);
    }

    #[test]
    fn a_reset_waits_in_the_socket_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = listener.accept().unwrap().0;
        option::set(server.as_fd(), &option::LINGER.to(0)).unwrap();
        take_error(client.as_fd()).unwrap();
        drop(server);
        // It was writable before, and is readable from the reset on.
        let found = wait(client.as_fd(), Until::Readable, u64::MAX / 2).unwrap().unwrap();
        assert!(found && wait(client.as_fd(), Until::Writable, 0).unwrap().is_some());
        assert_eq!(take_error(client.as_fd()).unwrap_err().raw_os_error(), Some(libc::ECONNRESET));
        take_error(client.as_fd()).unwrap();
    }

    #[test]
    fn a_wait_ends_by_readiness_or_by_time() {
        let (left, right) = UnixStream::pair().unwrap();
        let began_ns = clock::monotonic_ns();
        assert_eq!(wait(right.as_fd(), Until::Readable, 2_000_000).unwrap(), None);
        assert!(clock::monotonic_ns() - began_ns >= 2_000_000);
        assert_eq!(wait(right.as_fd(), Until::Either, 0).unwrap(), Some(false));
        assert_eq!(send_now(left.as_fd(), b"x").unwrap(), 1);
        assert_eq!(wait(right.as_fd(), Until::Readable, u64::MAX / 2).unwrap(), Some(true));
    }

    #[test]
    fn what_was_looked_at_is_still_there() {
        let (left, right) = UnixStream::pair().unwrap();
        let mut buffer = [0; 4];
        assert_eq!(peek(right.as_fd(), &mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        send_now(left.as_fd(), b"here").unwrap();
        for look in [peek, receive] {
            assert_eq!((look(right.as_fd(), &mut buffer).unwrap(), &buffer), (4, b"here"));
            buffer.fill(0);
        }
        assert!(peek(right.as_fd(), &mut buffer).is_err());
    }

    #[test]
    fn a_blocking_call_gives_up_after_its_timeout() {
        let (_left, right) = UnixStream::pair().unwrap();
        set_receive_timeout(right.as_fd(), 1).unwrap();
        let error = calls::read(right.as_fd(), &mut [0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        set_send_timeout(right.as_fd(), 1).unwrap();
        let bytes = vec![0; 8 << 20];
        assert!(calls::write(right.as_fd(), &bytes).unwrap() < bytes.len());
        let error = calls::write(right.as_fd(), &bytes).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn several_buffers_are_sent_in_order() {
        let (left, right) = UnixStream::pair().unwrap();
        let parts = [io::IoSlice::new(b"some "), io::IoSlice::new(b""), io::IoSlice::new(b"text")];
        assert_eq!(send_vectored(left.as_fd(), &parts, false).unwrap(), 9);
        let mut buffer = [0; 16];
        assert_eq!((receive(right.as_fd(), &mut buffer).unwrap(), &buffer[..9]), (9, &b"some text"[..]));
        let much = vec![0; 1 << 20];
        while send_vectored(left.as_fd(), &[io::IoSlice::new(&much)], true).is_ok() {}
        let error = send_vectored(left.as_fd(), &parts, true).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_full_blocking_socket_refuses_at_once() {
        let (left, _right) = UnixStream::pair().unwrap();
        let bytes = vec![0; 1 << 20];
        while send_now(left.as_fd(), &bytes).is_ok() {}
        let error = send_now(left.as_fd(), &bytes).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
