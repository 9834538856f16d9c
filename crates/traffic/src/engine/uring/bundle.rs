//! Bundles: one operation sends several pieces of memory.
//!
//! A bundle gathers messages that the flow wants to send, until it wants something else or the queue is full. A message
//! therefore counts as sent for its flow when it is in the queue; the operation is submitted before the engine waits. A
//! connection that its flow closes is closed when the queue is empty, and a leaving engine empties it first; otherwise bytes
//! that count as sent would be lost.
//!
//! The kernel ends bundles that wait for a peer which has shut down its writing
//! ([`Ring::send_bundle`](bytegauge_sys::uring::Ring::send_bundle)): the remaining bytes are sent by plain sends, and so are all
//! later ones.

use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use bytegauge_model::UringKind;
use bytegauge_sys::uring::{Errno, QueueId};

use crate::end_error::EndError;
use crate::engine::flow_state::time_for;
use crate::engine::uring::connection::Loop;
use crate::engine::uring::receiving::Back;
use crate::engine::{nothing_to_send, unconnected};
use crate::flow::{Flow, Party, Want};

/// Most pieces of one bundle, and the least length of each.
const PIECES: usize = 16;
const PIECE_SIZE: usize = 4096;

/// The length of the pieces for messages of `len` bytes, so that a bundle holds at least one.
fn piece_size(len: usize) -> usize {
    len.div_ceil(PIECES).next_multiple_of(PIECE_SIZE).max(PIECE_SIZE)
}

/// The number of messages of `len` bytes that one bundle holds.
fn messages(len: usize) -> usize {
    (PIECES / len.div_ceil(piece_size(len)).max(1)).max(1)
}

