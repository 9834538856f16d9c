//! Pipes, named and anonymous, and their capacity.
//!
//! A pipe's capacity counts *slots* of one page each, not bytes: a slot with a short write or a spliced fragment is as
//! full as one with 4096 bytes (pipe(7)). So the sizes here are upper bounds.
//!
//! Never opens a named pipe: opening one end blocks until the other end is opened, which the caller must arrange with
//! two threads.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub use libc::O_NONBLOCK;

use crate::syscall_result;

/// An anonymous pipe as (read end, write end), closed on exec.
///
/// # Errors
///
/// `EMFILE` or `ENFILE` when descriptors run out: see [`crate::limit::raise_open_files`].
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
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: `path` is NUL-terminated and lives through the call.
    syscall_result::of(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }).map(drop)
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
    let asked = libc::c_int::try_from(bytes).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("a pipe of {bytes} bytes: ask for less than 2 GiB"))
    })?;
    // SAFETY: F_SETPIPE_SZ takes an int and no memory is passed.
    let returned = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETPIPE_SZ, asked) };
    match syscall_result::of(returned) {
        Ok(effective) => Ok(effective as usize),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "a pipe of {bytes} bytes is over this user's limit: ask for at most \
                 fs.pipe-max-size, close other pipes, or raise the sysctl"
            ),
        )),
        Err(error) => Err(error),
    }
}

/// The capacity in bytes: 65,536 unless changed (pipe(7)).
///
/// # Errors
///
/// `EBADF` if the descriptor is not a pipe.
pub fn pipe_size(fd: BorrowedFd<'_>) -> io::Result<usize> {
    // SAFETY: F_GETPIPE_SZ takes no argument and no memory is passed.
    syscall_result::of(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETPIPE_SZ) }).map(|bytes| bytes as usize)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};

    use super::*;
    use crate::scratch::Scratch;

    fn check_size(asked: usize, effective: usize) {
        let (reader, writer) = anonymous().unwrap();
        assert_eq!(set_pipe_size(writer.as_fd(), asked).unwrap(), effective);
        assert_eq!(pipe_size(reader.as_fd()).unwrap(), effective);
    }

    #[test]
    fn sizes_are_powers_of_two_pages() {
        let page = 4096.max(page_size());
        check_size(1, page);
        check_size(page, page);
        check_size(3 * page, 4 * page);
        check_size(16 * page, 16 * page);
    }

    fn page_size() -> usize {
        // SAFETY: takes an int and touches no memory.
        unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
    }

    #[test]
    fn a_size_beyond_an_int_is_refused() {
        let (_reader, writer) = anonymous().unwrap();
        let error = set_pipe_size(writer.as_fd(), usize::MAX).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
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
