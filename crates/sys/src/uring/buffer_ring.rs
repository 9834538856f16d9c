//! A ring of provided buffers as the kernel sees it: entries, of which it takes the next one when data moves.

use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;

use super::memory::PageMapping;

/// Most entries of one ring (io_uring_register_buf_ring(3)).
const ENTRIES_MAX: u16 = 1 << 15;

/// The shared entries of one buffer group.
#[derive(Debug)]
pub(super) struct Entries {
    memory: PageMapping,
    count: u16,
    tail: u16,
}

impl Entries {
    /// At least `count` entries; rounded up to a power of two.
    pub(super) fn new(count: u16) -> io::Result<Entries> {
        let count = count.clamp(1, ENTRIES_MAX).next_power_of_two();
        Ok(Entries { memory: PageMapping::new(usize::from(count) * size_of::<BufRingEntry>())?, count, tail: 0 })
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
