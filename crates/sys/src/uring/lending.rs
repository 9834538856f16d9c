//! Memory of a ring: made, lent to the program, and given back.
//!
//! Buffers and messages are of whole operations, pools of receives that go on.

use std::ops::Range;

use super::feature::Missing;
use super::memory::{self, MessageId, Parcel};
use super::pool::{Pool, PoolId, Taken};
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
    #[inline]
    pub fn buffer_len(&self, buffer: BufferId) -> usize {
        self.buffers.len(buffer)
    }

    /// Whether an operation uses a buffer.
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

    /// The kernel's report on a message that was received with `moved` bytes, and its sender.
    ///
    /// # Panics
    ///
    /// While an operation uses it.
    #[inline]
    pub fn arrived(&mut self, message: MessageId, moved: usize) -> (Arrived, PeerAddress) {
        self.buffers.arrived(message, moved)
    }

    /// Makes a pool of buffers for receives, none of which is offered yet: [`Ring::keep_offered`].
    ///
    /// # Errors
    ///
    /// The feature that this machine lacks; `Refused` with `EINVAL` before Linux 5.19.
    pub fn new_pool(&mut self, buffers: u16, buffer_len: usize) -> Result<PoolId, Missing> {
        let doing = "making a ring of provided buffers";
        let pool = Pool::new(buffers, buffer_len).map_err(|error| Missing::of(doing, &error))?;
        let id = u16::try_from(self.pools.len()).map_err(|_| Missing::Refused { doing, errno: libc::ENOSPC })?;
        let (address, count) = pool.entries();
        // SAFETY: the address is that of as many entries as are named, page-aligned and zeroed. They and the memory that
        // they will name belong to this ring, which keeps them until nothing is in flight, or leaks them.
        let registered = unsafe { self.io.submitter().register_buf_ring_with_flags(address, count, id, 0) };
        registered.map_err(|error| Missing::of(doing, &error))?;
        self.pools.push(pool);
        Ok(PoolId(id))
    }

    /// Keeps `buffers` buffers of a pool offered to receives, or all if it has fewer. The fewer are offered, the fewer
    /// different ones are used in turn; a receive that finds none ends with `ENOBUFS`.
    pub fn keep_offered(&mut self, pool: PoolId, buffers: u16) {
        self.pool(pool).keep_offered(buffers);
    }

    /// How many buffers a pool has.
    pub fn pool_buffers(&self, pool: PoolId) -> u16 {
        self.pools[usize::from(pool.0)].entries().1
    }

    /// How many buffers of a pool are neither offered nor in use.
    #[inline]
    pub fn idle_buffers(&self, pool: PoolId) -> usize {
        self.pools[usize::from(pool.0)].idle()
    }

    /// Bytes of memory for data that operations have used so far, or may: buffers, messages, and of pools the buffers
    /// that were ever offered.
    pub fn buffer_bytes(&self) -> usize {
        let pools: usize = self.pools.iter().map(Pool::touched_bytes).sum();
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
        self.pool(taken.pool).piece(taken)
    }

    /// Copies a part of what arrived to `at` in a buffer that no operation uses.
    ///
    /// # Panics
    ///
    /// If an operation uses the buffer, or it is too short.
    pub fn copy_taken(&mut self, taken: &Taken, part: &Range<usize>, buffer: BufferId, at: usize) {
        let pool = &self.pools[usize::from(taken.pool.0)];
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
        let pool = &mut self.pools[usize::from(taken.pool.0)];
        memory::parcel(pool.piece(taken)?, &self.template)
    }

    /// Offers the buffers of what arrived again.
    #[inline]
    #[expect(clippy::needless_pass_by_value, reason = "buffers that were given back must not be read any more")]
    pub fn give_back(&mut self, taken: Taken) {
        self.pool(taken.pool).give_back(&taken);
    }

    #[inline]
    pub(super) fn pool(&mut self, pool: PoolId) -> &mut Pool {
        &mut self.pools[usize::from(pool.0)]
    }
}
