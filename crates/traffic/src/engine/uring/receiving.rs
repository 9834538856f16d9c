//! Bytes that arrive on a connection: given to its flow in place, or kept until the flow wants them.
//!
//! A one-shot receive fills a buffer of the connection's own, and the next one follows the bytes that its flow still has to send
//! back. A multishot receive delivers bytes as the peer sends them, not as the flow requests them, in buffers of a pool. The
//! connection holds these until its flow has seen their bytes, or sent them back. It holds only as many as the pool can spare,
//! so that a flow that does not receive never drains the pool of all others; beyond that, and if a message came in several
//! parts, bytes are copied to the connection's own buffer. If too many arrive, the receive is cancelled, and the socket holds
//! the rest.
//!
//! Bytes that a flow receives for its partner ([`Flow::FORWARDS`]) stay in place until the partner's send is over, and later
//! bytes wait after them.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::AsFd;

use bytegauge_model::UringKind;
use bytegauge_sys::uring::{BufferId, Errno, Taken};

use crate::EndError;
use crate::engine::event_loop::{Then, WaitingFor};
use crate::engine::flow_state::time_for;
use crate::engine::unconnected;
use crate::engine::uring::connection::Loop;
use crate::flow::{ConnectionEnd, Doing, Flow, Party, Want};

/// Bytes kept for a flow that does not receive before its receive is cancelled, or two receives if those are more.
const UNSEEN_MAX: usize = 256 << 10;

/// Receives held for a flow that does not receive before their bytes are copied.
const HELD_MAX: usize = 16;

/// Bytes that arrived and are still needed. In this order: the rest of the current receive, then either the held receives, or
/// the bytes in the own buffer.
#[derive(Debug, Default)]
pub(super) struct Input {
    /// A buffer of the connection's own.
    pub(super) own: Option<BufferId>,
    /// Bytes in it that the flow has seen and sends back, followed by unseen ones. While there are any of the former, the
    /// current receive has none.
    kept: Range<usize>,
    unseen: Range<usize>,
    /// Where in it the receive in flight writes.
    receives_at: usize,
    /// The receive being given to the flow.
    present: Option<Present>,
    held: VecDeque<(Taken, usize)>,
}

/// A receive of which the flow has seen a part.
#[derive(Debug)]
struct Present {
    taken: Taken,
    /// Bytes that the flow has seen and sends back.
    kept: Range<usize>,
}

impl Input {
    /// Whether there are bytes that the flow has not seen.
    pub(super) fn has_unseen(&self) -> bool {
        let present = self.present.as_ref().is_some_and(|present| present.taken.left() > 0);
        present || !self.held.is_empty() || !self.unseen.is_empty()
    }

    /// Bytes after the current receive.
    fn waiting(&self) -> usize {
        self.unseen.len() + self.held.iter().map(|(_, len)| len).sum::<usize>()
    }

    fn keeps(&self) -> bool {
        !self.kept.is_empty() || self.present.as_ref().is_some_and(|present| !present.kept.is_empty())
    }

    /// Drops everything but the own buffer. Returns the remaining buffers of the pool.
    pub(super) fn forget(&mut self) -> impl Iterator<Item = Taken> + use<> {
        (self.kept, self.unseen) = (0..0, 0..0);
        let held = std::mem::take(&mut self.held);
        self.present.take().map(|present| present.taken).into_iter().chain(held.into_iter().map(|(taken, _)| taken))
    }
}

/// Bytes that a flow sends back, by location.
pub(super) enum Back<'a> {
    Own(BufferId, Range<usize>),
    Taken(&'a Taken, Range<usize>),
}

impl Input {
    /// The bytes that a flow sends back, counted from the first kept one.
    pub(super) fn back(&self, part: &Range<usize>) -> Option<Back<'_>> {
        let shifted = |by: usize| part.start + by..part.end + by;
        match (&self.present, self.own) {
            (Some(present), _) if !present.kept.is_empty() => {
                Some(Back::Taken(&present.taken, shifted(present.kept.start)))
            }
            (_, Some(own)) => Some(Back::Own(own, shifted(self.kept.start))),
            _ => None,
        }
    }
}

