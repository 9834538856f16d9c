//! Memory that the kernel reads and writes behind the program's back.
//!
//! It is reached through raw pointers only, never through a reference that outlives a call: while
//! the kernel has a buffer, the program holds no reference to it. So every buffer counts the
//! operations that use it, and lends its bytes only at zero.

use std::ops::Range;
use std::{io, slice};

use crate::buffer::{Mapping, PAGE_BYTES as PAGE, PageOffset};

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
