//! Receives datagrams: one per call (recvmsg(2)) or all available ones (recvmmsg(2)).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::address::PeerAddress;
use super::control::{self, Control};
use super::slots::SharedSlots;
use super::{Arrived, STAGGER, calls};
use crate::buffer::{PAGE_BYTES, PageOffset};
use crate::syscall_result;

/// Slots for messages, with everything that a receive fills in.
///
/// The memory that the headers point to never moves.
pub struct Inbox {
    memory: SharedSlots<u8>,
    /// Where the first slot begins.
    first: usize,
    slot_len: usize,
    stride: usize,
    sources: SharedSlots<PeerAddress>,
    controls: SharedSlots<Control>,
    /// Pointed to by `headers`.
    places: SharedSlots<libc::iovec>,
    headers: SharedSlots<libc::mmsghdr>,
    filled: usize,
}

// SAFETY: the pointers lead to heap memory that the inbox owns exclusively, and that stays in place when the inbox
// moves.
unsafe impl Send for Inbox {}

impl Inbox {
    /// `slots` slots of `slot_len` bytes. With `sources` each message's sender is kept: [`Inbox::source`].
    ///
    /// # Panics
    ///
    /// Without a slot.
    #[must_use]
    pub fn new(slots: usize, slot_len: usize, sources: bool) -> Inbox {
        assert!(slots > 0, "an inbox needs a slot");
        let stride = slot_len.next_multiple_of(64) + STAGGER;
        let memory = SharedSlots::new(slots * stride + PAGE_BYTES, 0u8);
        let first = PageOffset::of_thread().after(memory.at(0).addr(), slots * stride);
        let addresses = SharedSlots::new(if sources { slots } else { 0 }, PeerAddress::NONE);
        let controls = SharedSlots::new(slots, Control::EMPTY);
        let mut places = SharedSlots::new(slots, libc::iovec { iov_base: std::ptr::null_mut(), iov_len: slot_len });
        let null = std::ptr::null_mut();
        let mut headers = SharedSlots::new(slots, super::header(null, 0, null.cast(), null, 0));
        for slot in 0..slots {
            places.all_mut()[slot].iov_base = memory.at(first + slot * stride).cast();
            let name = if sources { PeerAddress::raw(addresses.at(slot)) } else { std::ptr::null_mut() };
            headers.all_mut()[slot] = super::header(name, 0, places.at(slot), Control::raw(controls.at(slot)), 0);
        }
        Inbox { memory, first, slot_len, stride, sources: addresses, controls, places, headers, filled: 0 }
    }

