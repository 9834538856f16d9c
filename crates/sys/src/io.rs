//! The system calls of a measured loop, as rustix makes them: without the C library. In a process with several threads, glibc's own
//! functions execute two more locked instructions in each call that pthread_cancel(3) may end (`__pthread_enable_asynccancel`,
//! nptl/cancellation.c): 3 % of a read of 64 B.
//!
//! They differ from `std::io` on purpose. An interrupted call is returned as interrupted: the watchdog uses this to end
//! a stalled trial ([`crate::interrupt`]). A short count is returned as a short count: a meter adds the bytes that
//! moved.
//!
//! Never loops, never allocates, never copies.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::Shutdown;
use std::os::fd::BorrowedFd;

use rustix::net;

/// read(2): returns the number of bytes read into `buffer`, 0 at the end of the stream.
///
/// # Errors
///
/// The kernel's error untouched, `EINTR` and `EAGAIN` included.
#[inline]
pub fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::read(fd, buffer)?)
}

/// write(2): returns the number of bytes taken from `bytes`, possibly fewer than all.
///
/// On a socket whose peer has closed, this raises `SIGPIPE` as well. Rust's runtime ignores that signal before `main`,
/// so the error is returned.
///
/// # Errors
///
/// The kernel's error untouched, `EINTR` and `EAGAIN` included.
#[inline]
pub fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::io::write(fd, bytes)?)
}

/// readv(2): like [`read`], into several buffers.
///
/// # Errors
///
/// The kernel's error untouched, `EINTR` and `EAGAIN` included.
#[inline]
pub fn read_vectored(fd: BorrowedFd<'_>, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    Ok(rustix::io::readv(fd, buffers)?)
}

/// writev(2): like [`write()`], from several buffers.
///
/// # Errors
///
/// The kernel's error untouched, `EINTR` and `EAGAIN` included.
#[inline]
pub fn write_vectored(fd: BorrowedFd<'_>, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
    Ok(rustix::io::writev(fd, buffers)?)
}

/// The most buffers of one vectored call (`UIO_MAXIOV`, include/uapi/linux/uio.h).
pub(crate) const IOV_MAX: usize = 1024;

/// shutdown(2): ends one or both directions of a connected socket; the descriptor stays open.
///
/// # Errors
///
/// `ENOTCONN` if the peer has already reset the connection, `ENOTSOCK` for a pipe or a file.
pub fn shutdown(fd: BorrowedFd<'_>, how: Shutdown) -> io::Result<()> {
    let how = match how {
        Shutdown::Read => net::Shutdown::Read,
        Shutdown::Write => net::Shutdown::Write,
        Shutdown::Both => net::Shutdown::Both,
    };
    Ok(net::shutdown(fd, how)?)
}

/// Sets or clears `O_NONBLOCK`.
///
/// The flag belongs to the open file description (fcntl(2)), so it changes for every duplicate of the descriptor, in
/// other processes too.
///
/// # Errors
///
/// Any error of ioctl(2) with `FIONBIO`; none is expected for an open descriptor.
pub fn set_nonblocking(fd: BorrowedFd<'_>, nonblocking: bool) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(fd, nonblocking)?)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn bytes_cross_a_socket_until_zero() {
        let (left, right) = UnixStream::pair().unwrap();
        assert_eq!(write(left.as_fd(), b"hello").unwrap(), 5);
        shutdown(left.as_fd(), Shutdown::Write).unwrap();
        let mut buffer = [0u8; 16];
        assert_eq!(read(right.as_fd(), &mut buffer).unwrap(), 5);
        assert_eq!(&buffer[..5], b"hello");
        assert_eq!(read(right.as_fd(), &mut buffer).unwrap(), 0);
    }

    #[test]
    fn several_buffers_are_filled_and_emptied_in_order() {
        let (left, right) = UnixStream::pair().unwrap();
        let parts = [IoSlice::new(b"in "), IoSlice::new(b""), IoSlice::new(b"order")];
        assert_eq!(write_vectored(left.as_fd(), &parts).unwrap(), 8);
        let (mut first, mut second) = ([0; 2], [0; 16]);
        let mut room = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        assert_eq!(read_vectored(right.as_fd(), &mut room).unwrap(), 8);
        assert_eq!((&first[..], &second[..6]), (&b"in"[..], &b" order"[..]));
    }

    #[test]
    fn a_full_socket_takes_a_part_then_refuses() {
        let (left, _right) = UnixStream::pair().unwrap();
        set_nonblocking(left.as_fd(), true).unwrap();
        let bytes = vec![7u8; 8 << 20];
        let taken = write(left.as_fd(), &bytes).unwrap();
        assert!(taken > 0 && taken < bytes.len());
        loop {
            match write(left.as_fd(), &bytes) {
                Ok(_) => {}
                Err(error) => break assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
    }

    #[test]
    fn blocking_can_be_turned_off_and_on() {
        let (left, right) = UnixStream::pair().unwrap();
        set_nonblocking(right.as_fd(), true).unwrap();
        let mut buffer = [0u8; 1];
        let error = read(right.as_fd(), &mut buffer).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        set_nonblocking(right.as_fd(), false).unwrap();
        write(left.as_fd(), b"x").unwrap();
        assert_eq!(read(right.as_fd(), &mut buffer).unwrap(), 1);
    }

    #[test]
    fn a_pipe_cannot_be_shut_down() {
        let (reader, _writer) = io::pipe().unwrap();
        let error = shutdown(reader.as_fd(), Shutdown::Read).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTSOCK));
    }
}
