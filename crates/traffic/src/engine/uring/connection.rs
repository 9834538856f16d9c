//! The io_uring engine's state of one connection: its operations, and how they are cancelled.

use bytegauge_model::UringKind;
use bytegauge_sys::uring::{BufferId, OpId, PoolId, Ring};

use crate::EndError;
use crate::engine::event_loop::{Driver, EngineLink, Then, WaitingFor};
use crate::engine::uring::receiving::Input;
use crate::engine::uring::sending::SendBuffers;
use crate::flow::{ConnectionEnd, Party};

/// Operations in flight on a connection, and their results.
#[derive(Default)]
pub(super) struct Operations {
    pub(super) receiving: Option<OpId>,
    pub(super) sending: Option<OpId>,
    pub(super) connecting: Option<OpId>,
    /// The receive was cancelled, since more arrived than the flow takes.
    pub(super) called_off: bool,
    /// The flow leaves because the engine does, with all that still arrives if it wants that.
    pub(super) takes_what_comes: bool,
    /// Bytes that were outgoing when the send was queued.
    pub(super) asked: usize,
    /// The connection's end, which the flow does not know yet.
    pub(super) pending_end: Option<ConnectionEnd>,
    pub(super) input: Input,
    pub(super) output: SendBuffers,
}

impl EngineLink for Operations {
    fn renew(&mut self) {
        let (input, mut output) = (std::mem::take(&mut self.input), std::mem::take(&mut self.output));
        output.forget();
        *self = Operations { input, output, ..Operations::default() };
    }

    fn take_in(&mut self) {
        self.output.renew_flow();
    }
}

impl Operations {
    pub(super) fn in_flight(&self) -> impl Iterator<Item = OpId> + use<> {
        [self.receiving, self.sending, self.connecting].into_iter().flatten()
    }
}

impl<P: Party> Loop<'_, P> {
    /// The flow of a leaving slot is gone once its operations are.
    pub(super) fn finish_leaving(&mut self, index: u32) {
        if self.slots[index as usize].link.in_flight().next().is_some() {
            return;
        }
        if self.slots[index as usize].link.takes_what_comes {
            // Without memory the flow loses the last bytes, as it does those in the socket.
            let _ = self.drain_input(index);
        }
        self.drop_input(index);
        self.give_up(index);
    }

    pub(super) fn on_attempt_over(&mut self, index: u32) -> Result<(), EndError> {
        let slot = &mut self.slots[index as usize];
        slot.link.connecting = None;
        if slot.leaving {
            self.finish_leaving(index);
            return Ok(());
        }
        self.on_connected(index)
    }

    /// Receives first: a peer that accepts everything would otherwise never be read from.
    pub(super) fn queue_both(&mut self, index: u32, now_ns: &mut u64) -> Result<Then, EndError> {
        let link = &self.slots[index as usize].link;
        if self.can_deliver(index) || !link.input.has_unseen() && link.pending_end.is_some() {
            return self.deliver_or_wait(index, now_ns);
        }
        self.arm(index)?;
        if self.slots[index as usize].link.sending.is_none() && self.queue_send(index, now_ns)? == Then::Ask {
            return Ok(Then::Ask);
        }
        if self.slots[index as usize].fd.is_some() { self.rest(index, WaitingFor::Either) } else { Ok(Then::Rest) }
    }
}

// A ring with the memory of its operations: shared by the parts of the loop.

/// Size of the pool for receives, bytes. Each buffer has the length of the longest receive. This is only address space:
/// buffers that are never offered are never touched.
const POOL_SIZE: usize = 256 << 20;

/// Fewest buffers offered to receives: a multishot receive uses as many before the engine sees the first.
const OFFERED_MIN: usize = 8;

/// Most buffers offered to the receives of many flows, until they run out once. A wait completes about 20 operations at a time
/// since Linux 6.13 (io_uring/io_uring.c, `IO_LOCAL_TW_DEFAULT_MAX`), and a multishot receive up to 32 (io_uring/net.c,
/// `MULTISHOT_MAX_RETRY`), so few buffers serve many connections. The kernel takes them in turn: each one more is memory that
/// leaves the cache before it is used again.
const OFFERED_AT_FIRST: usize = 64;

/// Bytes offered to receives, if the buffers are small: a bundle fills as many at most, and a multishot receive of small
/// buffers completes more of them in a wait.
const OFFERED_SIZE: usize = 256 << 10;

/// A ring, and memory for its bytes.
pub(super) struct RingPort {
    pub(super) kind: UringKind,
    pub(super) ring: Ring,
    /// The pool for receives; absent in `plain`.
    pub(super) pool: Option<PoolId>,
    /// Flows for which the pool offers buffers.
    offered_for: usize,
    /// Most buffers to offer, as long as they suffice.
    offered_max: usize,
    /// Most bytes of one receive, as given to the flow.
    pub(super) receive_size: usize,
    /// Buffers that an operation of a closed connection still used.
    pub(super) spare_buffers: Vec<BufferId>,
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
        let pool = if kind == UringKind::Plain { None } else { Some(ring.new_pool(buffers, receive_size)?) };
        ring.set_zero_copy(kind == UringKind::ZeroCopy);
        let mut port = RingPort {
            kind,
            ring,
            pool,
            offered_for: 0,
            offered_max: OFFERED_AT_FIRST,
            receive_size,
            spare_buffers: Vec::new(),
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
        let bundled = self.kind == UringKind::Bundle;
        let small = OFFERED_SIZE / self.receive_size;
        let least = if bundled { small } else { small.min(OFFERED_AT_FIRST) }.max(OFFERED_MIN);
        // Half of the pool stays for held receives.
        let most = usize::from(self.ring.pool_buffers(pool)) / 2;
        self.ring.keep_offered(pool, (2 * flows).min(self.offered_max).max(least).min(most) as u16);
    }

    /// A receive found no buffer: more are offered from now on.
    pub(super) fn offer_more(&mut self) {
        let flows = self.offered_for;
        if self.offered_max < 2 * flows {
            self.offered_max *= 2;
            self.offered_for = 0;
            self.offer_for(flows);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use bytegauge_sys::uring::{Feature, RingSetup, probe};

    /// Buffers offered to receives of `len` bytes, for one flow, for 500, and after receives that found none.
    fn offered(kind: UringKind, len: usize) -> Option<[usize; 4]> {
        probe(&[Feature::MultishotReceive]).ok()?;
        let ring = Ring::open(&RingSetup { entries: 8, completions: 64, poll_idle_ms: None }).unwrap();
        let mut port = RingPort::new(kind, ring, len).unwrap();
        let pool = port.pool?;
        let count = |port: &RingPort| usize::from(port.ring.pool_buffers(pool)) - port.ring.idle_buffers(pool);
        let one = count(&port);
        port.offer_for(500);
        let many = count(&port);
        port.offer_more();
        let more = count(&port);
        (0..9).for_each(|_| port.offer_more());
        Some([one, many, more, count(&port)])
    }

    #[test]
    fn few_buffers_are_offered_until_they_run_out() {
        let multishot = |len| offered(UringKind::Multishot, len);
        assert!(multishot(64 << 10).is_none_or(|found| found == [8, 64, 128, 1000]));
        assert!(multishot(64).is_none_or(|found| found == [64, 64, 128, 1000]));
        // Half of the pool stays for received bytes that wait.
        assert!(multishot(1 << 20).is_none_or(|found| found == [8, 64, 128, 128]));
        assert!(offered(UringKind::Bundle, 1024).is_none_or(|found| found == [256, 256, 256, 1000]));
    }
}
