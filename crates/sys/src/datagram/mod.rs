//! Datagrams: packets with boundaries, one or many per call, with the kernel's control messages.
//!
//! [`Outbox`] and [`Inbox`] hold everything that a call needs (bytes, addresses, control messages), created once and
//! reused: no call allocates. One slot is one message for the kernel. With send segmentation (`UDP_SEGMENT`) it is cut
//! into many datagrams; with receive coalescing (`UDP_GRO`) it was joined from many (udp(7)).
//!
//! Signals and full queues are returned as errors. Nothing is retried, and only the descriptor's own mode determines
//! whether a call waits.

mod address;
#[cfg(all(test, miri))]
mod miri;
pub(crate) mod slots;

pub use address::PeerAddress;
pub(crate) use slots::Control;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use slots::MessageSlots;

use crate::errno;

// The system calls that move datagrams. Miri runs none: its tests play the kernel.
#[cfg(not(all(test, miri)))]
use libc as calls;
#[cfg(all(test, miri))]
use miri as calls;

/// The most datagrams into which one send may be cut (`UDP_MAX_SEGMENTS`, include/linux/udp.h; 128 since Linux 6.9).
pub const SEGMENTS_MAX: usize = 64;

/// The distance between slots. Slots at a distance of a power of two would map to the same few cache sets when small
/// messages touch only their fronts; seventeen lines spread them.
const STAGGER: usize = 17 * 64;

/// The kernel's report on one message that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// Its length in bytes, including a part that was cut off.
    pub len: usize,
    /// Whether the slot was too short, so that its end is gone (`MSG_TRUNC`).
    pub truncated: bool,
    /// The length of each datagram from which it was joined, the last one possibly shorter (`UDP_GRO`); `None`: it is
    /// one datagram.
    pub segment: Option<usize>,
}

impl Arrived {
    /// Number of datagrams from which it was joined.
    #[inline]
    pub fn datagrams(&self) -> usize {
        self.segment.map_or(1, |segment| self.len.div_ceil(segment.max(1)).max(1))
    }
}

/// Whether an error means that a datagram exceeds the protocol, the interface or the socket's buffer (`EMSGSIZE`).
pub fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

/// A header for one message: an address or none, a pointer to its bytes, and control messages.
pub(crate) fn header(
    name: *mut libc::c_void,
    name_len: u32,
    place: *mut libc::iovec,
    control: *mut libc::c_void,
    control_len: usize,
) -> libc::mmsghdr {
    // SAFETY: every field is an integer or a pointer, for which zero is a valid value. The C library's struct has
    // padding on some targets, so it cannot be written as a literal.
    let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
    header.msg_hdr.msg_name = name;
    header.msg_hdr.msg_namelen = name_len;
    header.msg_hdr.msg_iov = place;
    header.msg_hdr.msg_iovlen = 1;
    header.msg_hdr.msg_control = control;
    header.msg_hdr.msg_controllen = control_len as _;
    header
}

/// Bytes of control messages that the kernel wrote.
#[allow(clippy::unnecessary_cast, reason = "musl counts them in 32 bits, glibc in a machine word")]
pub(crate) fn control_len(header: &libc::msghdr) -> usize {
    header.msg_controllen as usize
}

// Receives datagrams: one per call (recvmsg(2)) or all available ones (recvmmsg(2)).

/// Slots for messages, with everything that a receive fills in.
pub struct Inbox {
    messages: MessageSlots,
    filled: usize,
}

impl Inbox {
    /// `slots` slots of `slot_len` bytes. With `sources` each message's sender is kept: [`Inbox::source`].
    ///
    /// # Panics
    ///
    /// Without a slot.
    pub fn new(slots: usize, slot_len: usize, sources: bool) -> Inbox {
        Inbox { messages: MessageSlots::new(slots, slot_len, sources), filled: 0 }
    }

    /// The most messages of one receive.
    pub fn slots(&self) -> usize {
        self.messages.count()
    }

    /// Number of messages of the last receive.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Receives all available messages, waiting only for the first one (recvmmsg(2)), or one into the only slot (recvmsg(2)).
    /// Returns their number.
    ///
    /// # Errors
    ///
    /// The kernel's error untouched, `EINTR` and `EAGAIN` included; messages that came before it are returned
    /// first.
    #[inline]
    pub fn receive(&mut self, fd: BorrowedFd<'_>) -> io::Result<usize> {
        self.reset();
        // MSG_TRUNC asks for the message's real length (recv(2)).
        let (fd, slots, headers) = (fd.as_raw_fd(), self.slots(), self.messages.headers.at(0));
        if slots == 1 {
            // SAFETY: the header points to one iovec over the slot, to room for an address or none, and to a control buffer,
            // each of the length it states; all are owned by `self`, which is borrowed exclusively.
            let received = unsafe { calls::recvmsg(fd, &raw mut (*headers).msg_hdr, libc::MSG_TRUNC) };
            self.messages.headers.all_mut()[0].msg_len = errno::of_count(received)? as u32;
            self.filled = 1;
            return Ok(1);
        }
        let flags = libc::MSG_WAITFORONE | libc::MSG_TRUNC;
        // SAFETY: as above, for each header; a null timeout means none.
        let received = unsafe { calls::recvmmsg(fd, headers, slots as libc::c_uint, flags as _, std::ptr::null_mut()) };
        self.filled = errno::of(received)? as usize;
        Ok(self.filled)
    }

