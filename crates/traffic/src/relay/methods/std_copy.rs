//! `std::io::copy`, as a program would write it.
//!
//! On Linux it is specialised: copy_file_range(2) between files, sendfile(2) from a file, splice(2) where one side is a
//! pipe. Between two sockets none of these apply, and it is a loop of recv(2) and send(2) with a buffer of 8 KiB on the
//! stack (library/std/src/sys/io/kernel_copy, `Copier::copy`; library/std/src/io/copy.rs, `generic_copy`). A wrapper that
//! counted what passes would be another type, for which nothing is specialised: so nothing is counted before the end.

use std::io;
use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;

use socket2::{Domain, SockRef};

use crate::relay::threads::ThreadWay;

/// One direction.
pub(in crate::relay) fn copy(way: &mut ThreadWay<'_>) -> io::Result<()> {
    let copied = if is_unix(way.from())? {
        io::copy(&mut UnixStream::from(own(way.from())?), &mut UnixStream::from(own(way.to())?))
    } else {
        io::copy(&mut TcpStream::from(own(way.from())?), &mut TcpStream::from(own(way.to())?))
    }?;
    (way.passed.taken, way.passed.given) = (copied, copied);
    Ok(())
}

fn is_unix(fd: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(SockRef::from(&fd).domain()? == Domain::UNIX)
}

/// A descriptor of its own for the type that the standard library has for it.
fn own(fd: BorrowedFd<'_>) -> io::Result<std::os::fd::OwnedFd> {
    fd.try_clone_to_owned()
}
