//! Memory of a ring: made, lent to the program, and given back.
//!
//! Buffers and messages are of whole operations, pools of receives that go on.

use std::io;
use std::ops::Range;

use super::feature::Missing;
use super::message::{self, MessageId, Parcel};
use super::op::Uses;
use super::pool::{Entries, Pool, PoolId, Taken};
use super::{BufferId, Ring};
use crate::datagram::{Arrived, PeerAddress};

impl Ring {
    /// Makes a buffer of `len` bytes that belongs to the ring.
    ///
    /// # Errors
    ///
    /// The machine's memory is exhausted.
    pub fn new_buffer(&mut self, len: usize) -> Result<BufferId, Missing> {
        self.buffers.add(len).map_err(|error| Missing::of("making a buffer", &error))
    }

    /// Makes a buffer longer; its content is lost.
    ///
    /// # Errors
    ///
    /// The machine's memory is exhausted.
    ///
    /// # Panics
    ///
    /// If an operation uses it.
    pub fn lengthen_buffer(&mut self, buffer: BufferId, len: usize) -> Result<(), Missing> {
        self.buffers.lengthen(buffer, len).map_err(|error| Missing::of("making a buffer longer", &error))
    }

    /// A buffer's bytes; none while an operation uses it.
    #[inline]
    pub fn buffer(&mut self, buffer: BufferId) -> Option<&mut [u8]> {
        self.buffers.bytes(buffer)
    }

    /// How long a buffer is.
    #[must_use]
    #[inline]
    pub fn buffer_len(&self, buffer: BufferId) -> usize {
        self.buffers.len(buffer)
    }

    /// Whether an operation uses a buffer.
    #[must_use]
    #[inline]
    pub fn is_in_use(&self, buffer: BufferId) -> bool {
        self.buffers.in_use(buffer)
    }

    /// Makes a message of `len` bytes that belongs to the ring.
    ///
    /// # Errors
    ///
    /// The machine's memory is exhausted.
    pub fn new_message(&mut self, len: usize) -> Result<MessageId, Missing> {
        self.buffers.add_message(len).map_err(|error| Missing::of("making a message", &error))
    }

    /// A message's bytes; none while an operation uses it.
    #[inline]
    pub fn message(&mut self, message: MessageId) -> Option<&mut [u8]> {
        self.buffers.bytes(message.0)
    }

    /// The kernel's report on a message that was received with `moved` bytes.
    ///
    /// # Panics
    ///
    /// While an operation uses it.
    #[inline]
    pub fn arrived(&mut self, message: MessageId, moved: usize) -> Arrived {
        self.buffers.arrived(message, moved)
    }

    /// The sender of a message that was received.
    ///
    /// # Panics
    ///
    /// While an operation uses it.
    #[inline]
    pub fn source(&mut self, message: MessageId) -> PeerAddress {
        self.buffers.source(message)
    }

    /// Makes a pool of buffers for receives, none of which is offered yet: [`Ring::keep_offered`],
    /// [`Ring::offer_all`].
    ///
    /// # Errors
    ///
    /// The feature that this machine lacks; `Refused` with `EINVAL` before Linux 5.19.
    pub fn new_pool(&mut self, buffers: u16, buffer_len: usize) -> Result<PoolId, Missing> {
        let doing = "making a ring of provided buffers";
        let pool = Pool::new(buffers, buffer_len).map_err(|error| Missing::of(doing, &error))?;
        let index = self.pools.iter().position(Option::is_none).unwrap_or(self.pools.len());
        if index >= usize::from(u16::MAX) {
            return Err(Missing::Refused { doing, errno: libc::ENOSPC });
        }
        let id = PoolId(index as u16);
        self.register(id.0, pool.entries()).map_err(|error| Missing::of(doing, &error))?;
        if index == self.pools.len() {
            self.pools.push(None);
        }
        self.pools[index] = Some(pool);
        Ok(id)
    }

    /// Gives a pool's memory back.
    ///
    /// # Panics
    ///
    /// If an operation uses it.
    pub fn retire_pool(&mut self, pool: PoolId) {
        let in_use =
            |uses: Uses| matches!(uses, Uses::Pool(id) | Uses::Lent(id, _) | Uses::MessageLent(_, id, _) if id == pool);
        assert!(!self.ops.all().any(|op| in_use(op.uses)), "a pool in use keeps its memory");
        if self.io.submitter().unregister_buf_ring(pool.0).is_ok() {
            self.pools[usize::from(pool.0)] = None;
        }
    }

