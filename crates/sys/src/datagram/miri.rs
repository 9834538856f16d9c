//! Tests for Miri, whose rules for pointers are stricter than observed behaviour: the program reads what the kernel
//! writes through stored pointers, and sends what it writes itself.
//!
//! Miri does not run these system calls, so substitutes play the kernel: they read and write the memory that the headers
//! point to.

use std::os::fd::BorrowedFd;

use super::*;

/// A descriptor that no call uses under Miri.
fn fd() -> BorrowedFd<'static> {
    // SAFETY: standard input is open as long as the process is, and no call uses it.
    unsafe { BorrowedFd::borrow_raw(0) }
}

#[test]
fn an_inbox_is_filled_again_and_again() {
    for sources in [false, true] {
        for slots in [1, 3] {
            let mut inbox = Inbox::new(slots, 100, sources);
            for _ in 0..3 {
                assert_eq!(inbox.receive(fd()).unwrap(), slots);
                for slot in 0..slots {
                    assert_eq!(inbox.arrived(slot).len, 10);
                    assert_eq!(inbox.bytes(slot), b"a datagram");
                    inbox.bytes(slot).fill(7);
                    assert_eq!(inbox.source(slot).is_none(), !sources);
                }
                assert_eq!(inbox.send_back(fd(), 0, slots).unwrap(), slots);
                assert_eq!(inbox.filled(), slots);
            }
            let moved = Box::new(inbox);
            assert_eq!(moved.slots(), slots);
        }
    }
}

#[test]
fn an_outbox_is_written_and_sent_repeatedly() {
    let mut outbox = Outbox::new(2, 50);
    let peer = PeerAddress::from(std::net::SocketAddr::from(([127, 0, 0, 1], 9)));
    for len in [50, 3] {
        for slot in 0..2 {
            outbox.bytes(slot).fill(3);
            outbox.set(slot, SlotTarget { len, peer: Some(&peer) });
            outbox.bytes(slot)[0] = 4;
        }
        assert_eq!(outbox.send(fd(), 1, 2).unwrap(), 1);
        assert_eq!(outbox.send(fd(), 0, 2).unwrap(), 2);
        outbox.set(0, SlotTarget { len, ..SlotTarget::default() });
        assert_eq!(outbox.send(fd(), 0, 2).unwrap(), 2);
    }
}

/// The content of every received message.
const RECEIVED: &[u8] = b"a datagram";

/// Fills the memory that a header points to.
pub(super) unsafe fn recvmsg(_fd: i32, header: *mut libc::msghdr, _flags: i32) -> isize {
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

pub(super) unsafe fn recvmmsg(
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
pub(super) unsafe fn sendmsg(_fd: i32, header: *const libc::msghdr, _flags: i32) -> isize {
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

pub(super) unsafe fn sendmmsg(fd: i32, headers: *mut libc::mmsghdr, count: u32, flags: i32) -> i32 {
    for index in 0..count as usize {
        // SAFETY: as in `recvmsg`, for each of the caller's headers.
        unsafe {
            let header = headers.add(index);
            (*header).msg_len = sendmsg(fd, &raw const (*header).msg_hdr, flags) as u32;
        }
    }
    count as i32
}
