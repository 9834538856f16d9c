//! Buffers that receives take from: the kernel takes the next one when data arrives, and not before.
//!
//! Each buffer is the kernel's, while it is offered, or the program's, and only the program's are lent. A completion names
//! the first buffer it used; a bundle used those that were offered after it as well (io_uring_prep_recv(3)).
//!
//! The kernel takes buffers in the order in which they were offered, so a pool that offered all of them would go through
//! all its memory again and again. This pool offers few, and offers next the free buffer that was used last, so only the
//! buffers that are offered or in use are touched, regardless of the pool's size.
//!
//! A buffer that was given back while sends still read it is offered when the last of them is over.

use std::ops::Range;
use std::sync::atomic::{AtomicU16, Ordering};
use std::{io, slice};

use io_uring::types::BufRingEntry;

use super::memory::{STAGGER, pages};
use crate::buffer::{Mapping, PAGE_BYTES, PageOffset};

/// Where a buffer is that the program has.
const OURS: u16 = u16::MAX;

/// Names a pool of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolId(pub(super) u16);

/// Received bytes, in one or more buffers of a pool. Give it back, otherwise the pool is shorter by these
/// buffers.
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
    pub fn buffers(&self) -> u16 {
        self.buffers
    }

    /// Bytes not yet read by [`super::Ring::piece`].
    #[inline]
    pub fn left(&self) -> usize {
        self.left
    }
}

#[derive(Debug)]
pub(super) struct Pool {
    entries: Entries,
    memory: Mapping,
    /// Where the first buffer begins.
    first: usize,
    /// Bytes of one buffer, and from one to the next.
    buffer_len: usize,
    stride: usize,
    /// By place in the ring: the buffer there.
    order: Box<[u16]>,
    buffers: Box<[PoolBuffer]>,
    /// Buffers that hold nothing and are not offered; the one that was used last is at the end.
    idle: Vec<u16>,
    /// How many are offered, and shall be.
    offered: u16,
    wanted: u16,
    /// How many buffers were ever offered.
    touched: u16,
}

#[derive(Clone, Debug)]
struct PoolBuffer {
    /// Its place in the ring, or [`OURS`].
    place: u16,
    /// The next one of the bundle it is lent with.
    follower: u16,
    /// Sends that read it.
    users: u16,
    /// Whether it is lent, and was not given back.
    lent: bool,
}

impl Pool {
    /// At least `buffers` buffers, none of which is offered; `buffers` is rounded up to a power of two.
    pub(super) fn new(buffers: u16, buffer_len: usize) -> io::Result<Pool> {
        let entries = Entries::new(buffers)?;
        let count = entries.count;
        let stride = buffer_len.next_multiple_of(64) + STAGGER;
        Ok(Pool {
            memory: pages(usize::from(count) * stride + PAGE_BYTES)?,
            first: PageOffset::of_thread().bytes(usize::from(count) * stride),
            buffer_len,
            stride,
            order: vec![0; usize::from(count)].into(),
            buffers: vec![PoolBuffer { place: OURS, follower: OURS, users: 0, lent: false }; usize::from(count)].into(),
            idle: (0..count).rev().collect(),
            offered: 0,
            wanted: 0,
            touched: 0,
            entries,
        })
    }

    /// Where the entries are that the kernel takes buffers from, and how many there are, one a buffer.
    #[inline]
    pub(super) fn entries(&self) -> (u64, u16) {
        (self.entries.memory.start() as u64, self.entries.count)
    }

    /// Buffers that are kept back.
    #[inline]
    pub(super) fn idle(&self) -> usize {
        self.idle.len()
    }

    /// The buffer that the kernel takes after `taken` others, and how many are offered.
    #[cfg(test)]
    pub(super) fn next_offered(&self, taken: u16) -> (u16, u16) {
        (self.order[self.entries.place(taken)], self.offered)
    }

    /// Bytes of the buffers that were ever offered.
    pub(super) fn touched_bytes(&self) -> usize {
        usize::from(self.touched) * self.buffer_len
    }

    /// Keeps `wanted` buffers offered, or all if there are fewer.
    pub(super) fn keep_offered(&mut self, wanted: u16) {
        self.wanted = wanted.min(self.entries.count);
        self.top_up();
    }

    #[inline]
    fn top_up(&mut self) {
        while self.offered < self.wanted {
            let Some(buffer) = self.idle.pop() else { return };
            self.offer(buffer);
        }
    }

    /// Takes back what a receive of `moved` bytes used, beginning with buffer `first`.
    #[inline]
    pub(super) fn lend(&mut self, pool: PoolId, first: u16, moved: usize) -> Taken {
        // A division takes as long as the rest.
        let buffers = if moved <= self.buffer_len { 1 } else { moved.div_ceil(self.buffer_len) as u16 };
        let mut at = first;
        for left in (0..buffers).rev() {
            let next = self.claim(at);
            let state = &mut self.buffers[usize::from(at)];
            (state.follower, state.lent) = (if left == 0 { OURS } else { next }, true);
            at = next;
        }
        self.offered -= buffers;
        self.top_up();
        Taken { pool, first, buffers, at: first, left: moved }
    }

