//! Moving bytes between descriptors without a buffer of the program: splice(2), and sendfile(2) into a pipe.
//!
//! One of two descriptors of splice(2) must be a pipe: between two sockets the kernel answers `EINVAL`
//! (fs/splice.c, `do_splice`), and so it does for sendfile(2) unless its target is a pipe or its source a file
//! (fs/read_write.c, `do_sendfile`; fs/splice.c, `splice_direct_to_actor`). So bytes go from a socket into a pipe and
//! from there into the other socket: pages change hands twice, and are copied only where they arrive.
//!
//! Never loops and never retries: counts and errors are the kernel's.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::syscall_result;

/// Moves at most `most` bytes from one descriptor to another, of which at least one is a pipe; 0 at the end of the
/// stream. Blocks as the sockets do, and for a pipe that is full or empty unless that one does not block.
/// `more` announces that more follows at once (`SPLICE_F_MORE`, which a socket treats as `MSG_MORE`).
///
/// # Errors
///
/// `EINVAL` if neither is a pipe, or one cannot be spliced; otherwise the kernel's error untouched, `EINTR` and
/// `EAGAIN` included. A socket whose peer is gone raises `SIGPIPE`, which Rust's runtime ignores.
#[inline]
pub fn splice(from: BorrowedFd<'_>, to: BorrowedFd<'_>, most: usize, more: bool) -> io::Result<usize> {
    let flags = if more { libc::SPLICE_F_MORE } else { 0 };
    // SAFETY: both descriptors are open for as long as they are borrowed, and null offsets are allowed (splice(2)).
    syscall_result::of_syscall(unsafe {
        let nowhere = std::ptr::null_mut::<libc::loff_t>();
        libc::syscall(libc::SYS_splice, from.as_raw_fd(), nowhere, to.as_raw_fd(), nowhere, most, flags)
    })
}

/// Moves at most `most` bytes from a socket into a pipe by sendfile(2), which has no further use between sockets; 0 at
/// the end of the stream.
///
/// # Errors
///
/// As [`splice`].
#[inline]
pub fn sendfile(from: BorrowedFd<'_>, to: BorrowedFd<'_>, most: usize) -> io::Result<usize> {
    // SAFETY: both descriptors are open for as long as they are borrowed; without an offset no memory is passed.
    syscall_result::of_count(unsafe { libc::sendfile(to.as_raw_fd(), from.as_raw_fd(), std::ptr::null_mut(), most) })
}

/// Sends at most `most` bytes of a file, from a position on, to a socket or a pipe by sendfile(2), without a copy in the program;
/// 0 at the end of the file. The position of the descriptor stays.
///
/// # Errors
///
/// As [`splice`]; `EINVAL` for a source that cannot be mapped.
#[inline]
pub fn send_file(from: BorrowedFd<'_>, at: u64, to: BorrowedFd<'_>, most: usize) -> io::Result<usize> {
    let mut at = libc::off_t::try_from(at).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: both descriptors are open for as long as they are borrowed, and the kernel writes the new position into `at`.
    syscall_result::of_count(unsafe { libc::sendfile(to.as_raw_fd(), from.as_raw_fd(), &mut at, most) })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::os::fd::AsFd;

    use super::*;
    use crate::pipe;
    use crate::tcp_pair::tcp_pair;

    fn check(fill: impl Fn(BorrowedFd<'_>, BorrowedFd<'_>) -> io::Result<usize>) {
        let ((mut source, front), (back, mut sink)) = (tcp_pair(), tcp_pair());
        let (reader, writer) = pipe::anonymous().unwrap();
        source.write_all(b"through a pipe").unwrap();
        assert_eq!(fill(front.as_fd(), writer.as_fd()).unwrap(), 14);
        assert_eq!(splice(reader.as_fd(), back.as_fd(), 9, true).unwrap(), 9);
        assert_eq!(splice(reader.as_fd(), back.as_fd(), 100, false).unwrap(), 5);
        let mut found = [0; 14];
        sink.read_exact(&mut found).unwrap();
        assert_eq!(&found, b"through a pipe");
        source.shutdown(Shutdown::Write).unwrap();
        assert_eq!(fill(front.as_fd(), writer.as_fd()).unwrap(), 0, "the end of the stream");
    }

    #[test]
    fn bytes_pass_between_sockets_through_a_pipe() {
        check(|from, to| splice(from, to, 1 << 16, false));
        check(|from, to| sendfile(from, to, 1 << 16));
    }

    #[test]
    fn a_part_of_a_file_is_sent() {
        let file = crate::file::in_memory(c"sent").unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"0123456789", 0).unwrap();
        let (front, mut back) = tcp_pair();
        assert_eq!(send_file(file.as_fd(), 2, front.as_fd(), 5).unwrap(), 5);
        assert_eq!(send_file(file.as_fd(), 8, front.as_fd(), 5).unwrap(), 2, "the end of the file");
        let mut found = [0; 7];
        back.read_exact(&mut found).unwrap();
        assert_eq!(&found, b"2345689");
    }

    #[test]
    fn without_a_pipe_the_kernel_refuses() {
        let ((mut source, front), (back, _sink)) = (tcp_pair(), tcp_pair());
        source.write_all(b"x").unwrap();
        for refused in [splice(front.as_fd(), back.as_fd(), 1, false), sendfile(front.as_fd(), back.as_fd(), 1)] {
            assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EINVAL));
        }
    }
}
