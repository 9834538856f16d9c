//! Values that the kernel reads and writes through stored pointers, and the messages that are made of them.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use super::address::PeerAddress;
use super::{STAGGER, calls};
use crate::buffer::{PAGE_BYTES, PageOffset};
use crate::datagram::Arrived;
use crate::errno;

/// A fixed number of values of one kind, which stay where they are.
///
/// All access uses one raw pointer. A reference made from it ends before the kernel uses a pointer made from it, so
/// neither invalidates the other (Tree Borrows).
pub(super) struct SharedSlots<T> {
    start: NonNull<[T]>,
}

impl<T: Copy> SharedSlots<T> {
    pub(super) fn new(len: usize, value: T) -> SharedSlots<T> {
        let values = Box::into_raw(vec![value; len].into_boxed_slice());
        SharedSlots { start: NonNull::new(values).expect("a box is not null") }
    }

    pub(super) fn len(&self) -> usize {
        self.start.len()
    }

    /// A pointer to a value, for the kernel.
    #[inline]
    pub(super) fn at(&self, index: usize) -> *mut T {
        assert!(index < self.len(), "a slot that exists");
        // SAFETY: inside the allocation, as was just checked.
        unsafe { self.start.cast::<T>().as_ptr().add(index) }
    }

    #[inline]
    pub(super) fn all(&self) -> &[T] {
        // SAFETY: the values are initialised and belong to this object. Each writer has borrowed it exclusively: a call
        // of the kernel, or `all_mut`.
        unsafe { self.start.as_ref() }
    }

    #[inline]
    pub(super) fn all_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `all`, and the borrow of `self` is exclusive.
        unsafe { self.start.as_mut() }
    }
}