    /// The kernel's report on a message of the last receive.
    ///
    /// # Panics
    ///
    /// If the last receive brought fewer messages.
    #[inline]
    pub fn arrived(&self, slot: usize) -> Arrived {
        let header = self.header(slot);
        let messages = self.messages.controls.all()[slot].filled(control_len(&header.msg_hdr));
        slots::read(messages, header.msg_len as usize, header.msg_hdr.msg_flags)
    }

    /// The bytes of a message of the last receive, without the part that was cut off.
    ///
    /// # Panics
    ///
    /// If the last receive brought fewer messages.
    #[inline]
    pub fn bytes(&mut self, slot: usize) -> &mut [u8] {
        let len = (self.header(slot).msg_len as usize).min(self.messages.slot_len());
        &mut self.messages.bytes(slot)[..len]
    }

    /// The sender of a message of the last receive; none unless sources are kept.
    ///
    /// # Panics
    ///
    /// If the last receive brought fewer messages.
    #[inline]
    pub fn source(&mut self, slot: usize) -> PeerAddress {
        let len = self.header(slot).msg_hdr.msg_namelen;
        match self.messages.peers.all_mut().get_mut(slot) {
            Some(source) => {
                source.set_len(len);
                *source
            }
            None => PeerAddress::NONE,
        }
    }

    /// Sends the messages of the last receive from `first` up to `end` back to their senders, from their slots: one by
    /// sendmsg(2), several by sendmmsg(2). The parts that were cut off are not sent. Returns the number of messages taken.
    ///
    /// # Errors
    ///
    /// As [`Outbox::send`].
    ///
    /// # Panics
    ///
    /// If the last receive brought fewer messages.
    #[inline]
    pub fn send_back(&mut self, fd: BorrowedFd<'_>, first: usize, end: usize) -> io::Result<usize> {
        let slot_len = self.messages.slot_len();
        for slot in first..end {
            let header = &mut self.messages.headers.all_mut()[..self.filled][slot];
            header.msg_hdr.msg_controllen = 0;
            self.messages.places.all_mut()[slot].iov_len = (header.msg_len as usize).min(slot_len);
        }
        self.messages.send(fd, first, end)
    }

    #[inline]
    fn header(&self, slot: usize) -> &libc::mmsghdr {
        &self.messages.headers.all()[..self.filled][slot]
    }

    /// Restores the sizes in the headers, which the kernel overwrites.
    #[inline]
    fn reset(&mut self) {
        self.filled = 0;
        let slot_len = self.messages.slot_len();
        let name_len = if self.messages.peers.len() == 0 { 0 } else { PeerAddress::ROOM };
        for (header, place) in self.messages.headers.all_mut().iter_mut().zip(self.messages.places.all_mut()) {
            place.iov_len = slot_len;
            header.msg_hdr.msg_namelen = name_len;
            header.msg_hdr.msg_controllen = Control::ROOM as _;
        }
    }
}

// Sends datagrams: one message per call (sendmsg(2)) or many (sendmmsg(2)).

/// How to send a slot.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlotTarget<'a> {
    /// Number of bytes to send.
    pub len: usize,
    /// The receiver; `None`: the peer to which the socket is connected.
    pub peer: Option<&'a PeerAddress>,
}

/// Slots for messages, with everything that a send reads.
pub struct Outbox(MessageSlots);

impl Outbox {
    /// `slots` slots of `slot_len` bytes. Each is sent completely to the connected peer until [`Outbox::set`] changes
    /// that.
    ///
    /// # Panics
    ///
    /// Without a slot.
    pub fn new(slots: usize, slot_len: usize) -> Outbox {
        Outbox(MessageSlots::new(slots, slot_len, true))
    }

    /// The most messages of one send.
    pub fn slots(&self) -> usize {
        self.0.count()
    }

    /// The bytes of a slot.
    #[inline]
    pub fn bytes(&mut self, slot: usize) -> &mut [u8] {
        self.0.bytes(slot)
    }

    /// Sets how much of a slot is sent, and to which peer.
    ///
    /// # Panics
    ///
    /// If the slot is shorter than that.
    #[inline]
    pub fn set(&mut self, slot: usize, to: SlotTarget<'_>) {
        assert!(to.len <= self.0.slot_len(), "the slot is shorter than the message");
        self.0.places.all_mut()[slot].iov_len = to.len;
        let header = &mut self.0.headers.all_mut()[slot].msg_hdr;
        // A name of no length is none (`__copy_msghdr`, net/socket.c).
        header.msg_namelen = 0;
        if let Some(peer) = to.peer.filter(|peer| !peer.is_none()) {
            self.0.peers.all_mut()[slot] = *peer;
            header.msg_namelen = peer.len();
        }
    }

    /// Sends the slots from `first` up to `end`: one by sendmsg(2), several by sendmmsg(2). Returns the number of messages
    /// taken; a datagram is taken completely.
    ///
    /// # Errors
    ///
    /// The kernel's error unchanged, and only if not even the first one was taken: `EINTR` and `EAGAIN`; `EMSGSIZE` if the
    /// datagram is too large; `ENOBUFS` if a queue is full; `ECONNREFUSED` if an earlier datagram found no socket (udp(7)).
    ///
    /// # Panics
    ///
    /// If there are fewer slots.
    #[inline]
    pub fn send(&mut self, fd: BorrowedFd<'_>, first: usize, end: usize) -> io::Result<usize> {
        self.0.send(fd, first, end)
    }
}

#[cfg(test)]
mod tests;