fn listens(want: Want) -> bool {
    matches!(want, Want::Receive | Want::ReceiveUntil(_) | Want::Both)
}

impl<P: Party> Loop<'_, P> {
    /// Whether the flow can be given the next unseen bytes.
    pub(super) fn can_deliver(&self, index: u32) -> bool {
        let input = &self.slots[index as usize].link.input;
        let continues = input.present.as_ref().is_some_and(|present| present.taken.left() > 0);
        // Bytes that its partner still sends would have to be moved.
        input.has_unseen() && (continues || !P::Flow::FORWARDS || !input.keeps())
    }

    /// Whether enough bytes wait for the flow that the socket is to hold the rest.
    fn has_enough(&self, index: u32) -> bool {
        let input = &self.slots[index as usize].link.input;
        input.waiting() > UNSEEN_MAX.max(2 * self.port.receive_size)
            || P::Flow::FORWARDS && input.held.len() >= HELD_MAX
    }

    /// Makes sure that a receive is in flight, unless the stream is over, or new bytes would have to be moved.
    pub(super) fn arm(&mut self, index: u32) -> Result<(), EndError> {
        let token = self.token(index);
        let link = &self.slots[index as usize].link;
        if link.receiving.is_some() || self.slots[index as usize].eof || link.pending_end.is_some() {
            return Ok(());
        }
        if P::Flow::FORWARDS && link.input.keeps() && (self.port.pool.is_none() || self.has_enough(index)) {
            return Ok(());
        }
        let pool = self.port.pool;
        let own = if pool.is_some() { None } else { Some(self.own_buffer(index, self.port.receive_size)?) };
        let slot = &mut self.slots[index as usize];
        let Some(fd) = slot.fd.as_ref().map(AsFd::as_fd) else { return Err(unconnected()) };
        slot.link.receiving = Some(match (pool, own) {
            (Some(pool), _) => self.port.ring.receive_multishot(token, fd, pool, self.port.kind == UringKind::Bundle),
            (None, Some(own)) => {
                let at = slot.link.input.needed().end;
                slot.link.input.receives_at = at;
                self.port.ring.receive(token, fd, own, &(at..at + self.port.receive_size))
            }
            (None, None) => return Err(EndError::Impossible("a receive without a buffer".into())),
        });
        slot.link.called_off = false;
        Ok(())
    }

    /// Gives the flow its bytes, or waits for more.
    pub(super) fn deliver_or_wait(&mut self, index: u32, now_ns: &mut u64) -> Result<Then, EndError> {
        if self.can_deliver(index) {
            if !self.deliver(index, now_ns)? {
                self.leave(index);
                return Ok(Then::Rest);
            }
            return Ok(Then::Ask);
        }
        let link = &mut self.slots[index as usize].link;
        if !link.input.has_unseen()
            && let Some(end) = link.pending_end.take()
        {
            *now_ns = self.tick();
            self.tell(index, end, *now_ns);
            return Ok(Then::Ask);
        }
        if !P::Flow::FORWARDS {
            // Others may need the pool's buffer while this flow waits.
            self.gather(index)?;
        }
        self.arm(index)?;
        self.slots[index as usize].waits = WaitingFor::Receive;
        Ok(Then::Rest)
    }

    /// Gives the flow the next unseen bytes. `false`: it leaves.
    fn deliver(&mut self, index: u32, now_ns: &mut u64) -> Result<bool, EndError> {
        let slot = &self.slots[index as usize];
        let echoes = slot.flow.as_ref().is_some_and(Flow::echoes);
        let input = &slot.link.input;
        let needs_next = input.present.as_ref().is_none_or(|present| present.taken.left() == 0);
        if needs_next && input.unseen.is_empty() && !input.held.is_empty() {
            if echoes && input.keeps() {
                // More of a message that has begun: its parts are joined.
                self.gather(index)?;
                self.move_held(index, 1)?;
            } else {
                let input = &mut self.slots[index as usize].link.input;
                let next = input.held.pop_front().map(|(taken, _)| Present { taken, kept: 0..0 });
                if let Some(done) = std::mem::replace(&mut input.present, next) {
                    self.port.ring.give_back(done.taken);
                }
            }
        } else if needs_next {
            self.gather(index)?;
        }
        if needs_next && !self.slots[index as usize].link.input.unseen.is_empty() {
            // A send may still read the kept bytes before them.
            self.own_buffer(index, 0)?;
        }
        let slot = &mut self.slots[index as usize];
        let Some(flow) = &mut slot.flow else { return Ok(false) };
        let Input { own, kept, unseen, present, .. } = &mut slot.link.input;
        let size = self.port.receive_size;
        let bytes = match (&mut *present, &*own) {
            (Some(present), _) if present.taken.left() > 0 => {
                let bytes = self.port.ring.piece(&mut present.taken);
                if let (true, Some(bytes)) = (echoes, &bytes) {
                    present.kept.end += bytes.len();
                }
                bytes
            }
            (_, Some(own)) => {
                let part = unseen.start..unseen.end.min(unseen.start + size);
                unseen.start = part.end;
                if echoes {
                    *kept = if Range::is_empty(kept) { part.clone() } else { kept.start..part.end };
                }
                self.port.ring.buffer(*own).and_then(|bytes| bytes.get_mut(part))
            }
            _ => None,
        };
        let Some(bytes) = bytes else { return Err(EndError::Impossible("received bytes are in no buffer".into())) };
        self.meter.count(bytes.len(), size);
        *now_ns = time_for::<P::Flow>();
        let continues = flow.received(bytes, *now_ns);
        if !echoes && let Some(done) = present.take_if(|present| present.taken.left() == 0) {
            self.port.ring.give_back(done.taken);
        }
        Ok(continues)
    }

    /// The first `n` kept bytes are no longer needed.
    pub(super) fn drop_kept(&mut self, index: u32, n: usize) {
        let input = &mut self.slots[index as usize].link.input;
        match &mut input.present {
            Some(present) if !present.kept.is_empty() => {
                present.kept.start += n;
                if present.kept.is_empty() && present.taken.left() == 0 {
                    let done = input.present.take();
                    done.into_iter().for_each(|done| self.port.ring.give_back(done.taken));
                }
            }
            _ => input.kept.start += n,
        }
    }

    pub(super) fn on_received(
        &mut self,
        index: u32,
        more: bool,
        moved: Result<usize, Errno>,
        taken: Option<Taken>,
    ) -> Result<(), EndError> {
        let slot = &mut self.slots[index as usize];
        if !more {
            slot.link.receiving = None;
        }
        match moved {
            Ok(0) => {
                taken.into_iter().for_each(|taken| self.port.ring.give_back(taken));
                self.over(index, ConnectionEnd::Eof)?;
            }
            Ok(moved) => self.arrived(index, moved, taken)?,
            Err(Errno::NOBUFS) => {
                self.report.out_of_buffers += 1;
                self.port.offer_more();
            }
            // A cancelled receive is requested again when needed.
            Err(Errno::CANCELED | Errno::INTR) => {}
            Err(Errno::NOTSOCK) => {
                return Err(EndError::Missing(
                    "the uring engines carry sockets only: use --engine blocking for pipes and files".into(),
                ));
            }
            Err(errno) => {
                let errno = errno.raw_os_error();
                self.over(index, ConnectionEnd::Failed { doing: Doing::Receiving, errno })?;
            }
        }
        let slot = &self.slots[index as usize];
        if slot.leaving {
            self.finish_leaving(index);
        } else if slot.link.receiving.is_none() && slot.waits.listens() {
            // After the whole batch, when the buffers that it used are offered again.
            self.queue_later(index);
        }
        Ok(())
    }

    /// Bytes have arrived: in buffers of the pool, or in the connection's own.
    fn arrived(&mut self, index: u32, moved: usize, taken: Option<Taken>) -> Result<(), EndError> {
        let is_first = !self.slots[index as usize].link.input.has_unseen();
        self.store_arrival(index, moved, taken)?;
        let listens = self.slots[index as usize].waits.listens() && self.can_deliver(index);
        if !(listens || is_first && self.is_last_wish(index)) {
            let has_enough = self.has_enough(index);
            let link = &mut self.slots[index as usize].link;
            if has_enough && !link.called_off {
                link.called_off = true;
                link.receiving.into_iter().for_each(|op| {
                    self.port.ring.cancel(op);
                });
            }
            return Ok(());
        }
        let mut now_ns = 0;
        if !self.deliver(index, &mut now_ns)? {
            let slot = &mut self.slots[index as usize];
            slot.leaving = false;
            slot.link.takes_what_comes = false;
            self.leave(index);
        } else if !self.slots[index as usize].leaving && listens {
            self.timers.clear(index);
            self.advance(index, now_ns)?;
        }
        Ok(())
    }

    /// Keeps unseen bytes: in place, or copied if the pool has no buffer to spare.
    fn store_arrival(&mut self, index: u32, moved: usize, taken: Option<Taken>) -> Result<(), EndError> {
        let slot = &mut self.slots[index as usize];
        let input = &mut slot.link.input;
        let Some(taken) = taken else {
            input.unseen = input.receives_at..input.receives_at + moved;
            return Ok(());
        };
        let spare = self.port.pool.map_or(0, |pool| self.port.ring.idle_buffers(pool));
        let echoes = slot.flow.as_ref().is_some_and(Flow::echoes);
        // Bytes that are not sent back are seen at once.
        let is_next = !input.has_unseen() && !input.keeps() && (!echoes || spare > 0);
        if is_next && input.present.is_none() {
            // The usual case takes no other memory: with many connections it would not be in the cache.
            input.present = Some(Present { taken, kept: 0..0 });
            return Ok(());
        }
        let few = P::Flow::FORWARDS || input.held.len() < HELD_MAX;
        let can_hold = input.unseen.is_empty() && few && spare > 0;
        input.held.push_back((taken, moved));
        let receives = input.held.len();
        if is_next || can_hold { Ok(()) } else { self.move_held(index, receives) }
    }

    /// Whether a flow that leaves wants the bytes that arrived.
    fn is_last_wish(&mut self, index: u32) -> bool {
        let now_ns = self.tick();
        if !self.can_deliver(index) {
            return false;
        }
        let slot = &mut self.slots[index as usize];
        slot.leaving && slot.link.takes_what_comes && slot.flow.as_mut().is_some_and(|flow| listens(flow.want(now_ns)))
    }

    /// Gives a flow that leaves its kept bytes, as long as it wants them.
    pub(super) fn drain_input(&mut self, index: u32) -> Result<(), EndError> {
        loop {
            let mut now_ns = self.tick();
            if !self.can_deliver(index) {
                return Ok(());
            }
            let slot = &mut self.slots[index as usize];
            let Some(flow) = &mut slot.flow else { return Ok(()) };
            if !listens(flow.want(now_ns)) || !self.deliver(index, &mut now_ns)? {
                return Ok(());
            }
        }
    }

    /// The bytes that arrived are no longer needed.
    pub(super) fn drop_input(&mut self, index: u32) {
        for taken in self.slots[index as usize].link.input.forget() {
            self.port.ring.give_back(taken);
        }
    }

    /// The stream is over: the flow gets this when it wants to receive.
    fn over(&mut self, index: u32, end: ConnectionEnd) -> Result<(), EndError> {
        let slot = &mut self.slots[index as usize];
        // A flow that forwards may want to receive while earlier bytes have to wait.
        if slot.leaving || !slot.waits.listens() || slot.link.input.has_unseen() {
            slot.link.pending_end = Some(end);
            return Ok(());
        }
        self.timers.clear(index);
        let now_ns = self.tick();
        self.tell(index, end, now_ns);
        self.advance(index, now_ns)
    }

    fn tell(&mut self, index: u32, end: ConnectionEnd, now_ns: u64) {
        match end {
            ConnectionEnd::Failed { doing, errno } => self.fail(index, doing, errno, now_ns),
            end => {
                self.slots[index as usize].eof = true;
                self.end(index, end, now_ns);
            }
        }
    }
}

