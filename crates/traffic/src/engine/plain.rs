//! System calls of engines without a ring: send(2) and recv(2) for sockets, write(2) and read(2) for other descriptors.
//!
//! All engines that make system calls use these, so that none differs by the kind of call: read(2) and write(2) on a socket go
//! through the file layer, which costs 2 to 4 % of a small call on loopback.

use std::io;
use std::net::Shutdown;
use std::os::fd::BorrowedFd;

use bytegauge_sys::option;
use bytegauge_sys::{io as sys_io, socket};
use socket2::SockRef;

/// The calls of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Calls {
    /// send(2) and recv(2): nearly every descriptor is a socket, and another one fails at the first call.
    OfSockets,
    /// write(2) and read(2), of pipes and files.
    OfFiles,
}

impl Calls {
    /// The calls of a descriptor, by its type in the kernel.
    pub(super) fn of(fd: BorrowedFd<'_>) -> Calls {
        if SockRef::from(&fd).r#type().is_ok() { Calls::OfSockets } else { Calls::OfFiles }
    }

    /// Sends, blocking or not as the descriptor.
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

    /// Receives, blocking or not as the descriptor.
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

/// Makes the next close of a connection report a failure to its peer ([`Want::Reset`](crate::flow::Want::Reset)): with a
/// linger time of 0 seconds, closing resets a TCP connection (socket(7)). A descriptor without resets, such as a pipe, is just
/// closed.
pub(super) fn reset_when_closed(fd: BorrowedFd<'_>) {
    let _ = option::set(fd, &option::LINGER.to(0));
}