    /// The next bytes of what was lent, exclusively.
    #[inline]
    pub(super) fn piece(&mut self, taken: &mut Taken) -> Option<&mut [u8]> {
        if taken.left == 0 {
            return None;
        }
        let (buffer, len) = (taken.at, taken.left.min(self.buffer_len));
        taken.left -= len;
        taken.at = self.buffers[usize::from(buffer)].follower;
        Some(self.bytes(buffer, len))
    }

    /// The first part of `range` of what was lent that is in one buffer: which one, and where it is.
    #[inline]
    pub(super) fn front(&self, taken: &Taken, range: &Range<usize>) -> (u16, *const u8, usize) {
        let mut buffer = taken.first;
        for _ in 0..range.start / self.buffer_len {
            buffer = self.buffers[usize::from(buffer)].follower;
        }
        assert!(buffer != OURS && self.buffers[usize::from(buffer)].lent, "a part of what was lent");
        let at = range.start % self.buffer_len;
        (
            buffer,
            self.memory.at(self.first + usize::from(buffer) * self.stride + at),
            range.len().min(self.buffer_len - at),
        )
    }

    /// Copies the front of `range` of what was lent, as much as `room` holds and one buffer has. Returns how much.
    pub(super) fn copy(&self, taken: &Taken, range: &Range<usize>, room: &mut [u8]) -> usize {
        let (_, start, len) = self.front(taken, range);
        let len = len.min(room.len());
        // SAFETY: `front` has checked that the program has this buffer, and the bytes are inside the mapping. Others read
        // them at most: a writer has borrowed the pool exclusively, and the kernel writes to no buffer that it has not been offered.
        room[..len].copy_from_slice(unsafe { slice::from_raw_parts(start, len) });
        len
    }

    /// A send begins to read a buffer.
    #[inline]
    pub(super) fn hold(&mut self, buffer: u16) {
        self.buffers[usize::from(buffer)].users += 1;
    }

    /// A send has read a buffer.
    #[inline]
    pub(super) fn release(&mut self, buffer: u16) {
        let state = &mut self.buffers[usize::from(buffer)];
        state.users -= 1;
        self.take_back_unused(buffer);
    }

    /// Lets receives use the lent buffers again.
    #[inline]
    pub(super) fn give_back(&mut self, taken: &Taken) {
        let mut at = taken.first;
        for _ in 0..taken.buffers {
            let state = &mut self.buffers[usize::from(at)];
            let next = state.follower;
            state.lent = false;
            self.take_back_unused(at);
            at = next;
        }
    }

    /// Makes a buffer free that neither the kernel nor a send uses, and of which nothing is lent.
    #[inline]
    fn take_back_unused(&mut self, buffer: u16) {
        let state = &self.buffers[usize::from(buffer)];
        if state.place == OURS && state.users == 0 && !state.lent {
            self.idle.push(buffer);
            self.top_up();
        }
    }

    /// The buffer becomes the program's. Returns the one behind it in the ring.
    #[inline]
    fn claim(&mut self, buffer: u16) -> u16 {
        let place = std::mem::replace(&mut self.buffers[usize::from(buffer)].place, OURS);
        assert!(place != OURS, "the kernel used a buffer that it was not offered");
        self.order[self.entries.place(place.wrapping_add(1))]
    }

    /// The buffer becomes the kernel's.
    #[inline]
    fn offer(&mut self, buffer: u16) {
        let state = &mut self.buffers[usize::from(buffer)];
        assert!(state.place == OURS && state.users == 0 && !state.lent, "a buffer is offered once");
        let place = self.entries.place(self.entries.tail);
        state.place = place as u16;
        self.order[place] = buffer;
        self.offered += 1;
        self.touched = self.touched.max(buffer + 1);
        let start = self.memory.at(self.first + usize::from(buffer) * self.stride);
        self.entries.offer(start, self.buffer_len as u32, buffer);
    }

    /// The front of a buffer that is the program's.
    #[inline]
    fn bytes(&mut self, buffer: u16, len: usize) -> &mut [u8] {
        let state = &self.buffers[usize::from(buffer)];
        assert!(
            state.lent && state.place == OURS && state.users == 0 && len <= self.buffer_len,
            "another has this buffer"
        );
        let start = self.memory.at(self.first + usize::from(buffer) * self.stride);
        // SAFETY: buffers are next to each other, each `stride` long, so these bytes are inside the mapping and in no
        // other buffer. Neither the kernel nor a send has this one; the exclusive borrow of `self` keeps it from being offered
        // or sent while the slice lives.
        unsafe { slice::from_raw_parts_mut(start, len) }
    }
}

// A ring of provided buffers as the kernel sees it: entries, of which it takes the next one when data moves.

/// Most entries of one ring (io_uring_register_buf_ring(3)).
const ENTRIES_MAX: u16 = 1 << 15;

/// The shared entries of one buffer group.
#[derive(Debug)]
struct Entries {
    memory: Mapping,
    count: u16,
    /// How many were offered, wrapping.
    tail: u16,
}