impl<P: Party> Loop<'_, P> {
    /// Whether a flow that leaves still sends bytes that count as sent.
    pub(super) fn flushes_as_it_leaves(&self, index: u32) -> bool {
        self.slots[index as usize].link.takes_what_comes
            && self.must_flush(index)
            && !self.station.abort.load(Ordering::Relaxed)
    }

    /// Queues a send of all that the flow wants to send now.
    pub(super) fn send_gathered(&mut self, index: u32, now_ns: &mut u64) -> Result<(), EndError> {
        let queue = self.queue(index)?;
        self.slots[index as usize].link.asked = 0;
        self.slots[index as usize].link.plain = false;
        let mut next = 0;
        loop {
            let offered = self.offer(index, queue, &mut next)?;
            if offered == 0 {
                break;
            }
            let slot = &mut self.slots[index as usize];
            let Some(flow) = &mut slot.flow else { return Err(unconnected()) };
            slot.link.asked += offered;
            *now_ns = time_for::<P::Flow>();
            flow.sent(offered, *now_ns);
            let want = flow.want(*now_ns);
            if want != Want::Send {
                slot.held = Some(want);
                break;
            }
        }
        let token = self.token(index);
        let slot = &mut self.slots[index as usize];
        let Some(fd) = &slot.fd else { return Err(unconnected()) };
        if slot.link.asked == 0 {
            return Err(nothing_to_send());
        }
        slot.link.sending = Some(self.port.ring.send_bundle(token, fd.as_fd(), queue));
        Ok(())
    }

    /// Offers the flow's next bytes to its queue; `next` is the place for its next message. Returns their number: 0 if the
    /// queue is full.
    fn offer(&mut self, index: u32, queue: QueueId, next: &mut usize) -> Result<usize, EndError> {
        if self.port.ring.send_queue(queue).free() == 0 {
            return Ok(0);
        }
        let slot = &mut self.slots[index as usize];
        let Some(flow) = &mut slot.flow else { return Err(unconnected()) };
        if slot.link.output.unoffered.is_empty() {
            let back = flow.returns();
            if !back.is_empty() {
                let Some(keeper) = self.keeper(index) else { return Err(nothing_to_send()) };
                let ring = &mut self.port.ring;
                let offered = match self.slots[keeper as usize].link.input.back(&back) {
                    Some(Back::Own(own, part)) => {
                        ring.offer_buffer(queue, own, &part);
                        part.len()
                    }
                    Some(Back::Taken(taken, part)) => ring.offer_taken(queue, taken, &part),
                    None => return Err(nothing_to_send()),
                };
                self.drop_kept(keeper, back.start + offered);
                return Ok(offered);
            }
            let room = flow.room();
            let place = *next * room..(*next + 1) * room;
            if place.end > self.port.ring.send_queue(queue).room() {
                return Ok(0);
            }
            let output = &mut slot.link.output;
            let is_new = *next >= output.composed;
            let Some(bytes) = self.port.ring.queue_bytes(queue, &place) else { return Err(nothing_to_send()) };
            let len = flow.compose(bytes, is_new);
            if len == 0 {
                return Err(nothing_to_send());
            }
            output.unoffered = place.start..place.start + len;
            output.composed = output.composed.max(*next + 1);
            *next += 1;
        } else if *next == 0 {
            // The last bundle had no room for a whole message, whose memory comes first now.
            *next = slot.link.output.unoffered.start / flow.room().max(1) + 1;
        }
        let most = piece_size(flow.room()).min(flow.chunk());
        let unoffered = &mut slot.link.output.unoffered;
        let mut offered = 0;
        while !Range::is_empty(unoffered) && self.port.ring.send_queue(queue).free() > 0 {
            let piece = unoffered.start..unoffered.end.min(unoffered.start + most);
            self.port.ring.offer_own(queue, &piece);
            offered += piece.len();
            unoffered.start = piece.end;
        }
        Ok(offered)
    }

    /// Whether some of the bytes that count as sent were sent, and the rest is in flight.
    pub(super) fn continues_sending(
        &mut self,
        index: u32,
        more: bool,
        moved: Result<usize, Errno>,
        lost: usize,
    ) -> Result<bool, EndError> {
        let token = self.token(index);
        let stays = !self.slots[index as usize].leaving || self.flushes_as_it_leaves(index);
        let link = &mut self.slots[index as usize].link;
        if self.port.kind != UringKind::Bundle || !stays {
            return Ok(false);
        }
        let moved = match moved {
            Ok(moved) => moved,
            Err(Errno::CANCELLED | Errno::INTERRUPTED) => 0,
            Err(_) => return Ok(false),
        };
        if !link.output.rest.is_empty() {
            link.output.rest.drain(..moved);
            if link.output.rest.is_empty() {
                return Ok(false);
            }
            self.meter.count(moved, link.asked);
            self.send_rest(index)?;
            return Ok(true);
        }
        let Some(queue) = link.output.queue else { return Ok(false) };
        if link.plain || moved == link.asked && !more {
            return Ok(false);
        }
        self.meter.count(moved, link.asked);
        link.asked -= moved.min(link.asked);
        if more {
            return Ok(true);
        }
        if lost == 0 && moved > 0 {
            let slot = &mut self.slots[index as usize];
            let Some(fd) = &slot.fd else { return Ok(false) };
            slot.link.sending = Some(self.port.ring.send_bundle(token, fd.as_fd(), queue));
        } else {
            link.output.rest = self.port.ring.empty_queue(queue)?;
            self.send_rest(index)?;
        }
        Ok(true)
    }

    /// Queues a plain send of the rest of a bundle.
    fn send_rest(&mut self, index: u32) -> Result<(), EndError> {
        let token = self.token(index);
        let len = self.slots[index as usize].link.output.rest.len();
        let buffer = self.port.another_buffer(len)?;
        let slot = &mut self.slots[index as usize];
        let Some(fd) = &slot.fd else { return Err(unconnected()) };
        if let Some(room) = self.port.ring.buffer(buffer) {
            room[..len].copy_from_slice(&slot.link.output.rest);
        }
        self.report.copied_bytes += len as u64;
        slot.link.asked = len;
        slot.link.sending = Some(self.port.ring.send(token, fd.as_fd(), buffer, &(0..len)));
        self.port.spare_buffers.push(buffer);
        Ok(())
    }

    /// Empties the queues of closed connections once their sends are over: other connections need their buffers of the
    /// pool.
    pub(super) fn empty_spare_queues(&mut self) -> Result<(), EndError> {
        for at in 0..self.port.spare_queues.len() {
            let id = self.port.spare_queues[at];
            let queue = self.port.ring.send_queue(id);
            if !queue.is_in_use() && !queue.is_empty() {
                self.port.ring.empty_queue(id)?;
            }
        }
        Ok(())
    }

    /// The slot's queue, empty: its own, one of a closed connection, or a new one.
    fn queue(&mut self, index: u32) -> Result<QueueId, EndError> {
        let slot = &mut self.slots[index as usize];
        let room = slot.flow.as_ref().map_or(0, Flow::room);
        if let Some(queue) = slot.link.output.queue
            && self.port.ring.send_queue(queue).room() >= room
        {
            return Ok(queue);
        }
        let ring = &self.port.ring;
        let fits = |spare: &QueueId| {
            let spare = ring.send_queue(*spare);
            !spare.is_in_use() && spare.is_empty() && spare.room() >= room
        };
        let queue = match self.port.spare_queues.iter().position(fits) {
            Some(at) => self.port.spare_queues.swap_remove(at),
            None => self.port.ring.new_queue(PIECES as u16, messages(room) * room)?,
        };
        let output = &mut self.slots[index as usize].link.output;
        output.composed = 0;
        self.port.spare_queues.extend(output.queue.replace(queue));
        Ok(queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_holds_a_message_whole() {
        for (len, expected) in [(1, 16), (4096, 16), (4097, 8), (65_536, 1), (65_537, 1), (1 << 20, 1), (16 << 20, 1)] {
            assert_eq!(messages(len), expected, "{len}");
            assert!(len.div_ceil(piece_size(len)) <= PIECES, "{len}");
        }
    }
}