// The buffer of a connection's own: bytes are moved there if they have to stay, or to be joined.

impl Input {
    /// The range of the needed bytes in the own buffer.
    fn needed(&self) -> Range<usize> {
        match (self.kept.is_empty(), self.unseen.is_empty()) {
            (true, true) => 0..0,
            (true, false) => self.unseen.clone(),
            (false, true) => self.kept.clone(),
            (false, false) => self.kept.start..self.unseen.end,
        }
    }

    /// The needed bytes of the own buffer are at `to` now.
    fn settle(&mut self, needed: &Range<usize>, to: usize) {
        let moved = |range: &Range<usize>| match range.is_empty() {
            true => 0..0,
            false => range.start - needed.start + to..range.end - needed.start + to,
        };
        (self.kept, self.unseen) = (moved(&self.kept), moved(&self.unseen));
    }
}

impl<P: Party> Loop<'_, P> {
    /// Moves the kept bytes of the current receive to the own buffer, before the bytes there.
    #[inline]
    fn gather(&mut self, index: u32) -> Result<(), EndError> {
        let input = &self.slots[index as usize].link.input;
        let is_seen = |present: &Present| present.taken.left() == 0 && !present.kept.is_empty();
        match input.present.as_ref().filter(|present| is_seen(present)).map(|present| present.kept.len()) {
            Some(len) => self.gather_kept(index, len),
            None => Ok(()),
        }
    }

    #[cold]
    fn gather_kept(&mut self, index: u32, len: usize) -> Result<(), EndError> {
        let own = self.own_buffer(index, len)?;
        let input = &mut self.slots[index as usize].link.input;
        let needed = input.needed();
        if !needed.is_empty() {
            // No bytes are kept there: those in it are unseen.
            if let Some(bytes) = self.port.ring.buffer(own) {
                bytes.copy_within(needed.clone(), needed.start + len);
            }
            input.unseen = needed.start + len..needed.end + len;
        }
        if let Some(Present { taken, kept }) = input.present.take() {
            self.port.ring.copy_taken(&taken, &kept, own, needed.start);
            self.port.ring.give_back(taken);
            input.kept = needed.start..needed.start + len;
        }
        self.report.copied_bytes += (needed.len() + len) as u64;
        Ok(())
    }

    /// Moves the bytes of the first `receives` held receives to the own buffer, after the bytes there.
    fn move_held(&mut self, index: u32, receives: usize) -> Result<(), EndError> {
        for _ in 0..receives {
            let Some((taken, len)) = self.slots[index as usize].link.input.held.pop_front() else { break };
            let own = self.own_buffer(index, len)?;
            let input = &mut self.slots[index as usize].link.input;
            let end = input.needed().end;
            self.port.ring.copy_taken(&taken, &(0..len), own, end);
            self.port.ring.give_back(taken);
            input.unseen = if input.unseen.is_empty() { end..end + len } else { input.unseen.start..end + len };
            self.report.copied_bytes += len as u64;
        }
        Ok(())
    }

    /// The connection's own buffer, which no operation uses, with room for `more` bytes after the needed ones.
    #[inline]
    fn own_buffer(&mut self, index: u32, more: usize) -> Result<BufferId, EndError> {
        let input = &self.slots[index as usize].link.input;
        match input.own {
            Some(own)
                if !self.port.ring.is_in_use(own) && input.needed().end + more <= self.port.ring.buffer_len(own) =>
            {
                Ok(own)
            }
            _ => self.another_own_buffer(index, more),
        }
    }

    #[inline(never)]
    fn another_own_buffer(&mut self, index: u32, more: usize) -> Result<BufferId, EndError> {
        let input = &self.slots[index as usize].link.input;
        let (held, needed) = (input.own, input.needed());
        if let Some(own) = held
            && needed.len() + more <= self.port.ring.buffer_len(own)
            && let Some(bytes) = self.port.ring.buffer(own)
        {
            bytes.copy_within(needed.clone(), 0);
            self.report.copied_bytes += needed.len() as u64;
            self.slots[index as usize].link.input.settle(&needed, 0);
            return Ok(own);
        }
        let len = needed.len() + more;
        let own = self.port.another_buffer(if needed.is_empty() { len } else { len.next_power_of_two() })?;
        if let Some(held) = held {
            if !needed.is_empty() {
                self.port.ring.copy_buffer(held, &needed, own);
                self.report.copied_bytes += needed.len() as u64;
            }
            self.port.spare_buffers.push(held);
        }
        let input = &mut self.slots[index as usize].link.input;
        input.own = Some(own);
        input.settle(&needed, 0);
        Ok(own)
    }
}