impl Entries {
    /// At least `count` entries; rounded up to a power of two.
    fn new(count: u16) -> io::Result<Entries> {
        let count = count.clamp(1, ENTRIES_MAX).next_power_of_two();
        Ok(Entries { memory: pages(usize::from(count) * size_of::<BufRingEntry>())?, count, tail: 0 })
    }

    /// The place in the ring of the entry that is offered at this count.
    #[inline]
    fn place(&self, at: u16) -> usize {
        usize::from(at & (self.count - 1))
    }

    /// Offers memory to the kernel under the name `bid`. At most `count` entries may be offered and not taken; the
    /// memory must stay until the kernel has used it.
    #[inline]
    fn offer(&mut self, address: *const u8, len: u32, bid: u16) {
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

    fn tail_place(&self) -> &AtomicU16 {
        // SAFETY: the mapping begins with an initialised entry, inside which the tail is, aligned to two bytes. It is
        // reached through this atomic alone (writing an entry leaves it out) and lives as long as the mapping, which
        // `self` borrows.
        unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.memory.start().cast()).cast_mut()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: PoolId = PoolId(0);

    /// The kernel's side: takes what `moved` bytes need from the front of the ring, in order.
    struct Kernel {
        head: u16,
    }

    impl Kernel {
        fn room(&self, pool: &Pool) -> usize {
            usize::from(pool.entries.tail.wrapping_sub(self.head))
        }

        fn takes(&mut self, pool: &mut Pool, moved: usize) -> Taken {
            let first = pool.order[pool.entries.place(self.head)];
            let taken = pool.lend(ID, first, moved);
            self.head = self.head.wrapping_add(taken.buffers());
            taken
        }
    }

    proptest! {
        #[test]
        fn no_buffer_is_lost_or_offered_twice(
            moves in proptest::collection::vec((1usize..40, 0usize..3, any::<bool>()), 1..200), offered in 1u16..8,
        ) {
            let (mut pool, mut kernel) = (Pool::new(8, 10).unwrap(), Kernel { head: 0 });
            pool.keep_offered(offered);
            let (mut lent, mut read) = (Vec::new(), Vec::new());
            for (moved, wait, sends) in moves {
                let moved = moved.min(kernel.room(&pool) * 10);
                if moved > 0 {
                    let mut taken = kernel.takes(&mut pool, moved);
                    let mut seen = 0;
                    while let Some(piece) = pool.piece(&mut taken) {
                        seen += piece.len();
                        piece.fill(1);
                    }
                    prop_assert_eq!(seen, moved);
                    if sends {
                        let (buffer, ..) = pool.front(&taken, &(0..moved));
                        pool.hold(buffer);
                        read.push(buffer);
                    }
                    lent.push(taken);
                }
                while lent.len() > wait {
                    pool.give_back(&lent.remove(0));
                }
                if read.len() > 2 {
                    pool.release(read.remove(0));
                }
                prop_assert!(kernel.room(&pool) <= usize::from(offered));
            }
            lent.iter().for_each(|taken| pool.give_back(taken));
            read.into_iter().for_each(|buffer| pool.release(buffer));
            prop_assert_eq!(kernel.room(&pool) + pool.idle(), 8);
        }
    }

    #[test]
    fn few_buffers_are_touched_however_large_the_pool() {
        let (mut pool, mut kernel) = (Pool::new(1024, 10).unwrap(), Kernel { head: 0 });
        pool.keep_offered(4);
        for _ in 0..1000 {
            let taken = kernel.takes(&mut pool, 10);
            pool.give_back(&taken);
        }
        assert_eq!(pool.touched_bytes(), 5 * 10);
    }

    #[test]
    fn a_buffer_stays_while_a_send_reads_it() {
        let (mut pool, mut kernel) = (Pool::new(2, 4).unwrap(), Kernel { head: 0 });
        pool.keep_offered(2);
        let taken = kernel.takes(&mut pool, 3);
        let (buffer, _, len) = pool.front(&taken, &(1..3));
        assert_eq!(len, 2);
        pool.hold(buffer);
        pool.give_back(&taken);
        assert_eq!(kernel.room(&pool), 1);
        pool.release(buffer);
        assert_eq!(kernel.room(&pool), 2);
    }

    #[test]
    fn what_was_lent_is_copied_across_buffers() {
        let (mut pool, mut kernel) = (Pool::new(4, 4).unwrap(), Kernel { head: 0 });
        pool.keep_offered(4);
        let mut taken = kernel.takes(&mut pool, 10);
        let mut next = 0..10u8;
        while let Some(piece) = pool.piece(&mut taken) {
            piece.iter_mut().zip(&mut next).for_each(|(byte, value)| *byte = value);
        }
        let (mut room, mut at) = ([0; 7], 2);
        while at < 9 {
            at += pool.copy(&taken, &(at..9), &mut room[at - 2..]);
        }
        assert_eq!(room, [2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    #[should_panic(expected = "not offered")]
    fn a_buffer_that_was_not_offered_is_noticed() {
        let _ = Pool::new(2, 4).unwrap().lend(ID, 0, 1);
    }
}
