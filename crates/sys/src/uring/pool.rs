//! A ring of provided buffers: the kernel takes the next one when data moves, and not before.
//!
//! One pool serves all receives of a ring; a pool for sends holds one connection's chunks in the
//! order in which they leave. Each buffer is either the kernel's (it has a place in the ring) or
//! the program's, and only the program's are lent. A completion names the first buffer it used; a
//! bundle used those that follow it in the ring's order as well (io_uring_prep_recv(3)).

use std::io;
use std::slice;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;

use super::memory::{Mapping, STAGGER};

/// Most buffers of one pool (io_uring_register_buf_ring(3)).
const ENTRIES_MAX: u16 = 1 << 15;

/// Where a buffer is that the program has.
const OURS: u16 = u16::MAX;

/// Names a pool of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolId(pub(super) u16);

/// Received bytes, in one or more buffers of a pool. Give it back, or the pool is so many buffers
/// shorter.
#[derive(Debug)]
#[must_use]
pub struct Taken {
    pub(super) pool: PoolId,
    first: u16,
    buffers: u16,
    at: u16,
    left: usize,
}

impl Taken {
    /// How many buffers hold the bytes.
    #[must_use]
    pub fn buffers(&self) -> u16 {
        self.buffers
    }

    /// Bytes not yet read by [`super::Ring::piece`].
    #[must_use]
    pub fn left(&self) -> usize {
        self.left
    }
}

#[derive(Debug)]
pub(super) struct Pool {
    memory: Mapping,
    entries: u16,
    /// Bytes of one buffer, and from one to the next.
    buffer_len: usize,
    stride: usize,
    first_offset: usize,
    tail: u16,
    /// By place in the ring: the buffer there.
    order: Box<[u16]>,
    /// By buffer: its place in the ring, or [`OURS`].
    place: Box<[u16]>,
    /// By buffer: the next one of the bundle it is lent with.
    follower: Box<[u16]>,
    /// By buffer: how many bytes of it were offered.
    offered: Box<[u32]>,
    /// Buffers that hold nothing, for sends.
    idle: Vec<u16>,
    /// Sends only: how often a buffer was sent, wrapping as the tail does.
    sent: u16,
    /// The buffer of which a send took a part only, and where the rest of it begins.
    cut: Option<(u16, usize)>,
}

impl Pool {
    /// At least `buffers` buffers, all of them the program's; `buffers` is rounded up to a power of
    /// two.
    pub(super) fn new(buffers: u16, buffer_len: usize) -> io::Result<Pool> {
        let entries = buffers.clamp(1, ENTRIES_MAX).next_power_of_two();
        let count = usize::from(entries);
        let stride = buffer_len.next_multiple_of(64) + STAGGER;
        // The ring of entries comes first: it must begin on a page.
        let first_offset = count * size_of::<BufRingEntry>();
        let memory = Mapping::new(first_offset + count * stride)?;
        Ok(Pool {
            memory,
            entries,
            buffer_len,
            stride,
            first_offset,
            tail: 0,
            order: vec![0; count].into(),
            place: vec![OURS; count].into(),
            follower: vec![OURS; count].into(),
            offered: vec![0; count].into(),
            idle: (0..entries).rev().collect(),
            sent: 0,
            cut: None,
        })
    }

    /// Where the ring of entries is: what the kernel is told.
    pub(super) fn address(&self) -> u64 {
        self.memory.start() as u64
    }

    pub(super) fn entries(&self) -> u16 {
        self.entries
    }

    /// Offers every idle buffer to receives.
    pub(super) fn offer_all(&mut self) {
        while let Some(buffer) = self.idle.pop() {
            self.offer(buffer, self.buffer_len);
        }
    }

    /// Copies the front of `bytes` into an idle buffer and offers it to sends. Returns how many
    /// bytes it took, 0 without an idle buffer.
    pub(super) fn put(&mut self, bytes: &[u8]) -> usize {
        let Some(buffer) = self.idle.pop() else { return 0 };
        let len = bytes.len().min(self.buffer_len);
        self.bytes(buffer, len).copy_from_slice(&bytes[..len]);
        self.offer(buffer, len);
        len
    }

