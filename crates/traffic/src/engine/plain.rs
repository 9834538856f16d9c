//! What engines without a ring do to a descriptor: send(2) and recv(2) for sockets, write(2) and read(2) for the rest.
//!
//! All engines that make calls of their own make these, so that no two of them differ by the flavour of a call:
//! read(2) and write(2) take a detour through the file layer, which is 2 to 4 % of a small call on loopback.

use std::io;
use std::net::Shutdown;
use std::os::fd::BorrowedFd;

use bytegauge_sys::option;
use bytegauge_sys::{io as sys_io, socket};
use socket2::SockRef;

/// Which calls a descriptor takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Calls {
    /// send(2) and recv(2): nearly every descriptor is a socket, and one that is not says so at the first call.
    OfSockets,
    /// write(2) and read(2), of pipes and files.
    OfFiles,
}

impl Calls {
    /// Those of a descriptor, asked of the kernel.
    pub(super) fn of(fd: BorrowedFd<'_>) -> Calls {
        if SockRef::from(&fd).r#type().is_ok() { Calls::OfSockets } else { Calls::OfFiles }
    }

    /// Sends, as the descriptor blocks or not.
    #[inline]
    pub(super) fn send(&mut self, fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
        if *self == Calls::OfSockets {
            match socket::send(fd, bytes) {
                Err(error) if socket::is_no_socket(&error) => *self = Calls::OfFiles,
                done => return done,
            }
        }
        sys_io::write(fd, bytes)
    }

    /// Receives, as the descriptor blocks or not.
    #[inline]
    pub(super) fn receive(&mut self, fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
        if *self == Calls::OfSockets {
            match socket::receive(fd, buffer) {
                Err(error) if socket::is_no_socket(&error) => *self = Calls::OfFiles,
                done => return done,
            }
        }
        sys_io::read(fd, buffer)
    }
}

/// Ends the sending direction ([`Want::Finish`](crate::flow::Want::Finish)).
pub(super) fn finish(fd: BorrowedFd<'_>) -> io::Result<()> {
    sys_io::shutdown(fd, Shutdown::Write)
}

/// Makes the next close of a connection tell its peer of a failure ([`Want::Reset`](crate::flow::Want::Reset)): to
/// linger for 0 seconds resets a TCP connection (socket(7)). What knows no resets, as a pipe does, is just closed.
pub(super) fn reset_when_closed(fd: BorrowedFd<'_>) {
    let _ = option::set(fd, &option::LINGER.to(0));
}
