//! How much a socket holds or had no room for, in the kernel's own accounting.
//!
//! The kernel charges whole structures (`truesize`), so memory never shows the payload.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::datagram::slots::{Control, first, word};
use crate::errno;
use crate::option;

/// Packets that a socket dropped for lack of room (`SK_MEMINFO_DROPS` of `SO_MEMINFO`, include/uapi/linux/sock_diag.h; Linux 4.12): of
/// UDP, datagrams lost at this socket; of a TCP listener, connections that it did not take, most of them since its queue was full
/// (`tcp_listendrop`, include/net/tcp.h).
///
/// # Errors
///
/// `ENOPROTOOPT` on an older kernel, `ENOTSOCK` for a pipe or a file.
pub fn drops(fd: BorrowedFd<'_>) -> io::Result<u64> {
    // The last of nine numbers.
    let [.., a, b, c, d]: [u8; 9 * size_of::<u32>()] = option::read_array(fd, (libc::SOL_SOCKET, libc::SO_MEMINFO))?;
    Ok(u32::from_ne_bytes([a, b, c, d]).into())
}

/// Bytes that were written and are not done with (`SIOCOUTQ`): of TCP, payload that the peer has
/// not acknowledged (tcp(7)); of UDP and Unix sockets, memory that the receiver has not freed,
/// overhead included (unix(7)).
///
/// # Errors
///
/// `ENOTTY` for a pipe or a file, `EINVAL` for a listening TCP socket.
pub fn queued_out(fd: BorrowedFd<'_>) -> io::Result<usize> {
    // SIOCOUTQ is another name for TIOCOUTQ (include/uapi/linux/sockios.h).
    let mut bytes: libc::c_int = 0;
    // SAFETY: the request writes exactly one int, for which `bytes` has room.
    errno::of(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &mut bytes) })?;
    Ok(bytes as usize)
}

// Receives that bring the number of bytes still queued (`TCP_INQ`, `SO_INQ`; tcp(7), recvmsg(2)).
//
// Never sets the option: [`crate::option`] does.

/// `TCP_CM_INQ` (linux/tcp.h).
const TCP_CM_INQ: libc::c_int = 36;

/// `SCM_INQ` (asm-generic/socket.h).
const SCM_INQ: libc::c_int = 84;

/// Receives as [`crate::socket::receive`] does, and returns the number of bytes that are still queued; `None` if the kernel
/// attached none.
///
/// # Errors
///
/// As [`crate::socket::receive`].
#[inline]
pub fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Option<u32>)> {
    let mut control = Control::EMPTY;
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: a message header of zeros is one without name and buffers.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    (message.msg_control, message.msg_controllen) = (Control::raw(&raw mut control), Control::ROOM as _);
    // SAFETY: the kernel writes at most `iov_len` bytes to `buffer`, which is borrowed exclusively, and `msg_controllen` bytes
    // to `control`; all outlive the call.
    let received = errno::of_count(unsafe { libc::recvmsg(fd.as_raw_fd(), &mut message, 0) })?;
    let queued = match first(control.filled(message.msg_controllen as usize)) {
        Some((libc::SOL_TCP, TCP_CM_INQ, value) | (libc::SOL_SOCKET, SCM_INQ, value)) => word(value),
        _ => None,
    };
    Ok((received, queued))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::{AsFd, AsRawFd};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::tests::eventually;
    use crate::{io as calls, option, pipe};

    #[test]
    fn acknowledged_tcp_bytes_are_done_with() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_server, _) = listener.accept().unwrap();
        calls::write(client.as_fd(), &[1; 1000]).unwrap();
        // Acknowledged by the kernel, not by the reader.
        while queued_out(client.as_fd()).unwrap() > 0 {
            std::thread::yield_now();
        }
        assert!(queued_out(listener.as_fd()).is_err());
    }

    #[test]
    fn a_listener_counts_connections_without_room() {
        let drops = |listener: &TcpListener| drops(listener.as_fd()).unwrap();
        let [full, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        // SAFETY: listen(2) takes an open socket and a number; on a socket that listens it changes the backlog.
        assert_eq!(unsafe { libc::listen(full.as_raw_fd(), 0) }, 0);
        let address = full.local_addr().unwrap();
        let mut callers = Vec::new();
        for _ in 0..1000 {
            callers.push(TcpStream::connect_timeout(&address, std::time::Duration::from_millis(5)));
            if drops(&full) > 2 {
                break;
            }
        }
        assert!(drops(&full) > 2 && drops(&other) == 0, "{} of {}", drops(&full), callers.len());
    }

    #[test]
    fn a_unix_writer_is_charged_until_the_read() {
        let (left, right) = UnixStream::pair().unwrap();
        calls::write(left.as_fd(), &[1; 1000]).unwrap();
        assert!(queued_out(left.as_fd()).unwrap() >= 1000);
        calls::read(right.as_fd(), &mut [0; 1000]).unwrap();
        assert_eq!(queued_out(left.as_fd()).unwrap(), 0);
    }

    #[test]
    fn udp_counts_what_it_had_no_room_for() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        option::set(receiver.as_fd(), &option::RECEIVE_BUFFER.to(4096)).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = receiver.local_addr().unwrap();
        eventually("a datagram finds no room", || {
            sender.send_to(&[1; 1000], to).unwrap();
            drops(receiver.as_fd()).unwrap() > 0
        });
    }

    #[test]
    fn a_pipe_has_no_socket_memory() {
        let (reader, writer) = pipe::anonymous().unwrap();
        calls::write(writer.as_fd(), b"123").unwrap();
        assert!(queued_out(writer.as_fd()).is_err());
        assert!(drops(reader.as_fd()).is_err());
    }
}

#[cfg(test)]
mod queued_tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;
    use crate::option::{self, KernelOption};
    use crate::tests::tcp_pair;

    #[test]
    fn the_rest_of_the_queue_is_counted() {
        let (mut client, server) = tcp_pair();
        let inq = KernelOption { name: "TCP_INQ", place: (libc::IPPROTO_TCP, TCP_CM_INQ), ..option::NO_DELAY };
        client.write_all(&[1; 100]).unwrap();
        let mut buffer = [0; 40];
        assert_eq!(receive(server.as_fd(), &mut buffer).unwrap(), (40, None), "not requested");
        option::set(server.as_fd(), &inq.to(true)).unwrap();
        assert_eq!(receive(server.as_fd(), &mut buffer).unwrap(), (40, Some(20)));
        assert_eq!(receive(server.as_fd(), &mut buffer).unwrap(), (20, Some(0)));
    }
}
