//! Pieces of memory that one connection sends as a bundle, offered to the kernel in the order in which they leave.
//!
//! A piece is of the queue's own memory, in which messages are composed, or of a buffer in which bytes were received and
//! from which they are sent back. The queue keeps them all until they are sent. A bundle takes the offered pieces.
//! Pieces that it leaves are still offered, except the rest of a piece of which it took a part.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU16, Ordering};
use std::{io, slice};

use io_uring::types::BufRingEntry;

use super::memory::{BufferId, pages};
use super::pool::PoolId;
use crate::mapping::Mapping;

/// Names a send queue of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueId(pub(super) u16);

/// The memory that a piece is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendSource {
    /// The queue's own memory.
    Own,
    /// A buffer of a pool.
    Pool(PoolId, u16),
    /// A buffer of the ring.
    Buffer(BufferId),
}

/// A part of some memory that is to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendPiece {
    pub(super) source: SendSource,
    pub(super) start: *const u8,
    pub(super) len: usize,
}

/// Counts of the pieces that a send used.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// Pieces that it used up.
    pub(super) pieces: u16,
    /// Bytes of the last of them that were not sent.
    pub(super) lost: usize,
}

/// What one connection sends as bundles.
#[derive(Debug)]
pub struct SendQueue {
    entries: Entries,
    memory: Mapping,
    len: usize,
    /// Those that were offered and not sent; the first one perhaps in part.
    pieces: VecDeque<SendPiece>,
    /// A send is in flight.
    pub(super) in_use: bool,
}

impl SendQueue {
    pub(super) fn new(pieces: u16, len: usize) -> io::Result<SendQueue> {
        let entries = Entries::new(pieces)?;
        let pieces = VecDeque::with_capacity(usize::from(entries.count()));
        Ok(SendQueue { entries, memory: pages(len)?, len, pieces, in_use: false })
    }

    pub(super) fn entries(&self) -> &Entries {
        &self.entries
    }

    /// Bytes of its own memory.
    #[must_use]
    pub fn room(&self) -> usize {
        self.len
    }

    /// Whether nothing that was offered is left to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Whether a send is in flight.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.in_use
    }

    /// How many pieces may still be offered to the next send.
    #[must_use]
    pub fn free(&self) -> usize {
        usize::from(self.entries.count()) - self.pieces.len()
    }

    /// The queue's own memory behind the pieces that were offered, unless a send is in flight.
    pub(super) fn bytes(&mut self, part: &Range<usize>) -> Option<&mut [u8]> {
        assert!(part.start <= part.end && part.end <= self.len, "a part of the queue's memory");
        if self.in_use {
            return None;
        }
        // SAFETY: inside the mapping, which the kernel has initialised to zero. No operation reads it now: bytes are sent
        // only while one is in flight. The exclusive borrow of `self` keeps any from starting, and other slices from
        // existing, for as long as this one lives.
        Some(unsafe { slice::from_raw_parts_mut(self.memory.at(part.start), part.len()) })
    }

    /// A piece of the queue's own memory.
    pub(super) fn own(&self, part: &Range<usize>) -> SendPiece {
        assert!(part.start <= part.end && part.end <= self.len, "a part of the queue's memory");
        SendPiece { source: SendSource::Own, start: self.memory.at(part.start), len: part.len() }
    }

    /// Offers a piece to the next send. The memory that it is a part of must stay until [`sent`](Self::sent) or
    /// [`start_over`](Self::start_over) lets go of it.
    pub(super) fn offer(&mut self, piece: SendPiece) {
        assert!(self.free() > 0, "a queue has room for the piece");
        let bid = self.entries.place(self.entries.tail()) as u16;
        self.entries.offer(piece.start, piece.len as u32, bid);
        self.pieces.push_back(piece);
    }

    /// A send took `moved` bytes, beginning with the entry `first`. `release` lets go of what was sent.
    pub(super) fn sent(&mut self, first: u16, moved: usize, mut release: impl FnMut(SendSource)) -> Sent {
        let offered = self.entries.tail().wrapping_sub(self.pieces.len() as u16);
        assert_eq!(
            usize::from(first),
            self.entries.place(offered),
            "pieces leave in the order in which they were offered"
        );
        let (mut left, mut sent) = (moved, Sent::default());
        while left > 0 {
            let Some(piece) = self.pieces.front_mut() else { break };
            sent.pieces += 1;
            if left < piece.len {
                piece.len -= left;
                piece.start = piece.start.wrapping_add(left);
                sent.lost = piece.len;
                break;
            }
            left -= piece.len;
            release(piece.source);
            self.pieces.pop_front();
        }
        sent
    }

    /// Forgets all pieces, and returns what was not sent of them. Only for entries that the kernel no longer knows.
    pub(super) fn start_over(&mut self, mut release: impl FnMut(SendSource)) -> Vec<u8> {
        assert!(!self.in_use, "a queue in use keeps its pieces");
        let mut rest = Vec::new();
        for piece in self.pieces.drain(..) {
            // SAFETY: offered memory stays until it is released, which is below. Nothing writes to it meanwhile: it is of
            // this queue, exclusively borrowed, or marked as used by a send in the ring that owns both.
            rest.extend_from_slice(unsafe { slice::from_raw_parts(piece.start, piece.len) });
            release(piece.source);
        }
        self.entries.reset();
        rest
    }
}