    /// Offers all buffers of a pool to receives.
    pub fn offer_all(&mut self, pool: PoolId) {
        self.keep_offered(pool, u16::MAX);
    }

    /// Keeps `buffers` buffers of a pool offered to receives, or all if it has fewer. The fewer are offered, the fewer
    /// different ones are used in turn; a receive that finds none ends with `ENOBUFS`.
    pub fn keep_offered(&mut self, pool: PoolId, buffers: u16) {
        self.pool(pool).keep_offered(buffers);
    }

    /// How many buffers a pool has.
    #[must_use]
    pub fn pool_buffers(&self, pool: PoolId) -> u16 {
        self.pools[usize::from(pool.0)].as_ref().map_or(0, Pool::count)
    }

    /// How many buffers of a pool are neither offered nor in use.
    #[must_use]
    #[inline]
    pub fn idle_buffers(&self, pool: PoolId) -> usize {
        self.pools[usize::from(pool.0)].as_ref().map_or(0, Pool::idle)
    }

    /// Bytes of memory for data that operations have used so far, or may: buffers, messages, and of pools the buffers
    /// that were ever offered.
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        let pools: usize = self.pools.iter().flatten().map(Pool::touched_bytes).sum();
        self.buffers.bytes_in_all() + pools
    }

    /// Copies a part of a buffer, which sends may use, to the front of another, which no operation uses.
    ///
    /// # Panics
    ///
    /// If a receive uses the first, an operation the second, or one of them is too short.
    pub fn copy_buffer(&mut self, from: BufferId, part: &Range<usize>, to: BufferId) {
        self.buffers.copy(from, part, to);
    }

    /// The next bytes of what arrived; none when all were read.
    #[inline]
    pub fn piece(&mut self, taken: &mut Taken) -> Option<&mut [u8]> {
        self.pools[usize::from(taken.pool.0)].as_mut().expect("a pool that was not retired").piece(taken)
    }

    /// Copies a part of what arrived to `at` in a buffer that no operation uses.
    ///
    /// # Panics
    ///
    /// If an operation uses the buffer, or it is too short.
    pub fn copy_taken(&mut self, taken: &Taken, part: &Range<usize>, buffer: BufferId, at: usize) {
        let pool = self.pools[usize::from(taken.pool.0)].as_ref().expect("a pool that was not retired");
        let room = self.buffers.bytes(buffer).expect("a buffer that nothing uses");
        let mut room = &mut room[at..][..part.len()];
        let mut begin = part.start;
        while begin < part.end {
            let copied = pool.copy(taken, &(begin..part.end), room);
            room = &mut room[copied..];
            begin += copied;
        }
    }

    /// The message that [`Ring::receive_messages`] brought; none when it was read already.
    #[inline]
    pub fn parcel(&mut self, taken: &mut Taken) -> Option<Parcel<'_>> {
        let pool = self.pools[usize::from(taken.pool.0)].as_mut().expect("a pool that was not retired");
        message::parcel(pool.piece(taken)?, &self.template)
    }

    /// Offers the buffers of what arrived again.
    #[inline]
    #[expect(clippy::needless_pass_by_value, reason = "buffers that were given back must not be read any more")]
    pub fn give_back(&mut self, taken: Taken) {
        self.pool(taken.pool).give_back(&taken);
    }

    #[inline]
    pub(super) fn pool(&mut self, pool: PoolId) -> &mut Pool {
        self.pools[usize::from(pool.0)].as_mut().expect("a pool that was not retired")
    }

    fn register(&self, group: u16, entries: &Entries) -> io::Result<()> {
        // SAFETY: the address is that of as many entries as are named, page-aligned and zeroed. They and the memory that
        // they will name belong to this ring, which keeps them until the group is unregistered without operations in
        // flight, or leaks them.
        unsafe { self.io.submitter().register_buf_ring_with_flags(entries.address(), entries.count(), group, 0) }
    }
}
