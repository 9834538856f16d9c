//! Memory that the kernel reads and writes behind the program's back.
//!
//! It is reached through raw pointers only, never through a reference that outlives a call: while
//! the kernel has a buffer, the program holds no reference to it. So every buffer counts the
//! operations that use it, and lends its bytes only at zero.

use std::ops::Range;
use std::{io, slice};

use io_uring::types::RecvMsgOut;

use crate::buffer::{Mapping, PAGE_BYTES as PAGE, PageOffset};
use crate::datagram::{Arrived, Control, PeerAddress, SlotTarget, control_len, header, slots};

/// `len` zero bytes on a page boundary. They are not backed by memory until they are touched: a thousand connections cost what
/// they use, not what they might.
pub(super) fn pages(len: usize) -> io::Result<Mapping> {
    // Miri knows no other flags.
    let untouched = if cfg!(miri) { 0 } else { libc::MAP_NORESERVE };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | untouched;
    Mapping::new(len.max(1), libc::PROT_READ | libc::PROT_WRITE, flags, None)
}

/// One of a ring's own buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferId(u32);

/// Buffers of whole operations (not provided ones), messages included. One receive at a time uses a buffer, or any number
/// of sends.
#[derive(Debug, Default)]
pub(super) struct Buffers(Vec<Buffer>);

#[derive(Debug)]
struct Buffer {
    memory: Mapping,
    /// Where the bytes begin; the envelope of a message is at the front.
    offset: usize,
    len: usize,
    /// Operations that use it.
    users: u32,
    /// A receive is one of them.
    is_written: bool,
}

/// Buffers that all begin in the same place of a page fall into the same few sets of the caches when small messages
/// touch only their fronts. Seventeen lines from one to the next spread them, as a heap does.
pub(super) const STAGGER: usize = 17 * 64;

impl Buffers {
    pub(super) fn add(&mut self, len: usize) -> io::Result<BufferId> {
        let buffer = Buffer::new(self.0.len(), len)?;
        Ok(self.keep(buffer))
    }

    /// The same, with `front` bytes before those of the buffer, which begin on a page.
    pub(super) fn add_behind(&mut self, front: usize, len: usize) -> io::Result<BufferId> {
        let offset = match PageOffset::of_thread() {
            place @ PageOffset::At(_) => PAGE + place.bytes(len),
            PageOffset::Malloc => (front + (self.0.len() * STAGGER) % PAGE).next_multiple_of(64),
        };
        let buffer = Buffer::at(offset, len)?;
        Ok(self.keep(buffer))
    }

    fn keep(&mut self, buffer: Buffer) -> BufferId {
        self.0.push(buffer);
        BufferId((self.0.len() - 1) as u32)
    }

    /// The front of a buffer that has one, its bytes, and how many they are.
    pub(super) fn parts(&self, id: BufferId) -> (*mut u8, *mut u8, usize) {
        let buffer = self.of(id);
        (buffer.memory.start(), buffer.start(), buffer.len)
    }

    /// Replaces a buffer that the kernel does not use by a longer one. Its content is lost.
    pub(super) fn lengthen(&mut self, id: BufferId, len: usize) -> io::Result<()> {
        assert!(!self.in_use(id), "a buffer in use keeps its memory");
        self.0[id.0 as usize] = Buffer::new(id.0 as usize, len)?;
        Ok(())
    }

    #[inline]
    pub(super) fn in_use(&self, id: BufferId) -> bool {
        self.of(id).users > 0
    }

    #[inline]
    pub(super) fn len(&self, id: BufferId) -> usize {
        self.of(id).len
    }

    /// The bytes, unless the kernel has them.
    #[inline]
    pub(super) fn bytes(&mut self, id: BufferId) -> Option<&mut [u8]> {
        let buffer = &self.0[id.0 as usize];
        if buffer.users > 0 {
            return None;
        }
        // SAFETY: `len` bytes at `offset` are inside the mapping, which is initialised to zero by
        // the kernel. No operation uses them, and the exclusive borrow of `self` keeps any from
        // starting and other slices from existing for as long as the slice lives.
        Some(unsafe { slice::from_raw_parts_mut(buffer.start(), buffer.len) })
    }

    /// Hands a part of the buffer to a receive: from here on only the kernel touches the buffer.
    #[inline]
    pub(super) fn lend_to_receive(&mut self, id: BufferId, part: &Range<usize>) -> *mut u8 {
        let buffer = &mut self.0[id.0 as usize];
        assert!(buffer.users == 0, "a receive has its buffer alone");
        buffer.is_written = true;
        buffer.lend(part)
    }

    /// Hands a part of the buffer to a send, which only reads it.
    #[inline]
    pub(super) fn lend_to_send(&mut self, id: BufferId, part: &Range<usize>) -> *const u8 {
        let buffer = &mut self.0[id.0 as usize];
        assert!(!buffer.is_written, "a receive has its buffer alone");
        buffer.lend(part)
    }

    /// The operation is over.
    #[inline]
    pub(super) fn take_back(&mut self, id: BufferId) {
        let buffer = &mut self.0[id.0 as usize];
        buffer.users -= 1;
        buffer.is_written = false;
    }

