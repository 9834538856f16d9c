//! Pipes, named and anonymous, and their capacity.
//!
//! A pipe's capacity counts *slots* of one page each, not bytes: a slot with a short write or a spliced fragment is as
//! full as one with 4096 bytes (pipe(7)). So the sizes here are upper bounds.
//!
//! Never opens a named pipe: opening one end blocks until the other end is opened, which the caller must arrange with
//! two threads.

pub use libc::O_NONBLOCK;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self, Mode};
use rustix::io::Errno;
use rustix::pipe::{self, SpliceFlags};

/// An anonymous pipe as (read end, write end), closed on exec.
///
/// # Errors
///
/// `EMFILE` or `ENFILE` when descriptors run out: see [`crate::resource_limit::raise_open_files`].
pub fn anonymous() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = io::pipe()?;
    Ok((reader.into(), writer.into()))
}

/// Creates a named pipe that only its owner may open (mkfifo(3), mode 0600).
///
/// # Errors
///
/// `AlreadyExists` if the path is taken, `EPERM` on a file system without special files, or
/// `InvalidInput` for a path with a NUL byte.
pub fn make_fifo(path: &Path) -> io::Result<()> {
    Ok(fs::mkfifoat(fs::CWD, path, Mode::RUSR | Mode::WUSR)?)
}

/// Requests a capacity and returns the effective one, in bytes.
///
/// The kernel rounds up to a power of two of pages (fs/pipe.c, `round_pipe_size`).
///
/// # Errors
///
/// `EPERM` above `fs.pipe-max-size` without `CAP_SYS_RESOURCE`, or when the user's pipes together
/// exceed `fs.pipe-user-pages-soft`; `EBUSY` if the pipe holds more than the new capacity;
/// `EBADF` if the descriptor is not a pipe (fcntl(2), `F_SETPIPE_SZ`).
pub fn set_pipe_size(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<usize> {
    pipe::fcntl_setpipe_size(fd, bytes).map_err(|error| match error {
        Errno::PERM => io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "a pipe of {bytes} bytes is over this user's limit: ask for at most \
                 fs.pipe-max-size, close other pipes, or raise the sysctl"
            ),
        ),
        other => other.into(),
    })
}

/// The capacity in bytes: 65,536 unless changed (pipe(7)).
///
/// # Errors
///
/// `EBADF` if the descriptor is not a pipe.
pub fn pipe_size(fd: BorrowedFd<'_>) -> io::Result<usize> {
    Ok(pipe::fcntl_getpipe_size(fd)?)
}

// Moving bytes between descriptors without a buffer of the program: splice(2), and sendfile(2) into a pipe.
//
// One of two descriptors of splice(2) must be a pipe: between two sockets the kernel answers `EINVAL`
// (fs/splice.c, `do_splice`), and so it does for sendfile(2) unless its target is a pipe or its source a file
// (fs/read_write.c, `do_sendfile`; fs/splice.c, `splice_direct_to_actor`). So bytes go from a socket into a pipe and
// from there into the other socket: pages change hands twice, and are copied only where they arrive.
//
// Never loops and never retries: counts and errors are the kernel's.

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
    let flags = if more { SpliceFlags::MORE } else { SpliceFlags::empty() };
    Ok(pipe::splice(from, None, to, None, most, flags)?)
}

/// Moves at most `most` bytes from a socket into a pipe by sendfile(2), which has no further use between sockets; 0 at
/// the end of the stream.
///
/// # Errors
///
/// As [`splice`].
#[inline]
pub fn sendfile(from: BorrowedFd<'_>, to: BorrowedFd<'_>, most: usize) -> io::Result<usize> {
    Ok(fs::sendfile(to, from, None, most)?)
}

/// Sends at most `most` bytes of a file, from a position on, to a socket or a pipe by sendfile(2), without a copy in the program;
/// 0 at the end of the file. The position of the descriptor stays.
///
/// # Errors
///
/// As [`splice`]; `EINVAL` for a source that cannot be mapped.
#[inline]
pub fn send_file(from: BorrowedFd<'_>, at: u64, to: BorrowedFd<'_>, most: usize) -> io::Result<usize> {
    Ok(fs::sendfile(to, from, Some(&mut { at }), most)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};

    use super::*;
    use crate::tests::Scratch;

    fn check_size(asked: usize, effective: usize) {
        let (reader, writer) = anonymous().unwrap();
        assert_eq!(set_pipe_size(writer.as_fd(), asked).unwrap(), effective);
        assert_eq!(pipe_size(reader.as_fd()).unwrap(), effective);
    }

    #[test]
    fn sizes_are_powers_of_two_pages() {
        let page = 4096.max(rustix::param::page_size());
        check_size(1, page);
        check_size(page, page);
        check_size(3 * page, 4 * page);
        check_size(16 * page, 16 * page);
    }

    #[test]
    fn a_size_beyond_an_int_is_refused() {
        let (_reader, writer) = anonymous().unwrap();
        let error = set_pipe_size(writer.as_fd(), usize::MAX).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_socket_has_no_pipe_size() {
        let (left, _right) = std::os::unix::net::UnixStream::pair().unwrap();
        let error = pipe_size(left.as_fd()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    }

    #[test]
    fn a_named_pipe_carries_bytes_and_is_private() {
        let scratch = Scratch::new();
        let path = scratch.path().join("fifo");
        make_fifo(&path).unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert!(metadata.file_type().is_fifo());
        assert_eq!(metadata.permissions().mode() & 0o077, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut writer = fs::OpenOptions::new().write(true).open(&path).unwrap();
                writer.write_all(b"through").unwrap();
            });
            let mut text = String::new();
            let mut reader = fs::File::open(&path).unwrap();
            reader.read_to_string(&mut text).unwrap();
            assert_eq!(text, "through");
        });
        let error = make_fifo(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }
}

#[cfg(test)]
mod splice_tests {
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::os::fd::AsFd;

    use super::*;
    use crate::tests::tcp_pair;

    fn check(fill: impl Fn(BorrowedFd<'_>, BorrowedFd<'_>) -> io::Result<usize>) {
        let ((mut source, front), (back, mut sink)) = (tcp_pair(), tcp_pair());
        let (reader, writer) = anonymous().unwrap();
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
