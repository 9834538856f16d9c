//! The system calls that move datagrams.
//!
//! Miri does not run these system calls, so a substitute plays the kernel: it reads and writes the memory that the
//! headers point to. So Miri checks the pointers.

#[cfg(not(miri))]
pub(super) use libc::{recvmmsg, recvmsg, sendmmsg, sendmsg};

#[cfg(miri)]
pub(super) use played::{recvmmsg, recvmsg, sendmmsg, sendmsg};

#[cfg(miri)]
mod played {
    /// The content of every received message.
    const RECEIVED: &[u8] = b"a datagram";

    /// Fills the memory that a header points to.
    pub(in crate::datagram) unsafe fn recvmsg(_fd: i32, header: *mut libc::msghdr, _flags: i32) -> isize {
        // SAFETY: the caller's header points to memory as described in it, as the kernel requires.
        unsafe {
            let place = (*header).msg_iov;
            let len = RECEIVED.len().min((*place).iov_len);
            (*place).iov_base.cast::<u8>().copy_from(RECEIVED.as_ptr(), len);
            if !(*header).msg_name.is_null() {
                (*header).msg_name.cast::<u16>().write(libc::AF_UNIX as u16);
                (*header).msg_namelen = 4;
            }
            (*header).msg_control.cast::<u8>().write_bytes(0, (*header).msg_controllen);
            (*header).msg_controllen = 0;
            (*header).msg_flags = 0;
        }
        RECEIVED.len() as isize
    }

    pub(in crate::datagram) unsafe fn recvmmsg(
        fd: i32,
        headers: *mut libc::mmsghdr,
        count: u32,
        flags: i32,
        _timeout: *mut libc::timespec,
    ) -> i32 {
        for index in 0..count as usize {
            // SAFETY: as in `recvmsg`, for each of the caller's headers.
            unsafe {
                let header = headers.add(index);
                (*header).msg_len = recvmsg(fd, &raw mut (*header).msg_hdr, flags) as u32;
            }
        }
        count as i32
    }

    /// Reads all memory that a header points to. Returns the length of the message.
    pub(in crate::datagram) unsafe fn sendmsg(_fd: i32, header: *const libc::msghdr, _flags: i32) -> isize {
        // SAFETY: as in `recvmsg`; nothing is written.
        unsafe {
            let parts = [
                ((*header).msg_name.cast::<u8>(), (*header).msg_namelen as usize),
                ((*header).msg_control.cast::<u8>(), (*header).msg_controllen),
                ((*(*header).msg_iov).iov_base.cast::<u8>(), (*(*header).msg_iov).iov_len),
            ];
            let bytes = parts.into_iter().flat_map(|(start, len)| (0..len).map(move |at| start.add(at).read()));
            std::hint::black_box(bytes.fold(0u8, u8::wrapping_add));
            (*(*header).msg_iov).iov_len as isize
        }
    }

    pub(in crate::datagram) unsafe fn sendmmsg(fd: i32, headers: *mut libc::mmsghdr, count: u32, flags: i32) -> i32 {
        for index in 0..count as usize {
            // SAFETY: as in `recvmsg`, for each of the caller's headers.
            unsafe {
                let header = headers.add(index);
                (*header).msg_len = sendmsg(fd, &raw const (*header).msg_hdr, flags) as u32;
            }
        }
        count as i32
    }
}
