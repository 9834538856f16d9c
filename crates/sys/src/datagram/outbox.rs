//! Sends datagrams: one message per call (sendmsg(2)) or many (sendmmsg(2)).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::address::PeerAddress;
use super::control::Control;
use super::slots::SharedSlots;
use super::{STAGGER, calls};
use crate::buffer::{PAGE_BYTES, PageOffset};
use crate::syscall_result;

/// How to send a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotTarget<'a> {
    /// Number of bytes to send.
    pub len: usize,
    /// The receiver; `None`: the peer to which the socket is connected.
    pub peer: Option<&'a PeerAddress>,
    /// The kernel cuts it into datagrams of this length (`UDP_SEGMENT`), the last one possibly shorter.
    pub segment: Option<u16>,
}

/// Slots for messages, with everything that a send reads.
///
/// The memory that the headers point to never moves.
pub struct Outbox {
    memory: SharedSlots<u8>,
    /// Where the first slot begins.
    first: usize,
    slot_len: usize,
    stride: usize,
    peers: SharedSlots<PeerAddress>,
    controls: SharedSlots<Control>,
    places: SharedSlots<libc::iovec>,
    headers: SharedSlots<libc::mmsghdr>,
}

// SAFETY: the pointers lead to heap memory that the outbox owns exclusively, and that stays in place when the outbox
// moves.
unsafe impl Send for Outbox {}

impl Outbox {
    /// `slots` slots of `slot_len` bytes. Each is sent completely to the connected peer until [`Outbox::set`] changes
    /// that.
    ///
    /// # Panics
    ///
    /// Without a slot.
    #[must_use]
    pub fn new(slots: usize, slot_len: usize) -> Outbox {
        assert!(slots > 0, "an outbox needs a slot");
        let stride = slot_len.next_multiple_of(64) + STAGGER;
        let null = std::ptr::null_mut();
        let memory = SharedSlots::new(slots * stride + PAGE_BYTES, 0u8);
        let first = PageOffset::of_thread().after(memory.at(0).addr(), slots * stride);
        let (peers, controls) = (SharedSlots::new(slots, PeerAddress::NONE), SharedSlots::new(slots, Control::EMPTY));
        let mut places = SharedSlots::new(slots, libc::iovec { iov_base: null, iov_len: slot_len });
        let mut headers = SharedSlots::new(slots, super::header(null, 0, null.cast(), null, 0));
        for slot in 0..slots {
            places.all_mut()[slot].iov_base = memory.at(first + slot * stride).cast();
            headers.all_mut()[slot] = super::header(null, 0, places.at(slot), Control::raw(controls.at(slot)), 0);
        }
        Outbox { memory, first, slot_len, stride, peers, controls, places, headers }
    }

    /// The most messages of one send.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.headers.len()
    }

    /// The bytes of a slot.
    #[inline]
    #[must_use]
    pub fn bytes(&mut self, slot: usize) -> &mut [u8] {
        &mut self.memory.all_mut()[self.first + slot * self.stride..][..self.slot_len]
    }

    /// Sets how much of a slot is sent, to which peer, and in which segments.
    ///
    /// # Panics
    ///
    /// If the slot is shorter than that.
    #[inline]
    pub fn set(&mut self, slot: usize, to: SlotTarget<'_>) {
        assert!(to.len <= self.slot_len, "the slot is shorter than the message");
        self.places.all_mut()[slot].iov_len = to.len;
        let header = &mut self.headers.all_mut()[slot].msg_hdr;
        match to.peer.filter(|peer| !peer.is_none()) {
            Some(peer) => {
                self.peers.all_mut()[slot] = *peer;
                header.msg_name = PeerAddress::raw(self.peers.at(slot));
                header.msg_namelen = peer.len();
            }
            None => {
                header.msg_name = std::ptr::null_mut();
                header.msg_namelen = 0;
            }
        }
        header.msg_controllen =
            to.segment.map_or(0, |segment| self.controls.all_mut()[slot].write_segment(segment)) as _;
    }

    /// Sends one slot (sendmsg(2)) and returns the number of bytes taken; a datagram is taken completely.
    ///
    /// # Errors
    ///
    /// The kernel's error unchanged: `EINTR` and `EAGAIN`; `EMSGSIZE` if the datagram is too large; `ENOBUFS` if a
    /// queue is full; `ECONNREFUSED` if an earlier datagram found no socket (udp(7)).
    #[inline]
    pub fn send_one(&mut self, fd: BorrowedFd<'_>, slot: usize) -> io::Result<usize> {
        let header = self.headers.at(slot);
        // SAFETY: the header points to one iovec inside the slot, to an address or none, and to control
        // messages, each of the length it states; all are owned by `self`. The kernel only reads them.
        syscall_result::of_count(unsafe {
            calls::sendmsg(fd.as_raw_fd(), &raw const (*header).msg_hdr, libc::MSG_NOSIGNAL)
        })
    }

    /// Sends the slots from `first` up to `end` (sendmmsg(2)) and returns the number of messages taken.
    ///
    /// # Errors
    ///
    /// As [`Outbox::send_one`], and only if not even the first one was taken.
    ///
    /// # Panics
    ///
    /// If there are fewer slots.
    #[inline]
    pub fn send(&mut self, fd: BorrowedFd<'_>, first: usize, end: usize) -> io::Result<usize> {
        assert!(first < end && end <= self.slots(), "slots that exist");
        let headers = self.headers.at(first);
        // SAFETY: as in `send_one`, for each header. The kernel writes to their `msg_len`.
        let count = syscall_result::of(unsafe {
            calls::sendmmsg(fd.as_raw_fd(), headers, (end - first) as libc::c_uint, libc::MSG_NOSIGNAL as _)
        })?;
        Ok(count as usize)
    }
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").field("slots", &self.slots()).field("slot_len", &self.slot_len).finish_non_exhaustive()
    }
}
