//! Memory of a ring: made, lent to the program, and given back.
//!
//! Buffers and messages are of whole operations, pools of receives that go on, send queues of bundles.

use std::io;
use std::ops::Range;

use super::feature::Missing;
use super::memory::Buffers;
use super::message::{self, MessageId, Parcel};
use super::op::Uses;
use super::pool::{Pool, PoolId, Taken};
use super::send_queue::Entries;
use super::send_queue::{QueueId, SendPiece, SendQueue, SendSource};
use super::{BufferId, QUEUE_GROUPS, Ring};
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
        if index >= usize::from(QUEUE_GROUPS) {
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

    /// Bytes of memory for data that operations have used so far, or may: buffers, messages, send queues, and of pools the buffers
    /// that were ever offered.
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        let pools: usize = self.pools.iter().flatten().map(Pool::touched_bytes).sum();
        let queues: usize = self.queues.iter().map(SendQueue::room).sum();
        self.buffers.bytes_in_all() + pools + queues
    }

    /// Makes a queue of what one connection sends as bundles: `pieces` at a time, with `len` bytes of memory of its own.
    ///
    /// # Errors
    ///
    /// As [`Ring::new_pool`].
    pub fn new_queue(&mut self, pieces: u16, len: usize) -> Result<QueueId, Missing> {
        let doing = "making a ring of provided buffers";
        let queue = SendQueue::new(pieces, len).map_err(|error| Missing::of(doing, &error))?;
        let index = self.queues.len();
        if index >= usize::from(u16::MAX - QUEUE_GROUPS) {
            return Err(Missing::Refused { doing, errno: libc::ENOSPC });
        }
        let id = QueueId(index as u16);
        self.register(QUEUE_GROUPS + id.0, queue.entries()).map_err(|error| Missing::of(doing, &error))?;
        self.queues.push(queue);
        Ok(id)
    }

    /// A part of a queue's own memory; none while a send is in flight. Do not change a part that was offered.
    #[inline]
    pub fn queue_bytes(&mut self, queue: QueueId, part: &Range<usize>) -> Option<&mut [u8]> {
        self.queues[usize::from(queue.0)].bytes(part)
    }

    /// The state of a queue.
    #[must_use]
    pub fn send_queue(&self, queue: QueueId) -> &SendQueue {
        &self.queues[usize::from(queue.0)]
    }

    /// Offers a part of a queue's own memory to its next send.
    ///
    /// # Panics
    ///
    /// If there is no room for a piece, or no such part.
    #[inline]
    pub fn offer_own(&mut self, queue: QueueId, part: &Range<usize>) {
        let queue = &mut self.queues[usize::from(queue.0)];
        queue.offer(queue.own(part));
    }

    /// Offers a part of a buffer to the next send of a queue, which uses the buffer until then.
    ///
    /// # Panics
    ///
    /// As [`Ring::offer_own`].
    pub fn offer_buffer(&mut self, queue: QueueId, buffer: BufferId, part: &Range<usize>) {
        let piece = SendPiece {
            source: SendSource::Buffer(buffer),
            start: self.buffers.lend_to_send(buffer, part),
            len: part.len(),
        };
        self.queues[usize::from(queue.0)].offer(piece);
    }

    /// Offers the front of a part of what was received to the next send of a queue: as much of it as one buffer holds.
    /// Returns how much.
    ///
    /// # Panics
    ///
    /// As [`Ring::offer_own`].
    pub fn offer_taken(&mut self, queue: QueueId, taken: &Taken, part: &Range<usize>) -> usize {
        let pool = self.pool(taken.pool);
        let (buffer, start, len) = pool.front(taken, part);
        pool.hold(buffer);
        let source = SendSource::Pool(taken.pool, buffer);
        self.queues[usize::from(queue.0)].offer(SendPiece { source, start, len });
        len
    }

    /// Removes the pieces that were offered to a queue, and returns those that were not sent.
    ///
    /// # Errors
    ///
    /// The reason why the kernel does not register the queue again.
    ///
    /// # Panics
    ///
    /// If a send of it is in flight.
    pub fn empty_queue(&mut self, queue: QueueId) -> Result<Vec<u8>, Missing> {
        assert!(!self.send_queue(queue).is_in_use(), "a queue in use is not emptied");
        let refused = |error: io::Error| Missing::of("emptying a ring of provided buffers", &error);
        self.io.submitter().unregister_buf_ring(QUEUE_GROUPS + queue.0).map_err(refused)?;
        let Ring { queues, pools, buffers, .. } = self;
        let emptied = &mut queues[usize::from(queue.0)];
        let rest = emptied.start_over(|source| let_go(source, pools, buffers));
        self.register(QUEUE_GROUPS + queue.0, self.send_queue(queue).entries()).map_err(refused)?;
        Ok(rest)
    }

    #[inline]
    pub(super) fn sent(&mut self, queue: QueueId, first: u16, moved: usize) -> (u16, usize) {
        let Ring { queues, pools, buffers, .. } = self;
        let sent = queues[usize::from(queue.0)].sent(first, moved, |source| let_go(source, pools, buffers));
        (sent.pieces, sent.lost)
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

/// A piece of a send queue was sent, or forgotten.
fn let_go(source: SendSource, pools: &mut [Option<Pool>], buffers: &mut Buffers) {
    match source {
        SendSource::Own => {}
        SendSource::Pool(pool, buffer) => {
            if let Some(pool) = &mut pools[usize::from(pool.0)] {
                pool.release(buffer);
            }
        }
        SendSource::Buffer(buffer) => buffers.take_back(buffer),
    }
}
