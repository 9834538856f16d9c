//! Bytes that are sent on a connection, from memory of the ring: never two sends at a time.
//!
//! A flow composes its messages in buffers of the ring, and bytes to send back are sent from where they were received
//! ([`receiving`](super::receiving)). So nothing is copied.
//!
//! `zc` completes twice: first the bytes were taken, then the buffer is free. With two buffers a connection sends the next
//! message while it waits for the second completion of the last one.

use std::ops::Range;
use std::os::fd::AsFd;

use bytegauge_model::UringKind;
use bytegauge_sys::uring::{BufferId, Errno};

use crate::EndError;
use crate::engine::event_loop::{Then, WaitingFor};
use crate::engine::flow_state::first_part;
use crate::engine::uring::connection::Loop;
use crate::engine::uring::receiving::Back;
use crate::engine::{nothing_to_send, unconnected};
use crate::flow::{ConnectionEnd, Doing, Flow, Party};

/// Buffers in which a flow composes its messages, and their unsent part.
#[derive(Debug, Default)]
pub(super) struct SendBuffers {
    /// The second one only with zero copy.
    rooms: [Option<BufferId>; 2],
    /// Whether each of them holds bytes of this flow.
    is_used: [bool; 2],
    /// The buffer of the current message, and its unsent bytes.
    room: usize,
    message: Range<usize>,
    /// The number of kept bytes before those of the send in flight, if it sends received bytes back.
    dropped: Option<usize>,
}

impl SendBuffers {
    /// The connection was replaced: no bytes of the last one are sent again.
    pub(super) fn forget(&mut self) {
        self.message = 0..0;
    }

    /// The flow was replaced: the memory holds bytes of another flow.
    pub(super) fn renew_flow(&mut self) {
        self.is_used = [false; 2];
    }
}