impl<T> Drop for SharedSlots<T> {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` in `new`, and freed once.
        drop(unsafe { Box::from_raw(self.start.as_ptr()) });
    }
}

/// Messages in slots, with everything that the kernel reads and writes for them.
///
/// The memory that the headers point to never moves.
pub(super) struct MessageSlots {
    memory: SharedSlots<u8>,
    /// Where the first slot begins.
    first: usize,
    slot_len: usize,
    stride: usize,
    /// The peer of each; none at all if peers are not kept.
    pub(super) peers: SharedSlots<PeerAddress>,
    pub(super) controls: SharedSlots<Control>,
    /// Pointed to by `headers`.
    pub(super) places: SharedSlots<libc::iovec>,
    pub(super) headers: SharedSlots<libc::mmsghdr>,
}

// SAFETY: the pointers lead to heap memory that this value owns exclusively, and that stays in place when it moves.
unsafe impl Send for MessageSlots {}

impl MessageSlots {
    /// `count` slots of `slot_len` bytes, at least one.
    pub(super) fn new(count: usize, slot_len: usize, keeps_peers: bool) -> MessageSlots {
        assert!(count > 0, "messages need a slot");
        let stride = slot_len.next_multiple_of(64) + STAGGER;
        let memory = SharedSlots::new(count * stride + PAGE_BYTES, 0u8);
        let first = PageOffset::of_thread().after(memory.at(0).addr(), count * stride);
        let peers = SharedSlots::new(if keeps_peers { count } else { 0 }, PeerAddress::NONE);
        let controls = SharedSlots::new(count, Control::EMPTY);
        let null = std::ptr::null_mut();
        let mut places = SharedSlots::new(count, libc::iovec { iov_base: null, iov_len: slot_len });
        let mut headers = SharedSlots::new(count, super::header(null, 0, null.cast(), null, 0));
        for slot in 0..count {
            places.all_mut()[slot].iov_base = memory.at(first + slot * stride).cast();
            let name = if keeps_peers { PeerAddress::raw(peers.at(slot)) } else { null };
            headers.all_mut()[slot] = super::header(name, 0, places.at(slot), Control::raw(controls.at(slot)), 0);
        }
        MessageSlots { memory, first, slot_len, stride, peers, controls, places, headers }
    }

    pub(super) fn count(&self) -> usize {
        self.headers.len()
    }

    /// Bytes of a slot.
    pub(super) fn slot_len(&self) -> usize {
        self.slot_len
    }

    /// The bytes of a slot.
    #[inline]
    pub(super) fn bytes(&mut self, slot: usize) -> &mut [u8] {
        &mut self.memory.all_mut()[self.first + slot * self.stride..][..self.slot_len]
    }

    /// Sends the slots from `first` up to `end`, as set in their headers: sendmsg(2) for one, sendmmsg(2) for several. Returns
    /// the number of messages taken.
    #[inline]
    pub(super) fn send(&mut self, fd: BorrowedFd<'_>, first: usize, end: usize) -> io::Result<usize> {
        assert!(first < end && end <= self.count(), "slots that exist");
        let (fd, headers) = (fd.as_raw_fd(), self.headers.at(first));
        if end - first == 1 {
            // SAFETY: the header points to one iovec inside the slot, to an address or none, and to control messages, each
            // of the length it states; all are owned by `self`. The kernel only reads them.
            let sent = unsafe { calls::sendmsg(fd, &raw const (*headers).msg_hdr, libc::MSG_NOSIGNAL) };
            return errno::of_count(sent).map(|_| 1);
        }
        // SAFETY: as above, for each header. The kernel writes to their `msg_len`.
        let sent = unsafe { calls::sendmmsg(fd, headers, (end - first) as libc::c_uint, libc::MSG_NOSIGNAL as _) };
        errno::of(sent).map(|count| count as usize)
    }
}

// The control messages of a datagram (cmsg(3)), read and written as plain bytes.

/// Length, level and type of a control message (`struct cmsghdr` on 64-bit Linux).
const HEADER: usize = 16;

/// Room for the message of joined datagrams, their size, of 24 bytes.
const ROOM: usize = 32;

/// A buffer for control messages.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(crate) struct Control([u8; ROOM]);

impl Control {
    pub(crate) const EMPTY: Control = Control([0; ROOM]);
    pub(crate) const ROOM: usize = ROOM;

    /// A pointer for the kernel to the control messages at `control`.
    pub(crate) fn raw(control: *mut Control) -> *mut libc::c_void {
        // The struct has no other field (`repr(C)`).
        control.cast()
    }

    /// The first `len` bytes, as many as the kernel filled.
    pub(crate) fn filled(&self, len: usize) -> &[u8] {
        &self.0[..len.min(ROOM)]
    }
}

/// Reads the control messages of a message of `len` bytes that arrived with these flags.
#[inline]
pub(crate) fn read(mut messages: &[u8], len: usize, flags: libc::c_int) -> Arrived {
    let truncated = flags & libc::MSG_TRUNC != 0;
    let mut arrived = Arrived { len, truncated, segment: None };
    while let Some((level, kind, value)) = first(messages) {
        if let (libc::SOL_UDP, libc::UDP_GRO, Some(size)) = (level, kind, word(value)) {
            arrived.segment = Some(size as usize).filter(|size| *size > 0);
        }
        let taken = (HEADER + value.len()).next_multiple_of(align_of::<libc::cmsghdr>());
        messages = messages.get(taken..).unwrap_or(&[]);
    }
    arrived
}

/// Level, type and value of the first message.
#[inline]
pub(crate) fn first(messages: &[u8]) -> Option<(libc::c_int, libc::c_int, &[u8])> {
    let len = usize::from_ne_bytes(*messages.first_chunk()?);
    let level = libc::c_int::from_ne_bytes(*messages.get(8..)?.first_chunk()?);
    let kind = libc::c_int::from_ne_bytes(*messages.get(12..)?.first_chunk()?);
    Some((level, kind, messages.get(HEADER..len)?))
}

/// The value of a message that is an int.
pub(crate) fn word(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(level: libc::c_int, kind: libc::c_int, value: u32) -> Vec<u8> {
        let mut bytes = 20usize.to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes
    }

    #[test]
    fn other_messages_are_skipped() {
        let other = message(libc::SOL_SOCKET, libc::SO_MARK, 7);
        let size = message(libc::SOL_UDP, libc::UDP_GRO, 1000);
        let expected = Arrived { len: 2500, truncated: false, segment: Some(1000) };
        assert_eq!(read(&[other.clone(), size.clone()].concat(), 2500, 0), expected);
        assert_eq!(read(&[size, other].concat(), 2500, 0), expected);
        assert_eq!(expected.datagrams(), 3);
    }

    #[test]
    fn a_truncated_message_is_left_out() {
        let size = message(libc::SOL_UDP, libc::UDP_GRO, 1000);
        for len in 0..20 {
            let arrived = read(&size[..len], 5, libc::MSG_TRUNC);
            assert_eq!(arrived, Arrived { len: 5, truncated: true, segment: None });
        }
    }

    #[test]
    fn a_message_with_a_huge_length_ends() {
        let mut bytes = message(libc::SOL_UDP, libc::UDP_GRO, 1000);
        bytes[..8].copy_from_slice(&usize::MAX.to_ne_bytes());
        assert_eq!(read(&bytes, 1, 0).segment, None);
        bytes[..8].copy_from_slice(&0usize.to_ne_bytes());
        assert_eq!(read(&bytes, 1, 0).segment, None);
    }
}
