//! Receives datagrams: one per call (recvmsg(2)) or all available ones (recvmmsg(2)).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::address::PeerAddress;
use super::control::{self, Control};
use super::slots::MessageSlots;
use super::{Arrived, calls};
use crate::syscall_result;

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
    #[must_use]
    pub fn new(slots: usize, slot_len: usize, sources: bool) -> Inbox {
        Inbox { messages: MessageSlots::new(slots, slot_len, sources), filled: 0 }
    }

    /// The most messages of one receive.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.messages.count()
    }

    /// Number of messages of the last receive.
    #[must_use]
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
            self.messages.headers.all_mut()[0].msg_len = syscall_result::of_count(received)? as u32;
            self.filled = 1;
            return Ok(1);
        }
        let flags = libc::MSG_WAITFORONE | libc::MSG_TRUNC;
        // SAFETY: as above, for each header; a null timeout means none.
        let received = unsafe { calls::recvmmsg(fd, headers, slots as libc::c_uint, flags as _, std::ptr::null_mut()) };
        self.filled = syscall_result::of(received)? as usize;
        Ok(self.filled)
    }

    /// The kernel's report on a message of the last receive.
    ///
    /// # Panics
    ///
    /// If the last receive brought fewer messages.
    #[inline]
    #[must_use]
    pub fn arrived(&self, slot: usize) -> Arrived {
        let header = self.header(slot);
        let messages = self.messages.controls.all()[slot].filled(super::control_len(&header.msg_hdr));
        control::read(messages, header.msg_len as usize, header.msg_hdr.msg_flags)
    }

    /// The bytes of a message of the last receive, without the part that was cut off.
    ///
    /// # Panics
    ///
    /// If the last receive brought fewer messages.
    #[inline]
    #[must_use]
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
    #[must_use]
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
    /// As [`super::Outbox::send`].
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

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let slot_len = self.messages.slot_len();
        f.debug_struct("Inbox").field("slots", &self.slots()).field("slot_len", &slot_len).finish_non_exhaustive()
    }
}