impl<P: Party> Loop<'_, P> {
    /// Sends the flow's bytes, unless a send is in flight.
    pub(super) fn queue_send(&mut self, index: u32, now_ns: &mut u64) -> Result<Then, EndError> {
        let slot = &self.slots[index as usize];
        if slot.fd.is_none() || slot.flow.is_none() {
            return Err(unconnected());
        }
        if let Some(ConnectionEnd::Failed { errno, .. }) = slot.link.pending_end {
            // A receive has met the error that this send would have met.
            *now_ns = self.tick();
            self.fail(index, Doing::Sending, errno, *now_ns);
            return Ok(Then::Ask);
        }
        if slot.link.sending.is_none() {
            self.send_next(index)?;
        }
        self.rest(index, WaitingFor::Send)
    }

    /// Queues a send of the rest of the current message, of bytes to send back, or of the next message; nothing if there is no
    /// free buffer to compose it in.
    fn send_next(&mut self, index: u32) -> Result<(), EndError> {
        let slot = &mut self.slots[index as usize];
        let Some(flow) = &mut slot.flow else { return Err(unconnected()) };
        let output = &mut slot.link.output;
        if output.message.is_empty() {
            let back = flow.returns();
            if !back.is_empty() {
                return self.send_back(index, &back);
            }
            if !self.compose(index)? {
                return Ok(());
            }
        }
        self.count_zero_copy();
        let token = self.token(index);
        let slot = &mut self.slots[index as usize];
        let output = &mut slot.link.output;
        let (Some(flow), Some(fd), Some(room)) = (&slot.flow, &slot.fd, output.rooms[output.room]) else {
            return Err(unconnected());
        };
        let part = first_part(&output.message, flow.parts());
        output.dropped = None;
        slot.link.asked = part.len();
        slot.link.sending = Some(self.port.ring.send(token, fd.as_fd(), room, &part));
        Ok(())
    }

    fn count_zero_copy(&mut self) {
        self.report.zero_copy += u64::from(self.port.kind == UringKind::ZeroCopy);
    }

    /// Queues a send of received bytes in place: as many as are contiguous.
    fn send_back(&mut self, index: u32, back: &Range<usize>) -> Result<(), EndError> {
        self.count_zero_copy();
        let token = self.token(index);
        let Some(keeper) = self.keeper(index) else { return Err(nothing_to_send()) };
        let Some(fd) = &self.slots[index as usize].fd else { return Err(unconnected()) };
        let ring = &mut self.port.ring;
        let (op, len) = match self.slots[keeper as usize].link.input.back(back) {
            Some(Back::Own(own, part)) => (ring.send(token, fd.as_fd(), own, &part), part.len()),
            Some(Back::Taken(taken, part)) => ring.send_taken(token, fd.as_fd(), taken, &part),
            None => return Err(nothing_to_send()),
        };
        let slot = &mut self.slots[index as usize];
        slot.link.output.dropped = Some(back.start);
        slot.link.asked = len;
        slot.link.sending = Some(op);
        Ok(())
    }

    /// Has the flow compose its next message. `false`: there is no free buffer.
    fn compose(&mut self, index: u32) -> Result<bool, EndError> {
        let Some(room) = self.free_room(index)? else { return Ok(false) };
        let slot = &mut self.slots[index as usize];
        let output = &mut slot.link.output;
        let (Some(flow), Some(buffer)) = (&mut slot.flow, output.rooms[room]) else { return Err(unconnected()) };
        let len = flow.room();
        let Some(bytes) = self.port.ring.buffer(buffer) else { return Err(nothing_to_send()) };
        let composed = flow.compose(&mut bytes[..len], !std::mem::replace(&mut output.is_used[room], true));
        if composed == 0 {
            return Err(nothing_to_send());
        }
        (output.room, output.message) = (room, 0..composed);
        Ok(true)
    }

    /// A buffer of the slot that no operation uses, if any; as long as the flow's longest message.
    fn free_room(&mut self, index: u32) -> Result<Option<usize>, EndError> {
        let zero_copy = self.port.kind == UringKind::ZeroCopy;
        let slot = &self.slots[index as usize];
        let len = slot.flow.as_ref().map_or(0, Flow::room);
        for room in 0..=usize::from(zero_copy) {
            let held = self.slots[index as usize].link.output.rooms[room];
            match held {
                Some(buffer) if !self.port.ring.is_in_use(buffer) && self.port.ring.buffer_len(buffer) >= len => {
                    return Ok(Some(room));
                }
                Some(buffer) if zero_copy && self.port.ring.is_in_use(buffer) => {}
                held => {
                    let another = self.port.another_buffer(len)?;
                    self.port.spare_buffers.extend(held);
                    let output = &mut self.slots[index as usize].link.output;
                    output.rooms[room] = Some(another);
                    output.is_used[room] = false;
                    return Ok(Some(room));
                }
            }
        }
        Ok(None)
    }

    pub(super) fn on_sent(&mut self, index: u32, moved: Result<usize, Errno>) -> Result<(), EndError> {
        self.slots[index as usize].link.sending = None;
        let waited = matches!(self.slots[index as usize].waits, WaitingFor::Send | WaitingFor::Either);
        if waited {
            self.timers.clear(index);
        }
        let now_ns = self.tick();
        let slot = &mut self.slots[index as usize];
        match moved {
            Ok(moved) => {
                self.meter.count(moved, slot.link.asked);
                self.took(index, moved, now_ns);
            }
            Err(errno) => {
                if let Some(missing) = missing_requirement(self.port.kind, errno) {
                    return Err(EndError::Missing(missing.into()));
                }
                let called_off = matches!(errno, Errno::CANCELED | Errno::INTR);
                if !slot.leaving && !called_off {
                    self.fail(index, Doing::Sending, errno.raw_os_error(), now_ns);
                }
            }
        }
        let slot = &self.slots[index as usize];
        if slot.leaving {
            self.finish_leaving(index);
            return Ok(());
        }
        // The flow may have continued with something else, which is not over yet.
        if waited || slot.fd.is_none() { self.advance(index, now_ns) } else { Ok(()) }
    }

    /// A send sent `moved` bytes.
    fn took(&mut self, index: u32, moved: usize, now_ns: u64) {
        let output = &mut self.slots[index as usize].link.output;
        match output.dropped {
            None => output.message.start += moved,
            // A flow that forwards may have lost its partner, and the kept bytes with it.
            Some(dropped) => {
                self.keeper(index).into_iter().for_each(|keeper| self.drop_kept(keeper, dropped + moved));
            }
        }
        if let Some(flow) = &mut self.slots[index as usize].flow {
            flow.sent(moved, now_ns);
        }
    }

    /// A buffer of a zero-copy send is free again.
    pub(super) fn on_released(&mut self, index: u32) -> Result<(), EndError> {
        let slot = &self.slots[index as usize];
        if !matches!(slot.waits, WaitingFor::Send | WaitingFor::Either) || slot.link.sending.is_some() {
            return Ok(());
        }
        self.timers.clear(index);
        let now_ns = self.tick();
        self.advance(index, now_ns)
    }
}

/// The machine's or the transport's missing requirement that an error shows, if it is not about the connection.
fn missing_requirement(kind: UringKind, errno: Errno) -> Option<&'static str> {
    match (kind, errno) {
        (_, Errno::NOTSOCK) => Some("the uring engines carry sockets only: use --engine blocking for pipes and files"),
        (UringKind::ZeroCopy, Errno::OPNOTSUPP) => {
            Some("this kind of socket takes no zero-copy sends (Unix sockets do not): use uring:multishot, or tcp")
        }
        (UringKind::ZeroCopy, Errno::NOMEM) => Some(
            "no more memory may be locked for zero-copy sends: raise the limit with `ulimit -l unlimited`, or use \
             fewer flows",
        ),
        _ => None,
    }
}