    /// The most messages of one receive.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.headers.len()
    }

    /// Number of messages of the last receive.
    #[must_use]
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Receives one message into the first slot (recvmsg(2)).
    ///
    /// # Errors
    ///
    /// The kernel's error untouched, `EINTR` and `EAGAIN` included.
    #[inline]
    pub fn receive_one(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.reset(1);
        let header = self.headers.at(0);
        // SAFETY: the header points to one iovec over the first slot, to room for an address or none, and to a
        // control buffer, each of the length it states; all are owned by `self`, which is borrowed exclusively.
        // MSG_TRUNC asks for the message's real length (recv(2)).
        let len = syscall_result::of_count(unsafe {
            calls::recvmsg(fd.as_raw_fd(), &raw mut (*header).msg_hdr, libc::MSG_TRUNC)
        })?;
        self.headers.all_mut()[0].msg_len = len as u32;
        self.filled = 1;
        Ok(())
    }

    /// Receives all available messages, waiting only for the first one (recvmmsg(2)), and returns their number.
    ///
    /// # Errors
    ///
    /// The kernel's error untouched, `EINTR` and `EAGAIN` included; messages that came before it are returned
    /// first.
    #[inline]
    pub fn receive(&mut self, fd: BorrowedFd<'_>) -> io::Result<usize> {
        self.reset(self.headers.len());
        let flags = libc::MSG_WAITFORONE | libc::MSG_TRUNC;
        // SAFETY: as in `receive_one`, for each header; a null timeout means none.
        let count = syscall_result::of(unsafe {
            calls::recvmmsg(
                fd.as_raw_fd(),
                self.headers.at(0),
                self.headers.len() as libc::c_uint,
                flags as _,
                std::ptr::null_mut(),
            )
        })?;
        self.filled = count as usize;
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
        let header = &self.headers.all()[..self.filled][slot];
        let messages = self.controls.all()[slot].filled(super::control_len(&header.msg_hdr));
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
        let len = (self.headers.all()[..self.filled][slot].msg_len as usize).min(self.slot_len);
        &mut self.memory.all_mut()[self.first + slot * self.stride..][..len]
    }

    /// The sender of a message of the last receive; none unless sources are kept.
    ///
    /// # Panics
    ///
    /// If the last receive brought fewer messages.
    #[inline]
    #[must_use]
    pub fn source(&mut self, slot: usize) -> PeerAddress {
        let len = self.headers.all()[..self.filled][slot].msg_hdr.msg_namelen;
        match self.sources.all_mut().get_mut(slot) {
            Some(source) => {
                source.set_len(len);
                *source
            }
            None => PeerAddress::NONE,
        }
    }

    /// Sends one message of the last receive back to its sender, from its slot (sendmsg(2)). The part that was cut off
    /// is not sent. Returns the number of bytes taken.
    ///
    /// # Errors
    ///
    /// As [`super::Outbox::send_one`].
    ///
    /// # Panics
    ///
    /// If the last receive brought fewer messages.
    #[inline]
    pub fn send_back_one(&mut self, fd: BorrowedFd<'_>, slot: usize) -> io::Result<usize> {
        self.prepare_to_send(slot..slot + 1);
        let header = self.headers.at(slot);
        // SAFETY: the header points to one iovec, no longer than the slot, and to the address that the kernel filled
        // in; both are owned by `self`, and the kernel only reads them.
        syscall_result::of_count(unsafe {
            calls::sendmsg(fd.as_raw_fd(), &raw const (*header).msg_hdr, libc::MSG_NOSIGNAL)
        })
    }

    /// Sends the messages of the last receive from `first` up to `end` back to their senders, from their slots
    /// (sendmmsg(2)). Returns the number of messages taken.
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
        self.prepare_to_send(first..end);
        assert!(first < end && end <= self.filled, "messages of the last receive");
        let headers = self.headers.at(first);
        // SAFETY: as in `send_back_one`, for each header. The kernel writes to their `msg_len`, with the value that it
        // had.
        let count = syscall_result::of(unsafe {
            calls::sendmmsg(fd.as_raw_fd(), headers, (end - first) as libc::c_uint, libc::MSG_NOSIGNAL as _)
        })?;
        Ok(count as usize)
    }

    /// Prepares headers of a receive for sending: the bytes that arrived, and no control messages.
    #[inline]
    fn prepare_to_send(&mut self, slots: std::ops::Range<usize>) {
        for slot in slots {
            let header = &mut self.headers.all_mut()[..self.filled][slot];
            self.places.all_mut()[slot].iov_len = (header.msg_len as usize).min(self.slot_len);
            header.msg_hdr.msg_controllen = 0;
        }
    }

    /// Restores the sizes in the headers, which the kernel overwrites.
    #[inline]
    fn reset(&mut self, slots: usize) {
        self.filled = 0;
        let name_len = if self.sources.len() == 0 { 0 } else { PeerAddress::ROOM };
        for (header, place) in self.headers.all_mut()[..slots].iter_mut().zip(self.places.all_mut()) {
            place.iov_len = self.slot_len;
            header.msg_hdr.msg_namelen = name_len;
            header.msg_hdr.msg_controllen = Control::ROOM as _;
        }
    }
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").field("slots", &self.slots()).field("slot_len", &self.slot_len).finish_non_exhaustive()
    }
}
