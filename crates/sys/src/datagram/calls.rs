//! The calls that move datagrams.
//!
//! Under Miri, which runs no system call of this kind, the kernel's part is played: it reads and writes what the headers point
//! to. So Miri judges the pointers.

#[cfg(not(miri))]
pub(super) use libc::{recvmmsg, recvmsg, sendmmsg, sendmsg};

#[cfg(miri)]
pub(super) use played::{recvmmsg, recvmsg, sendmmsg, sendmsg};

#[cfg(miri)]
mod played {
    /// What every message holds that is received.
    const RECEIVED: &[u8] = b"a datagram";

    /// Fills what a header points to.
    pub(in crate::datagram) unsafe fn recvmsg(_fd: i32, header: *mut libc::msghdr, _flags: i32) -> isize {
        // SAFETY: the caller's header points to what it says, as the kernel would have it.
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
            // SAFETY: as in `recvmsg`, for as many headers as the caller says.
            unsafe {
                let header = headers.add(index);
                (*header).msg_len = recvmsg(fd, &raw mut (*header).msg_hdr, flags) as u32;
            }
        }
        count as i32
    }

    /// Reads what a header points to. The sum of its bytes is the count that is returned, so that all are read.
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
            // SAFETY: as in `recvmsg`, for as many headers as the caller says.
            unsafe {
                let header = headers.add(index);
                (*header).msg_len = sendmsg(fd, &raw const (*header).msg_hdr, flags) as u32;
            }
        }
        count as i32
    }
}
