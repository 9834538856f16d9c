//! What arrives on a connection: given to its flow at once, or kept until the flow wants it.
//!
//! A receive that goes on delivers what the peer sends, not what the flow asks for. Bytes that come early are
//! copied beside the connection and their buffer is offered again, so that one flow that does not listen never
//! drains the pool of all others. If too many come, the receive is called off, and the socket holds the rest.

use std::os::fd::AsFd;

use bytegauge_model::UringKind;
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::uring::{Errno, Taken};

use crate::engine::driver::{Then, Waits};
use crate::engine::unconnected;
use crate::engine::uring::completions::Loop;
use crate::fault::Fault;
use crate::flow::{Doing, End, Flow, Want};
use crate::party::Party;

/// Bytes kept for a flow that does not listen before its receive is called off.
const SPILL_MAX: usize = 256 << 10;

/// Bytes that arrived early.
#[derive(Debug, Default)]
pub(super) struct Spill {
    bytes: Vec<u8>,
    at: usize,
}

impl Spill {
    pub(super) fn holds(&self) -> bool {
        self.at < self.bytes.len()
    }

    /// Forgets everything, but not the memory.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.at = 0;
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn held(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next bytes, at most so many.
    fn take(&mut self, most: usize) -> &mut [u8] {
        let begin = self.at;
        self.at = (begin + most).min(self.bytes.len());
        &mut self.bytes[begin..self.at]
    }

    fn tidy(&mut self) {
        if !self.holds() {
            self.clear();
        }
    }
}

fn listens(want: Want) -> bool {
    matches!(want, Want::Receive | Want::ReceiveUntil(_) | Want::Both)
}

impl<P: Party> Loop<'_, P> {
    /// Makes sure that a receive is in flight, unless the stream is over.
    pub(super) fn arm(&mut self, index: u32) -> Result<(), Fault> {
        let token = self.token(index);
        let slot = &self.slots[index as usize];
        if slot.link.receiving.is_some() || slot.eof || slot.link.came.is_some() {
            return Ok(());
        }
        let buffer = match self.port.pool {
            Some(_) => None,
            None => Some(self.receive_buffer(index)?),
        };
        let slot = &mut self.slots[index as usize];
        let Some(fd) = slot.fd.as_ref().map(AsFd::as_fd) else { return Err(unconnected()) };
        slot.link.receiving = Some(match (self.port.pool, buffer) {
            (Some(pool), _) if self.port.kind == UringKind::Bundle => self.port.ring.receive_bundles(token, fd, pool),
            (Some(pool), _) => self.port.ring.receive_multishot(token, fd, pool),
            (None, Some(buffer)) => self.port.ring.receive(token, fd, buffer),
            (None, None) => return Err(Fault::Impossible("a receive without a buffer".into())),
        });
        slot.link.called_off = false;
        Ok(())
    }

    /// Gives the flow what is there, or waits for more.
    pub(super) fn hand_over(&mut self, index: u32, now_ns: &mut u64) -> Result<Then, Fault> {
        let slot = &mut self.slots[index as usize];
        if slot.link.spill.holds() {
            let size = self.port.receive_size;
            let bytes = slot.link.spill.take(size);
            self.meter.count(bytes.len(), size);
            *now_ns = if P::Flow::TIMED { monotonic_ns() } else { 0 };
            let Some(flow) = &mut slot.flow else { return Ok(Then::Rest) };
            let goes_on = flow.received(bytes, *now_ns);
            slot.link.spill.tidy();
            if !goes_on {
                self.leave(index);
                return Ok(Then::Rest);
            }
            return Ok(Then::Ask);
        }
        if let Some(end) = slot.link.came.take() {
            *now_ns = self.tick();
            self.tell(index, end, *now_ns);
            return Ok(Then::Ask);
        }
        self.arm(index)?;
        self.slots[index as usize].waits = Waits::Receive;
        Ok(Then::Rest)
    }

