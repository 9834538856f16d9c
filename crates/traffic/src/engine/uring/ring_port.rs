//! A ring with the memory of its operations: shared by the parts of the loop.

use bytegauge_model::UringKind;
use bytegauge_sys::uring::{BufferId, OpId, PoolId, QueueId, Ring};

use crate::end_error::EndError;
use crate::engine::event_loop::Driver;

/// Size of the pool for receives, bytes. Each buffer has the length of the longest receive. This is only address space:
/// buffers that are never offered are never touched.
const POOL_SIZE: usize = 256 << 20;

/// Fewest buffers offered to receives: a multishot receive uses as many before the engine sees the first.
const OFFERED_MIN: usize = 8;

/// Fewest bytes offered to receives of bundles: the most that one of them can fill.
const OFFERED_BUNDLE_SIZE: usize = 256 << 10;

/// The longest receives for which a buffer that is filled piece by piece has room.
const RECEIVES_A_BUFFER: u16 = 4;

/// A ring, and memory for its bytes.
pub(super) struct RingPort {
    pub(super) kind: UringKind,
    pub(super) ring: Ring,
    /// The pool for receives; absent in `plain`.
    pub(super) pool: Option<PoolId>,
    /// Flows for which the pool offers buffers.
    offered_for: usize,
    /// Most bytes of one receive, as given to the flow.
    pub(super) receive_size: usize,
    /// Buffers that an operation of a closed connection still used.
    pub(super) spare_buffers: Vec<BufferId>,
    pub(super) spare_queues: Vec<QueueId>,
    /// The accept in flight.
    pub(super) accept: Option<OpId>,
    /// Connections accepted since the last wait.
    pub(super) accepted_now: u64,
    /// Completions of the alarm, which move no bytes.
    pub(super) alarms: u64,
}

pub(super) type Loop<'a, P> = Driver<'a, P, RingPort>;

impl RingPort {
    pub(super) fn new(kind: UringKind, mut ring: Ring, receive_size: usize) -> Result<RingPort, EndError> {
        let buffers = (POOL_SIZE / receive_size).clamp(64, 4096) as u16;
        let pool = match kind {
            UringKind::Plain => None,
            UringKind::Incremental => {
                let (few, len) = (buffers / RECEIVES_A_BUFFER, receive_size * usize::from(RECEIVES_A_BUFFER));
                Some(ring.new_incremental_pool(few, len, receive_size)?)
            }
            UringKind::Multishot | UringKind::Bundle | UringKind::ZeroCopy => {
                Some(ring.new_pool(buffers, receive_size)?)
            }
        };
        let mut port = RingPort {
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

    /// Offers as many buffers as receives of `flows` flows may need at once. Fewer buffers touch less memory.
    #[inline]
    pub(super) fn offer_for(&mut self, flows: usize) {
        let (Some(pool), true) = (self.pool, flows != self.offered_for) else { return };
        self.offered_for = flows;
        let least = if self.kind == UringKind::Bundle { OFFERED_BUNDLE_SIZE / self.receive_size } else { 0 };
        // Half of the pool stays for held receives.
        let most = usize::from(self.ring.pool_buffers(pool)) / 2;
        self.ring.keep_offered(pool, (2 * flows).max(OFFERED_MIN).max(least).min(most) as u16);
    }

    /// A buffer that no operation uses and no slot has, with room for `len` bytes.
    pub(super) fn another_buffer(&mut self, len: usize) -> Result<BufferId, EndError> {
        let free = self.spare_buffers.iter().position(|spare| !self.ring.is_in_use(*spare));
        let Some(free) = free else { return Ok(self.ring.new_buffer(len)?) };
        let buffer = self.spare_buffers.swap_remove(free);
        if self.ring.buffer_len(buffer) < len {
            self.ring.lengthen_buffer(buffer, len)?;
        }
        Ok(buffer)
    }
}
