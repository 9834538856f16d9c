//! Messages of a ring: bytes with an address and control messages, for recvmsg(2) and sendmsg(2).
//!
//! A message is a buffer of the ring with an envelope in front: the header, the address and the control messages. One
//! operation at a time uses it. A multishot receive takes buffers of a pool instead; the kernel then writes its
//! report in front of the bytes (io_uring_prep_recvmsg_multishot(3)).

use std::io;

use io_uring::types::RecvMsgOut;

use super::memory::{BufferId, Buffers};
use crate::datagram::{Arrived, Control, PeerAddress, SlotTarget, control_len, header, slots};

/// One of a ring's own messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageId(pub(super) BufferId);

/// A datagram that a multishot receive returned.
#[derive(Debug)]
pub struct Parcel<'a> {
    /// Its bytes, without what was cut off.
    pub bytes: &'a mut [u8],
    /// The kernel's report on it.
    pub arrived: Arrived,
    /// The sender; none on a connected socket of some kinds.
    pub source: PeerAddress,
}

/// Bytes that a buffer of a pool needs in addition to those of a datagram: the kernel's header of four words
/// (`struct io_uring_recvmsg_out`), the address and the control messages.
pub const MESSAGE_ROOM: usize = 16 + PeerAddress::ROOM as usize + Control::ROOM;

/// Memory that the kernel reads and writes in addition to the bytes.
#[repr(C)]
struct Envelope {
    header: libc::msghdr,
    place: libc::iovec,
    peer: PeerAddress,
    control: Control,
}

impl Buffers {
    /// A buffer with an envelope in front.
    pub(super) fn add_message(&mut self, len: usize) -> io::Result<MessageId> {
        self.add_behind(size_of::<Envelope>(), len).map(MessageId)
    }

    /// Hands a message to a receive: from here on only the kernel touches it.
    pub(super) fn lend_message_to_receive(&mut self, id: MessageId) -> *mut libc::msghdr {
        let (_, start, len) = self.parts(id.0);
        self.lend_message(id, (start, len), (PeerAddress::ROOM, Control::ROOM))
    }

    /// Hands a message to a send: of its own bytes, or of those that are elsewhere, and stay there until the operation is over.
    pub(super) fn lend_message_to_send(
        &mut self,
        id: MessageId,
        elsewhere: Option<*const u8>,
        to: SlotTarget<'_>,
    ) -> *const libc::msghdr {
        let (_, start, len) = self.parts(id.0);
        assert!(elsewhere.is_some() || to.len <= len, "a message as long as what is sent");
        let envelope = self.envelope(id);
        envelope.peer = to.peer.copied().unwrap_or_default();
        let peer = if envelope.peer.is_none() { 0 } else { envelope.peer.len() };
        // The kernel only reads what it sends.
        self.lend_message(id, (elsewhere.map_or(start, <*const u8>::cast_mut), to.len), (peer, 0))
    }

    /// The kernel's report on a message that was received with `moved` bytes.
    pub(super) fn arrived(&mut self, id: MessageId, moved: usize) -> Arrived {
        let envelope = self.envelope(id);
        let messages = envelope.control.filled(control_len(&envelope.header));
        slots::read(messages, moved, envelope.header.msg_flags)
    }

    /// The sender of a message that was received.
    pub(super) fn source(&mut self, id: MessageId) -> PeerAddress {
        let envelope = self.envelope(id);
        envelope.peer.set_len(envelope.header.msg_namelen);
        envelope.peer
    }

    /// Marks a message as used, with bytes, and room for an address and control messages.
    fn lend_message(
        &mut self,
        id: MessageId,
        (start, len): (*mut u8, usize),
        (name_len, control_len): (u32, usize),
    ) -> *mut libc::msghdr {
        self.lend_to_receive(id.0, &(0..0));
        let envelope = self.parts(id.0).0.cast::<Envelope>();
        // Pointers that are kept are made of the mapping's, not of a reference: that would be invalid at the next reference.
        // SAFETY: the mapping begins with an envelope (see `envelope`). From now on only the operation uses it.
        unsafe {
            let null = std::ptr::null_mut();
            let name = if name_len == 0 { null } else { PeerAddress::raw(&raw mut (*envelope).peer) };
            let control = if control_len == 0 { null } else { Control::raw(&raw mut (*envelope).control) };
            (*envelope).place = libc::iovec { iov_base: start.cast(), iov_len: len };
            (*envelope).header = header(name, name_len, &raw mut (*envelope).place, control, control_len).msg_hdr;
            &raw mut (*envelope).header
        }
    }

    /// The envelope of a message that no operation uses.
    fn envelope(&mut self, id: MessageId) -> &mut Envelope {
        assert!(!self.in_use(id.0), "one operation a message");
        // SAFETY: a message is made with room for an envelope at the begin of its mapping (`add_message`), of which the
        // kernel's zeroes are a value (integers and null pointers). No operation uses it, and the exclusive borrow of `self`
        // keeps any from starting and other references from existing for as long as this one lives.
        unsafe { &mut *self.parts(id.0).0.cast::<Envelope>() }
    }
}

/// The template for a multishot receive: the size of the room that the kernel leaves in front of the bytes.
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
    let arrived = slots::read(out.control_data(), out.incoming_payload_len() as usize, flags);
    let source = PeerAddress::of_bytes(out.name_data());
    let len = out.payload_data().len();
    Some(Parcel { bytes: &mut buffer[MESSAGE_ROOM..][..len], arrived, source })
}

#[cfg(all(test, miri))]
mod miri {
    use std::slice;

    use super::*;

    /// The kernel's part in a receive.
    fn fill(header: *mut libc::msghdr, bytes: &[u8]) {
        // SAFETY: the header's pointers and lengths are valid.
        unsafe {
            (*(*header).msg_iov).iov_base.cast::<u8>().copy_from(bytes.as_ptr(), bytes.len());
            (*header).msg_name.cast::<u16>().write(libc::AF_UNIX as u16);
            (*header).msg_namelen = 4;
            (*header).msg_control.cast::<u8>().write_bytes(0, (*header).msg_controllen);
            (*header).msg_controllen = 0;
        }
    }

    #[test]
    fn a_message_goes_to_the_kernel_and_back() {
        let mut messages = Buffers::default();
        let ids = [messages.add_message(100).unwrap(), messages.add_message(100).unwrap()];
        for id in ids {
            for _ in 0..3 {
                messages.bytes(id.0).unwrap().fill(1);
                let header = messages.lend_message_to_receive(id);
                assert!(messages.bytes(id.0).is_none());
                fill(header, b"it came");
                messages.take_back(id.0);
                assert_eq!(messages.arrived(id, 7).len, 7);
                assert!(!messages.source(id).is_none());
                assert_eq!(&messages.bytes(id.0).unwrap()[..8], b"it came\x01");
                let header = messages.lend_message_to_send(id, None, SlotTarget { len: 7, peer: None });
                // SAFETY: as in `fill`.
                let (place, control) = unsafe { (*(*header).msg_iov, (*header).msg_controllen) };
                // SAFETY: as in `fill`.
                assert_eq!(unsafe { slice::from_raw_parts(place.iov_base.cast::<u8>(), place.iov_len) }, b"it came");
                assert_eq!(control, 0);
                messages.take_back(id.0);
            }
        }
    }
}