    pub(super) fn on_received(
        &mut self,
        index: u32,
        more: bool,
        moved: Result<usize, Errno>,
        taken: Option<Taken>,
    ) -> Result<(), Fault> {
        let slot = &mut self.slots[index as usize];
        if !more {
            slot.link.receiving = None;
        }
        match moved {
            Ok(0) => {
                taken.into_iter().for_each(|taken| self.port.ring.give_back(taken));
                self.over(index, End::Eof)?;
            }
            Ok(moved) => self.arrived(index, moved, taken)?,
            Err(Errno::NO_BUFFER) => self.report.out_of_buffers += 1,
            // What was called off is asked for again where it is wanted.
            Err(Errno::CANCELLED | Errno::INTERRUPTED) => {}
            Err(Errno::NOT_A_SOCKET) => {
                return Err(Fault::Missing(
                    "the uring engines carry sockets only: use --engine blocking for pipes and files".into(),
                ));
            }
            Err(Errno(errno)) => self.over(index, End::Failed { doing: Doing::Receiving, errno })?,
        }
        let slot = &self.slots[index as usize];
        if slot.leaving {
            self.finish_leaving(index);
        } else if slot.link.receiving.is_none() && slot.waits.listens() {
            // After the whole batch, when the buffers that it used are offered again.
            self.go_on_later(index);
        }
        Ok(())
    }

    /// Bytes are there: in the buffers that were taken, or in the connection's own.
    fn arrived(&mut self, index: u32, moved: usize, mut taken: Option<Taken>) -> Result<(), Fault> {
        let slot = &mut self.slots[index as usize];
        let mut wanted = slot.waits.listens() || self.is_last_wish(index);
        let mut left = moved;
        let (mut goes_on, mut now_ns) = (true, 0);
        while left > 0 {
            let slot = &mut self.slots[index as usize];
            let piece = match (&mut taken, slot.link.memory.receive) {
                (Some(taken), _) => self.port.ring.piece(taken),
                (None, Some(buffer)) => self.port.ring.buffer(buffer).and_then(|bytes| bytes.get_mut(..left)),
                (None, None) => None,
            };
            let Some(piece) = piece else { return Err(Fault::Impossible("bytes arrived nowhere".into())) };
            left -= piece.len();
            if !wanted {
                slot.link.spill.keep(piece);
                continue;
            }
            let Some(flow) = &mut slot.flow else { break };
            self.meter.count(piece.len(), self.port.receive_size);
            now_ns = if P::Flow::TIMED { monotonic_ns() } else { 0 };
            goes_on = flow.received(piece, now_ns);
            if !goes_on {
                break;
            }
            if left > 0 {
                let want = flow.want(now_ns);
                wanted = listens(want);
                slot.held = (!wanted).then_some(want);
            }
        }
        taken.into_iter().for_each(|taken| self.port.ring.give_back(taken));
        let slot = &mut self.slots[index as usize];
        if !goes_on {
            slot.leaving = false;
            slot.link.takes_what_comes = false;
            self.leave(index);
        } else if !slot.leaving && slot.waits.listens() {
            self.timers.clear(index);
            self.advance(index, now_ns)?;
        } else if slot.link.spill.held() > SPILL_MAX && !slot.link.called_off {
            slot.link.called_off = true;
            slot.link.receiving.into_iter().for_each(|op| {
                self.port.ring.cancel(op);
            });
        }
        Ok(())
    }

    /// Whether a flow that leaves wants what arrived.
    fn is_last_wish(&mut self, index: u32) -> bool {
        let now_ns = self.tick();
        let slot = &mut self.slots[index as usize];
        slot.leaving
            && slot.link.takes_what_comes
            && !slot.link.spill.holds()
            && slot.flow.as_mut().is_some_and(|flow| listens(flow.want(now_ns)))
    }

    /// Gives a flow that leaves what was kept for it, as long as it wants that.
    pub(super) fn drain_spill(&mut self, index: u32) {
        loop {
            let now_ns = self.tick();
            let size = self.port.receive_size;
            let slot = &mut self.slots[index as usize];
            let Some(flow) = &mut slot.flow else { return };
            if !slot.link.spill.holds() || !listens(flow.want(now_ns)) {
                return;
            }
            let bytes = slot.link.spill.take(size);
            self.meter.count(bytes.len(), size);
            if !flow.received(bytes, now_ns) {
                return;
            }
        }
    }

    /// The stream is over: the flow hears of it when it wants to receive.
    fn over(&mut self, index: u32, end: End) -> Result<(), Fault> {
        let slot = &mut self.slots[index as usize];
        if slot.leaving || !slot.waits.listens() {
            slot.link.came = Some(end);
            return Ok(());
        }
        self.timers.clear(index);
        let now_ns = self.tick();
        self.tell(index, end, now_ns);
        self.advance(index, now_ns)
    }

    fn tell(&mut self, index: u32, end: End, now_ns: u64) {
        match end {
            End::Failed { doing, errno } => self.fail(index, doing, errno, now_ns),
            end => {
                self.slots[index as usize].eof = true;
                self.end(index, end, now_ns);
            }
        }
    }
}