    /// Whether a buffer is idle.
    pub(super) fn has_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Takes back what a receive of `moved` bytes used, beginning with buffer `first`.
    pub(super) fn lend(&mut self, pool: PoolId, first: u16, moved: usize) -> Taken {
        let buffers = moved.div_ceil(self.buffer_len).max(1) as u16;
        let mut at = first;
        for left in (0..buffers).rev() {
            let next = self.claim(at);
            self.follower[usize::from(at)] = if left == 0 { OURS } else { next };
            at = next;
        }
        Taken { pool, first, buffers, at: first, left: moved }
    }

    /// The next bytes of what was lent, exclusively.
    pub(super) fn piece(&mut self, taken: &mut Taken) -> Option<&mut [u8]> {
        if taken.left == 0 {
            return None;
        }
        let (buffer, len) = (taken.at, taken.left.min(self.buffer_len));
        taken.left -= len;
        taken.at = self.follower[usize::from(buffer)];
        Some(self.bytes(buffer, len))
    }

    /// Offers again what was lent.
    pub(super) fn give_back(&mut self, taken: &Taken) {
        let mut at = taken.first;
        for _ in 0..taken.buffers {
            let next = self.follower[usize::from(at)];
            self.offer(at, self.buffer_len);
            at = next;
        }
    }

    /// Makes those buffers idle that a send of `moved` bytes used, beginning with buffer `first`. Returns
    /// how many they were, and how many bytes of the last one were not sent.
    pub(super) fn sent(&mut self, first: u16, moved: usize) -> (u16, usize) {
        let (mut at, mut left, mut buffers) = (first, moved, 0);
        loop {
            let next = self.claim(at);
            self.idle.push(at);
            buffers += 1;
            let held = self.offered[usize::from(at)] as usize;
            if left <= held {
                self.sent = self.sent.wrapping_add(buffers);
                self.cut = (left < held).then_some((at, left));
                return (buffers, held - left);
            }
            left -= held;
            at = next;
        }
    }

    /// Makes every buffer idle and returns what was not sent. Only for a ring that the kernel no longer
    /// knows.
    pub(super) fn start_over(&mut self) -> Vec<u8> {
        let unsent = (self.sent..).take(usize::from(self.tail.wrapping_sub(self.sent)));
        let unsent = unsent.map(|place| (self.order[usize::from(place & (self.entries - 1))], 0));
        let unsent: Vec<(u16, usize)> = self.cut.take().into_iter().chain(unsent).collect();
        self.forget();
        let mut rest = Vec::new();
        for (buffer, from) in unsent {
            let held = self.offered[usize::from(buffer)] as usize;
            rest.extend_from_slice(&self.bytes(buffer, held)[from..]);
        }
        rest
    }

    fn forget(&mut self) {
        (self.tail, self.sent) = (0, 0);
        self.tail_place().store(0, Ordering::Release);
        self.place.fill(OURS);
        self.idle = (0..self.entries).rev().collect();
    }

    /// The buffer becomes the program's. Returns the one behind it in the ring.
    fn claim(&mut self, buffer: u16) -> u16 {
        let place = std::mem::replace(&mut self.place[usize::from(buffer)], OURS);
        assert!(place != OURS, "the kernel used a buffer that it was not offered");
        self.order[usize::from(place.wrapping_add(1) & (self.entries - 1))]
    }