// A ring of provided buffers as the kernel sees it: entries, of which it takes the next one when data moves.

/// Most entries of one ring (io_uring_register_buf_ring(3)).
const ENTRIES_MAX: u16 = 1 << 15;

/// The shared entries of one buffer group.
#[derive(Debug)]
pub(super) struct Entries {
    memory: Mapping,
    count: u16,
    tail: u16,
}

impl Entries {
    /// At least `count` entries; rounded up to a power of two.
    pub(super) fn new(count: u16) -> io::Result<Entries> {
        let count = count.clamp(1, ENTRIES_MAX).next_power_of_two();
        Ok(Entries { memory: pages(usize::from(count) * size_of::<BufRingEntry>())?, count, tail: 0 })
    }

    /// Where they are: registered with the kernel.
    pub(super) fn address(&self) -> u64 {
        self.memory.start() as u64
    }

    pub(super) fn count(&self) -> u16 {
        self.count
    }

    /// How many entries were offered, wrapping.
    pub(super) fn tail(&self) -> u16 {
        self.tail
    }

    /// The place in the ring of the entry that is offered at this count.
    #[inline]
    pub(super) fn place(&self, at: u16) -> usize {
        usize::from(at & (self.count - 1))
    }

    /// Offers memory to the kernel under the name `bid`. At most `count` entries may be offered and not taken; the
    /// memory must stay until the kernel has used it.
    #[inline]
    pub(super) fn offer(&mut self, address: *const u8, len: u32, bid: u16) {
        // SAFETY: the place is one of the `count` entries of the mapping, aligned since that begins on a page. The kernel
        // reads the entries between its head and the tail only. This place is not among them until the tail moves
        // below, because no more than `count` are offered.
        let entry = unsafe { &mut *self.memory.start().cast::<BufRingEntry>().add(self.place(self.tail)) };
        entry.set_addr(address as u64);
        entry.set_len(len);
        entry.set_bid(bid);
        self.tail = self.tail.wrapping_add(1);
        self.tail_place().store(self.tail, Ordering::Release);
    }

    /// Empties the ring. Only for a ring that is no longer registered with the kernel.
    pub(super) fn reset(&mut self) {
        self.tail = 0;
        self.tail_place().store(0, Ordering::Release);
    }

    fn tail_place(&self) -> &AtomicU16 {
        // SAFETY: the mapping begins with an initialised entry, inside which the tail is, aligned to two bytes. It is
        // reached through this atomic alone (writing an entry leaves it out) and lives as long as the mapping, which
        // `self` borrows.
        unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.memory.start().cast()).cast_mut()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(pieces: u16, text: &[u8], len: usize) -> SendQueue {
        let mut queue = SendQueue::new(pieces, text.len()).unwrap();
        queue.bytes(&(0..text.len())).unwrap().copy_from_slice(text);
        for begin in (0..text.len()).step_by(len) {
            queue.offer(queue.own(&(begin..(begin + len).min(text.len()))));
        }
        queue
    }

    #[test]
    fn pieces_are_released_in_order() {
        let mut queue = filled(4, b"abcdefgh", 2);
        assert_eq!(queue.free(), 0);
        assert_eq!(queue.sent(0, 4, |_| ()), Sent { pieces: 2, lost: 0 });
        assert_eq!(queue.sent(2, 2, |source| assert_eq!(source, SendSource::Own)), Sent { pieces: 1, lost: 0 });
        queue.offer(queue.own(&(0..3)));
        assert_eq!(queue.start_over(|_| ()), b"ghabc");
        assert_eq!(queue.free(), 4);
    }

    #[test]
    fn a_cut_piece_keeps_its_rest() {
        let mut queue = filled(4, b"abcdefgh", 3);
        assert_eq!(queue.sent(0, 4, |_| ()), Sent { pieces: 2, lost: 2 });
        assert_eq!(queue.start_over(|_| ()), b"efgh");
    }

    #[test]
    #[should_panic(expected = "in the order")]
    fn a_send_out_of_order_panics() {
        filled(4, b"abcd", 1).sent(1, 1, |_| ());
    }
}