    /// Copies a part of one buffer to the front of another.
    pub(super) fn copy(&mut self, from: BufferId, part: &Range<usize>, to: BufferId) {
        let (source, target) = (self.of(from), self.of(to));
        assert!(from != to && target.users == 0 && !source.is_written, "buffers that nothing writes to");
        assert!(part.start <= part.end && part.end <= source.len && part.len() <= target.len, "parts of the buffers");
        // SAFETY: both are inside their mappings, which are two, as was just checked. Sends read the first at most; nothing
        // uses the second, and the exclusive borrow of `self` keeps slices of either from existing.
        unsafe { source.start().add(part.start).copy_to_nonoverlapping(target.start(), part.len()) };
    }

    /// Bytes of all of them.
    pub(super) fn bytes_in_all(&self) -> usize {
        self.0.iter().map(|buffer| buffer.len).sum()
    }

    #[inline]
    fn of(&self, id: BufferId) -> &Buffer {
        &self.0[id.0 as usize]
    }
}

impl Buffer {
    fn new(id: usize, len: usize) -> io::Result<Buffer> {
        let place = PageOffset::of_thread();
        let stagger = if place.is_heap(len) { id * STAGGER } else { 0 };
        let offset = (place.bytes(len) + stagger) % PAGE;
        Buffer::at(offset, len)
    }

    fn at(offset: usize, len: usize) -> io::Result<Buffer> {
        Ok(Buffer { memory: pages(offset + len)?, offset, len, users: 0, is_written: false })
    }

    #[inline]
    fn lend(&mut self, part: &Range<usize>) -> *mut u8 {
        assert!(part.start <= part.end && part.end <= self.len, "a part of the buffer");
        self.users += 1;
        self.memory.at(self.offset + part.start)
    }

    #[inline]
    fn start(&self) -> *mut u8 {
        self.memory.at(self.offset)
    }
}

// Messages of a ring: bytes with an address and control messages, for recvmsg(2) and sendmsg(2).
//
// A message is a buffer of the ring with an envelope in front: the header, the address and the control messages. One
// operation at a time uses it. A multishot receive takes buffers of a pool instead; the kernel then writes its
// report in front of the bytes (io_uring_prep_recvmsg_multishot(3)).

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

    /// The kernel's report on a message that was received with `moved` bytes, and its sender.
    pub(super) fn arrived(&mut self, id: MessageId, moved: usize) -> (Arrived, PeerAddress) {
        let envelope = self.envelope(id);
        envelope.peer.set_len(envelope.header.msg_namelen);
        let messages = envelope.control.filled(control_len(&envelope.header));
        (slots::read(messages, moved, envelope.header.msg_flags), envelope.peer)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_lent_while_unused() {
        let mut buffers = Buffers::default();
        let ids: Vec<_> = (0..100).map(|len| buffers.add(len).unwrap()).collect();
        for (len, id) in ids.iter().enumerate() {
            let bytes = buffers.bytes(*id).unwrap();
            assert_eq!(bytes.len(), len);
            bytes.fill(1);
        }
        buffers.lend_to_send(ids[5], &(0..5));
        buffers.lend_to_send(ids[5], &(3..5));
        buffers.take_back(ids[5]);
        assert!(buffers.bytes(ids[5]).is_none() && buffers.in_use(ids[5]));
        buffers.take_back(ids[5]);
        assert_eq!(buffers.bytes(ids[5]).unwrap(), [1; 5]);
        buffers.lengthen(ids[5], 9000).unwrap();
        assert_eq!(buffers.len(ids[5]), 9000);
        assert!(buffers.bytes(ids[5]).unwrap().iter().all(|byte| *byte == 0));
    }

    #[test]
    #[should_panic(expected = "alone")]
    fn receive_and_send_never_share_a_buffer() {
        let mut buffers = Buffers::default();
        let id = buffers.add(9).unwrap();
        buffers.lend_to_send(id, &(0..4));
        buffers.lend_to_receive(id, &(4..9));
    }

    #[test]
    fn buffers_begin_at_the_offset_of_the_thread() {
        let start = |buffers: &mut Buffers, len| {
            let id = buffers.add(len).unwrap();
            buffers.bytes(id).unwrap().as_ptr() as usize % PAGE
        };
        let mut buffers = Buffers::default();
        assert_eq!([1 << 20, 128 << 10].map(|len| start(&mut buffers, len)), [16, 16]);
        PageOffset::At(48).set_for_thread();
        assert_eq!([64, 4096, 1 << 20].map(|len| start(&mut buffers, len)), [48, 48, 48]);
    }

    #[test]
    fn buffers_begin_in_different_places_of_a_page() {
        let mut buffers = Buffers::default();
        let mut starts: Vec<_> = (0..8)
            .map(|_| {
                let id = buffers.add(64).unwrap();
                buffers.bytes(id).unwrap().as_ptr() as usize % PAGE
            })
            .collect();
        starts.dedup();
        assert_eq!(starts.len(), 8);
    }
}

#[cfg(all(test, miri))]
mod miri {
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
                let (arrived, source) = messages.arrived(id, 7);
                assert_eq!(arrived.len, 7);
                assert!(!source.is_none());
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
