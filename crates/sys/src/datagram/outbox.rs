//! Sends datagrams: one message per call (sendmsg(2)) or many (sendmmsg(2)).

use std::io;
use std::os::fd::BorrowedFd;

use super::address::PeerAddress;
use super::slots::MessageSlots;

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
pub struct Outbox(MessageSlots);

impl Outbox {
    /// `slots` slots of `slot_len` bytes. Each is sent completely to the connected peer until [`Outbox::set`] changes
    /// that.
    ///
    /// # Panics
    ///
    /// Without a slot.
    #[must_use]
    pub fn new(slots: usize, slot_len: usize) -> Outbox {
        Outbox(MessageSlots::new(slots, slot_len, true))
    }

    /// The most messages of one send.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.0.count()
    }

    /// The bytes of a slot.
    #[inline]
    #[must_use]
    pub fn bytes(&mut self, slot: usize) -> &mut [u8] {
        self.0.bytes(slot)
    }

    /// Sets how much of a slot is sent, to which peer, and in which segments.
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
        header.msg_controllen =
            to.segment.map_or(0, |segment| self.0.controls.all_mut()[slot].write_segment(segment)) as _;
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

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox")
            .field("slots", &self.slots())
            .field("slot_len", &self.0.slot_len())
            .finish_non_exhaustive()
    }
}
