//! System calls of engines without a ring: send(2) and recv(2) for sockets, write(2) and read(2) for other descriptors.
//!
//! All engines that make system calls use these, so that none differs by the kind of call: read(2) and write(2) on a socket go
//! through the file layer, which costs 2 to 4 % of a small call on loopback.

use std::io;
use std::net::Shutdown;
use std::os::fd::BorrowedFd;

use bytegauge_sys::option;
use bytegauge_sys::{io as sys_io, socket};

use crate::end_error::EndError;
use crate::tls::TlsRole;
use crate::tls::session::Session;

/// The calls of a descriptor.
#[derive(Debug)]
pub(super) enum Calls {
    /// send(2) and recv(2): nearly every descriptor is a socket, and another one fails at the first call.
    OfSockets,
    /// write(2) and read(2), of pipes and files.
    OfFiles,
    /// send(2) and recv(2) of encrypted records.
    Encrypted(Box<Session>),
}

impl Calls {
    /// Those of a new connection.
    ///
    /// # Errors
    /// [`EndError::Impossible`] if the library refuses to begin.
    pub(super) fn begin(tls: Option<TlsRole>) -> Result<Calls, EndError> {
        tls.map_or(Ok(Calls::OfSockets), |role| Ok(Calls::Encrypted(Box::new(Session::new(role)?))))
    }

    /// Whether bytes may be left that no event announces.
    #[inline]
    pub(super) fn is_tls(&self) -> bool {
        matches!(self, Calls::Encrypted(_))
    }

    /// Whether a receive returns bytes that were decrypted already.
    pub(super) fn holds_bytes(&mut self) -> bool {
        match self {
            Calls::Encrypted(session) => session.holds_bytes(),
            Calls::OfSockets | Calls::OfFiles => false,
        }
    }

    /// The number of system calls of the last send or receive beyond the first.
    #[inline]
    pub(super) fn more_calls(&mut self) -> u64 {
        match self {
            Calls::Encrypted(session) => session.more_calls(),
            Calls::OfSockets | Calls::OfFiles => 0,
        }
    }

    /// Sends, blocking or not as the descriptor.
    #[inline]
    pub(super) fn send(&mut self, fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Calls::OfSockets => match socket::send(fd, bytes) {
                Err(error) if socket::is_no_socket(&error) => *self = Calls::OfFiles,
                done => return done,
            },
            Calls::OfFiles => {}
            Calls::Encrypted(session) => return session.send(fd, bytes, false),
        }
        sys_io::write(fd, bytes)
    }

    /// Sends without waiting for room.
    pub(super) fn send_now(&mut self, fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Calls::Encrypted(session) => session.send(fd, bytes, true),
            Calls::OfSockets | Calls::OfFiles => socket::send_now(fd, bytes),
        }
    }

    /// Receives, blocking or not as the descriptor.
    #[inline]
    pub(super) fn receive(&mut self, fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Calls::OfSockets => match socket::receive(fd, buffer) {
                Err(error) if socket::is_no_socket(&error) => *self = Calls::OfFiles,
                done => return done,
            },
            Calls::OfFiles => {}
            Calls::Encrypted(session) => return session.receive(fd, buffer),
        }
        sys_io::read(fd, buffer)
    }
}

/// Ends the sending direction ([`Want::Finish`](crate::flow::Want::Finish)).
pub(super) fn finish(fd: BorrowedFd<'_>) -> io::Result<()> {
    sys_io::shutdown(fd, Shutdown::Write)
}

/// Makes the next close of a connection report a failure to its peer ([`Want::Reset`](crate::flow::Want::Reset)): with a
/// linger time of 0 seconds, closing resets a TCP connection (socket(7)). A descriptor without resets, such as a pipe, is just
/// closed.
pub(super) fn reset_when_closed(fd: BorrowedFd<'_>) {
    let _ = option::set(fd, &option::LINGER.to(0));
}
