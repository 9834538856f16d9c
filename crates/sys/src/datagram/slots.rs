//! Values that the kernel reads and writes through stored pointers, and the messages that are made of them.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use super::address::PeerAddress;
use super::control::Control;
use super::{STAGGER, calls};
use crate::buffer::{PAGE_BYTES, PageOffset};
use crate::syscall_result;

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
            return syscall_result::of_count(sent).map(|_| 1);
        }
        // SAFETY: as above, for each header. The kernel writes to their `msg_len`.
        let sent = unsafe { calls::sendmmsg(fd, headers, (end - first) as libc::c_uint, libc::MSG_NOSIGNAL as _) };
        syscall_result::of(sent).map(|count| count as usize)
    }
}
