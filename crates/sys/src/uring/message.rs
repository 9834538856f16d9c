//! Messages of a ring: bytes with an address and control messages, for recvmsg(2) and sendmsg(2).
//!
//! As with other buffers of a ring, the memory is reached through raw pointers, and lent only while no
//! operation uses it. A receive that goes on takes buffers of a pool instead; the kernel then writes what it
//! has to say in front of the bytes (io_uring_prep_recvmsg_multishot(3)).

use std::io;
use std::slice;

use io_uring::types::RecvMsgOut;

use super::memory::{Mapping, STAGGER};
use crate::datagram::{Arrived, Control, PeerAddress, To, control, control_len, header};

/// One of a ring's own messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageId(u32);

/// A datagram that a receive that goes on brought.
#[derive(Debug)]
pub struct Parcel<'a> {
    /// Its bytes, without what was cut off.
    pub bytes: &'a mut [u8],
    /// What the kernel said of it.
    pub arrived: Arrived,
    /// Who sent it; nobody on a connected socket of some kinds.
    pub source: PeerAddress,
}

/// What a buffer of a pool needs beside the bytes of a datagram: the kernel's header of four words
/// (`struct io_uring_recvmsg_out`), the address and the control messages.
pub const MESSAGE_ROOM: usize = 16 + PeerAddress::ROOM as usize + Control::ROOM;

/// What the kernel reads and writes beside the bytes.
#[repr(C)]
struct Envelope {
    header: libc::msghdr,
    place: libc::iovec,
    peer: PeerAddress,
    control: Control,
}

#[derive(Debug)]
struct Message {
    memory: Mapping,
    offset: usize,
    len: usize,
    in_use: bool,
}

/// Messages, each used by at most one operation at a time.
#[derive(Debug, Default)]
pub(super) struct Messages(Vec<Message>);

impl Messages {
    pub(super) fn add(&mut self, len: usize) -> io::Result<MessageId> {
        let id = self.0.len();
        // The envelope begins on a page, the bytes somewhere else in it than those of other messages.
        let offset = (size_of::<Envelope>() + (id * STAGGER) % 4096).next_multiple_of(64);
        self.0.push(Message { memory: Mapping::new(offset + len)?, offset, len, in_use: false });
        Ok(MessageId(id as u32))
    }

    /// The bytes, unless the kernel has them.
    pub(super) fn bytes(&mut self, id: MessageId) -> Option<&mut [u8]> {
        let message = &self.0[id.0 as usize];
        if message.in_use {
            return None;
        }
        // SAFETY: `len` bytes at `offset` are inside the mapping, initialised to zero by the kernel and behind the
        // envelope. No operation uses them, and the exclusive borrow of `self` keeps any from starting and other
        // slices from existing for as long as this one lives.
        Some(unsafe { slice::from_raw_parts_mut(message.memory.at(message.offset), message.len) })
    }

    /// Hands a message to a receive: from here on only the kernel touches it.
    pub(super) fn lend_to_receive(&mut self, id: MessageId) -> *mut libc::msghdr {
        let (start, len) = (self.start(id), self.0[id.0 as usize].len);
        let envelope = self.envelope(id);
        envelope.place = libc::iovec { iov_base: start.cast(), iov_len: len };
        envelope.address(PeerAddress::ROOM, Control::ROOM);
        self.lend(id)
    }

    /// Hands a message to a send.
    pub(super) fn lend_to_send(&mut self, id: MessageId, to: To<'_>) -> *const libc::msghdr {
        assert!(to.len <= self.0[id.0 as usize].len, "a message as long as what is sent");
        let start = self.start(id);
        let envelope = self.envelope(id);
        envelope.place = libc::iovec { iov_base: start.cast(), iov_len: to.len };
        envelope.peer = to.peer.copied().unwrap_or_default();
        let control = to.segment.map_or(0, |segment| envelope.control.write_segment(segment));
        let peer = if envelope.peer.is_none() { 0 } else { envelope.peer.len() };
        envelope.address(peer, control);
        self.lend(id)
    }

    /// The operation is over.
    pub(super) fn take_back(&mut self, id: MessageId) {
        self.0[id.0 as usize].in_use = false;
    }

    /// What the kernel said of a message that was received with `moved` bytes.
    pub(super) fn arrived(&mut self, id: MessageId, moved: usize) -> Arrived {
        let envelope = self.envelope(id);
        let messages = envelope.control.filled(control_len(&envelope.header));
        control::read(messages, moved, envelope.header.msg_flags)
    }

    /// Who sent a message that was received.
    pub(super) fn source(&mut self, id: MessageId) -> PeerAddress {
        let envelope = self.envelope(id);
        envelope.peer.set_len(envelope.header.msg_namelen);
        envelope.peer
    }

    fn start(&self, id: MessageId) -> *mut u8 {
        let message = &self.0[id.0 as usize];
        message.memory.at(message.offset)
    }

    fn lend(&mut self, id: MessageId) -> *mut libc::msghdr {
        let header: *mut libc::msghdr = &mut self.envelope(id).header;
        self.0[id.0 as usize].in_use = true;
        header
    }

    /// What stands beside the bytes of a message that no operation uses.
    fn envelope(&mut self, id: MessageId) -> &mut Envelope {
        let message = &self.0[id.0 as usize];
        assert!(!message.in_use, "one operation a message");
        // SAFETY: the mapping begins on a page with room for an envelope, of which the kernel's zeroes are a value
        // (integers and null pointers). No operation uses it, and the exclusive borrow of `self` keeps any from
        // starting and other references from existing for as long as this one lives.
        unsafe { &mut *message.memory.start().cast::<Envelope>() }
    }
}

impl Envelope {
    /// Makes the header point to what stands beside it.
    fn address(&mut self, name_len: u32, control_len: usize) {
        let name = if name_len == 0 { std::ptr::null_mut() } else { self.peer.as_mut_ptr() };
        let control = if control_len == 0 { std::ptr::null_mut() } else { self.control.as_mut_ptr() };
        self.header = header(name, name_len, &mut self.place, control, control_len).msg_hdr;
    }
}

/// What a receive that goes on is told: how much room the kernel leaves in front of the bytes.
pub(super) fn template() -> libc::msghdr {
    let mut template = header(std::ptr::null_mut(), PeerAddress::ROOM, std::ptr::null_mut(), std::ptr::null_mut(), 0);
    template.msg_hdr.msg_iovlen = 0;
    template.msg_hdr.msg_controllen = Control::ROOM as _;
    template.msg_hdr
}

/// Reads what the kernel wrote into a buffer of a pool. `None` if that is shorter than its header.
pub(super) fn parcel<'a>(buffer: &'a mut [u8], template: &libc::msghdr) -> Option<Parcel<'a>> {
    let out = RecvMsgOut::parse(buffer, template).ok()?;
    let flags = if out.is_payload_truncated() { libc::MSG_TRUNC } else { 0 };
    let arrived = control::read(out.control_data(), out.incoming_payload_len() as usize, flags);
    let source = PeerAddress::of_bytes(out.name_data());
    let len = out.payload_data().len();
    Some(Parcel { bytes: &mut buffer[MESSAGE_ROOM..][..len], arrived, source })
}
