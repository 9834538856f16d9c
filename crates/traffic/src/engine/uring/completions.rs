//! A ring with the memory that its operations use: what the parts of the loop share.

use bytegauge_model::UringKind;
use bytegauge_sys::uring::{BufferId, OpId, PoolId, QueueId, Ring};

use crate::engine::driver::Driver;
use crate::fault::Fault;

/// Most bytes of the pool that receives take from. Each buffer is as long as one receive may be. Only address space: what
/// is never offered is never touched.
const POOL_SIZE: usize = 256 << 20;

/// Buffers that are offered to receives, at the least: a receive that goes on takes as many before the engine sees the
/// first.
const OFFERED_MIN: usize = 8;

/// Bytes that are offered to receives of bundles, at the least: what one of them may take.
const OFFERED_BUNDLE_SIZE: usize = 256 << 10;

/// A ring, and memory for what it moves.
pub(super) struct Completions {
    pub(super) kind: UringKind,
    pub(super) ring: Ring,
    /// What receives take from; absent in `plain`.
    pub(super) pool: Option<PoolId>,
    /// Flows for which the pool offers buffers.
    offered_for: usize,
    /// Most bytes of one receive, as the flow is given them.
    pub(super) receive_size: usize,
    /// Buffers that an operation of a closed connection still used.
    pub(super) spare_buffers: Vec<BufferId>,
    pub(super) spare_queues: Vec<QueueId>,
    /// The accept in flight.
    pub(super) accept: Option<OpId>,
    /// Connections accepted since the last wait.
    pub(super) accepted_now: u64,
    /// Completions of the alarm, which move nothing.
    pub(super) alarms: u64,
}

pub(super) type Loop<'a, P> = Driver<'a, P, Completions>;

impl Completions {
    pub(super) fn new(kind: UringKind, mut ring: Ring, receive_size: usize) -> Result<Completions, Fault> {
        let pool = match kind {
            UringKind::Plain => None,
            _ => Some(ring.new_pool((POOL_SIZE / receive_size).clamp(64, 4096) as u16, receive_size)?),
        };
        let mut port = Completions {
            kind,
            ring,
            pool,
            offered_for: 0,
            receive_size,
            spare_buffers: Vec::new(),
            spare_queues: Vec::new(),
            accept: None,
            accepted_now: 0,
            alarms: 0,
        };
        port.offer_for(1);
        Ok(port)
    }

    /// Offers as many buffers as receives of so many flows may need at once. The fewer, the less memory is touched.
    #[inline]
    pub(super) fn offer_for(&mut self, flows: usize) {
        let (Some(pool), true) = (self.pool, flows != self.offered_for) else { return };
        self.offered_for = flows;
        let least = if self.kind == UringKind::Bundle { OFFERED_BUNDLE_SIZE / self.receive_size } else { 0 };
        // Half of the pool stays for what is held.
        let most = usize::from(self.ring.pool_buffers(pool)) / 2;
        self.ring.keep_offered(pool, (2 * flows).max(OFFERED_MIN).max(least).min(most) as u16);
    }

    /// A buffer that no operation uses and no slot has, with room for so many bytes.
    pub(super) fn another_buffer(&mut self, len: usize) -> Result<BufferId, Fault> {
        let free = self.spare_buffers.iter().position(|spare| !self.ring.is_in_use(*spare));
        let Some(free) = free else { return Ok(self.ring.new_buffer(len)?) };
        let buffer = self.spare_buffers.swap_remove(free);
        if self.ring.buffer_len(buffer) < len {
            self.ring.lengthen_buffer(buffer, len)?;
        }
        Ok(buffer)
    }
}