    /// The buffer becomes the kernel's.
    fn offer(&mut self, buffer: u16, len: usize) {
        let slot = usize::from(buffer);
        assert!(self.place[slot] == OURS, "a buffer is offered once");
        let place = self.tail & (self.entries - 1);
        let address = self.memory.at(self.first_offset + slot * self.stride) as u64;
        // SAFETY: the place is one of the `entries` entries at the front of the mapping, aligned
        // since the mapping begins on a page. The kernel reads entries between its head and the
        // tail only: there are as many entries as buffers and this buffer has no place, so this
        // place is outside that range until the tail moves below.
        let entry = unsafe { &mut *self.memory.start().cast::<BufRingEntry>().add(usize::from(place)) };
        entry.set_addr(address);
        entry.set_len(len as u32);
        entry.set_bid(buffer);
        self.place[slot] = place;
        self.order[usize::from(place)] = buffer;
        self.offered[slot] = len as u32;
        self.tail = self.tail.wrapping_add(1);
        self.tail_place().store(self.tail, Ordering::Release);
    }

    fn tail_place(&self) -> &AtomicU16 {
        // SAFETY: the mapping begins with an initialised entry, inside which the tail lies, aligned
        // to two bytes. It is reached through this atomic alone (writing an entry leaves it out) and
        // lives as long as the mapping, which `self` borrows.
        unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.memory.start().cast()).cast_mut()) }
    }

    /// The front of a buffer that is the program's.
    fn bytes(&mut self, buffer: u16, len: usize) -> &mut [u8] {
        let slot = usize::from(buffer);
        assert!(self.place[slot] == OURS && len <= self.buffer_len, "the kernel has this buffer");
        let start = self.memory.at(self.first_offset + slot * self.stride);
        // SAFETY: buffers lie side by side behind the entries, each `stride` long, so these bytes
        // are inside the mapping and in no other buffer. The kernel does not have this one, and the
        // exclusive borrow of `self` keeps it from being offered while the slice lives.
        unsafe { slice::from_raw_parts_mut(start, len) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: PoolId = PoolId(0);

    proptest! {
        /// The kernel's side is played: it takes buffers from the ring's front, in order.
        #[test]
        fn no_buffer_is_lost_or_offered_twice(moves in proptest::collection::vec((1usize..40, 0usize..3), 1..200)) {
            let mut pool = Pool::new(8, 10).unwrap();
            pool.offer_all();
            let (mut head, mut lent) = (0u16, Vec::new());
            for (moved, wait) in moves {
                let offered = pool.tail.wrapping_sub(head) as usize;
                let moved = moved.min(offered * 10);
                if moved > 0 {
                    let first = pool.order[usize::from(head & 7)];
                    let mut taken = pool.lend(ID, first, moved);
                    head = head.wrapping_add(taken.buffers());
                    let mut seen = 0;
                    while let Some(piece) = pool.piece(&mut taken) {
                        seen += piece.len();
                        piece.fill(1);
                    }
                    prop_assert_eq!(seen, moved);
                    lent.push(taken);
                }
                while lent.len() > wait {
                    pool.give_back(&lent.remove(0));
                }
            }
            let held: usize = lent.iter().map(|taken| usize::from(taken.buffers())).sum();
            prop_assert_eq!(pool.tail.wrapping_sub(head) as usize + held, 8);
        }
    }

    #[test]
    fn sends_take_buffers_in_order_and_return_them() {
        let mut pool = Pool::new(4, 4).unwrap();
        let taken: Vec<_> = [&b"abcdef"[..], b"gh", b"i", b"jk", b"lm"].map(|bytes| pool.put(bytes)).into();
        assert_eq!(taken, [4, 2, 1, 2, 0]);
        assert!(!pool.has_idle());
        let first = pool.order[0];
        assert_eq!(pool.sent(first, 7), (3, 0));
        assert_eq!(pool.put(b"nop"), 3);
        let fourth = pool.order[3];
        assert_eq!(pool.sent(fourth, 4), (2, 1));
        assert_eq!(pool.start_over(), b"p");
        assert_eq!((pool.idle.len(), pool.put(b"x")), (4, 1));
    }

    #[test]
    #[should_panic(expected = "not offered")]
    fn a_buffer_that_was_not_offered_is_noticed() {
        let _ = Pool::new(2, 4).unwrap().lend(ID, 0, 1);
    }
}
