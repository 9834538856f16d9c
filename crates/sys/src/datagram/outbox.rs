//! Sends datagrams: one message a call (sendmsg(2)) or many (sendmmsg(2)).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::address::PeerAddress;
use super::control::Control;
use super::slots::Slots;
use super::{STAGGER, calls};
use crate::outcome;

/// What a slot is sent as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct To<'a> {
    /// Bytes of the slot that are sent.
    pub len: usize,
    /// To whom; `None`: to the peer that the socket is connected to.
    pub peer: Option<&'a PeerAddress>,
    /// The kernel cuts it into datagrams of this length (`UDP_SEGMENT`), the last one perhaps shorter.
    pub segment: Option<u16>,
}

/// Slots for messages, with everything that a send reads.
///
/// What the headers point to stays where it is.
pub struct Outbox {
    memory: Slots<u8>,
    slot_len: usize,
    stride: usize,
    peers: Slots<PeerAddress>,
    controls: Slots<Control>,
    places: Slots<libc::iovec>,
    headers: Slots<libc::mmsghdr>,
}

// SAFETY: the pointers inside lead to memory that the outbox owns alone, on the heap, where it stays when the
// outbox moves.
unsafe impl Send for Outbox {}

impl Outbox {
    /// `slots` slots of `slot_len` bytes, each to be sent whole to the connected peer until
    /// [`Outbox::set`] says otherwise.
    ///
    /// # Panics
    ///
    /// Without a slot.
    #[must_use]
    pub fn new(slots: usize, slot_len: usize) -> Outbox {
        assert!(slots > 0, "an outbox has a slot");
        let stride = slot_len.next_multiple_of(64) + STAGGER;
        let null = std::ptr::null_mut();
        let memory = Slots::new(slots * stride, 0u8);
        let (peers, controls) = (Slots::new(slots, PeerAddress::NONE), Slots::new(slots, Control::EMPTY));
        let mut places = Slots::new(slots, libc::iovec { iov_base: null, iov_len: slot_len });
        let mut headers = Slots::new(slots, super::header(null, 0, null.cast(), null, 0));
        for slot in 0..slots {
            places.all_mut()[slot].iov_base = memory.at(slot * stride).cast();
            headers.all_mut()[slot] = super::header(null, 0, places.at(slot), Control::raw(controls.at(slot)), 0);
        }
        Outbox { memory, slot_len, stride, peers, controls, places, headers }
    }

    /// How many messages one send gives at most.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.headers.len()
    }

    /// The bytes of a slot.
    #[inline]
    #[must_use]
    pub fn bytes(&mut self, slot: usize) -> &mut [u8] {
        &mut self.memory.all_mut()[slot * self.stride..][..self.slot_len]
    }

    /// Says how much of a slot is sent, to whom, and in which pieces.
    ///
    /// # Panics
    ///
    /// If the slot is shorter than that.
    #[inline]
    pub fn set(&mut self, slot: usize, to: To<'_>) {
        assert!(to.len <= self.slot_len, "a slot as long as what is sent");
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

    /// Sends one slot (sendmsg(2)) and returns how many bytes were taken: of a datagram all of them.
    ///
    /// # Errors
    ///
    /// The kernel's error untouched: `EINTR` and `EAGAIN`; `EMSGSIZE` for more than a datagram holds;
    /// `ENOBUFS` if a queue is full; `ECONNREFUSED` if nobody had a socket for an earlier one (udp(7)).
    #[inline]
    pub fn send_one(&mut self, fd: BorrowedFd<'_>, slot: usize) -> io::Result<usize> {
        let header = self.headers.at(slot);
        // SAFETY: the header points to one iovec inside the slot, to an address or none, and to control
        // messages, each as long as it says; all are owned by `self`. The kernel only reads them.
        outcome::of_count(unsafe { calls::sendmsg(fd.as_raw_fd(), &raw const (*header).msg_hdr, libc::MSG_NOSIGNAL) })
    }

    /// Sends the slots from `first` up to `end` (sendmmsg(2)) and returns how many messages were taken.
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
        // SAFETY: as in `send_one`, for as many headers as there are. The kernel writes to their `msg_len`.
        let count = outcome::of(unsafe {
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
