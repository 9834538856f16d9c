//! Receives that map the kernel's pages instead of copying them (`TCP_ZEROCOPY_RECEIVE`, linux/tcp.h).
//!
//! The kernel maps whole pages that came alone in a fragment (net/ipv4/tcp.c, `can_map_frag`). It reports how many bytes before the
//! next such page have to be received by copy. Over loopback it maps nothing: the bytes of a sender are in fragments of several pages.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use crate::syscall_result;

/// `struct tcp_zerocopy_receive`.
#[repr(C)]
#[derive(Default)]
struct Request {
    address: u64,
    length: u32,
    recv_skip_hint: u32,
    inq: u32,
    err: i32,
    copybuf_address: u64,
    copybuf_len: i32,
    flags: u32,
    msg_control: u64,
    msg_controllen: u64,
    msg_flags: u32,
    reserved: u32,
}

/// The result of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedReceive {
    /// Bytes that were received by mapping them: [`MappedReceiver::bytes`].
    pub mapped: usize,
    /// Bytes that follow and have to be received by copy, if they are there.
    pub to_copy: usize,
}

/// A window of address space into which a socket's pages are mapped.
#[derive(Debug)]
pub struct MappedReceiver {
    start: NonNull<u8>,
    len: usize,
    mapped: usize,
}

// SAFETY: the mapping belongs to this value alone, and any thread may read it.
unsafe impl Send for MappedReceiver {}

impl MappedReceiver {
    /// Makes a window of at least `len` bytes, in whole pages, for a connected TCP socket.
    ///
    /// # Errors
    ///
    /// `ENODEV` for a socket without such receives, the kernel's others untouched.
    pub fn new(fd: BorrowedFd<'_>, len: usize) -> io::Result<MappedReceiver> {
        let len = len.max(1).next_multiple_of(PAGE);
        // SAFETY: a new mapping at an address that the kernel chooses touches no other memory. It can only be read.
        let start = unsafe {
            let (at, flags) = (std::ptr::null_mut(), libc::MAP_SHARED);
            libc::mmap(at, len, libc::PROT_READ, flags, fd.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(MappedReceiver { start, len, mapped: 0 })
    }

    /// Maps the next bytes that arrived, without waiting; those of the last call are not there any more.
    ///
    /// # Errors
    ///
    /// `EIO` at the end of the stream, the kernel's others untouched.
    pub fn receive(&mut self, fd: BorrowedFd<'_>) -> io::Result<MappedReceive> {
        self.mapped = 0;
        let mut request =
            Request { address: self.start.as_ptr() as u64, length: self.len as u32, ..Request::default() };
        let mut len = size_of::<Request>() as libc::socklen_t;
        // SAFETY: the kernel reads and writes at most `len` bytes of `request`, and maps pages within the window at its
        // address, which belongs to this value; `&mut self` keeps slices of it from living through the call.
        syscall_result::of(unsafe {
            let value = (&raw mut request).cast();
            libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, value, &mut len)
        })?;
        if request.err != 0 {
            return Err(io::Error::from_raw_os_error(request.err.saturating_abs()));
        }
        self.mapped = (request.length as usize).min(self.len);
        Ok(MappedReceive { mapped: self.mapped, to_copy: request.recv_skip_hint as usize })
    }

    /// The bytes that the last call mapped.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the kernel has mapped this many bytes at the start of the window, and removes them in the next call at the
        // earliest, which borrows `self` exclusively. They are pages of data that arrived, to which the kernel does not write any more.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.mapped) }
    }
}

impl Drop for MappedReceiver {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this address and length, and no slice of it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// The option's number in uapi/linux/tcp.h, Linux 4.18 and later.
const TCP_ZEROCOPY_RECEIVE: libc::c_int = 35;

/// The smallest page of the supported architectures; the kernel rounds a mapping up to its own.
const PAGE: usize = 4096;

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::io as calls;
    use crate::tcp_pair::tcp_pair;

    #[test]
    fn bytes_are_mapped_or_left_to_copy() {
        let (client, server) = tcp_pair();
        let mut receiver = MappedReceiver::new(server.as_fd(), 1 << 16).unwrap();
        assert_eq!(receiver.receive(server.as_fd()).unwrap(), MappedReceive { mapped: 0, to_copy: 0 });
        let sent = vec![7; 3 * PAGE];
        assert_eq!(calls::write(client.as_fd(), &sent).unwrap(), sent.len());
        let (mut got, mut buffer) = (0, vec![0; sent.len()]);
        while got < sent.len() {
            let found = receiver.receive(server.as_fd()).unwrap();
            assert!(receiver.bytes().iter().all(|byte| *byte == 7));
            got += found.mapped;
            let rest = found.to_copy.min(buffer.len());
            if rest > 0 {
                let copied = calls::read(server.as_fd(), &mut buffer[..rest]).unwrap();
                assert!(buffer[..copied].iter().all(|byte| *byte == 7));
                got += copied;
            }
        }
        assert_eq!(got, sent.len());
    }

    #[test]
    fn other_sockets_have_no_pages_to_map() {
        let (unix, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(MappedReceiver::new(unix.as_fd(), 4096).is_err());
    }
}
