//! What leaves on a connection: copied into the ring's memory, since the kernel reads it after the flow was
//! asked, and never two sends at a time.
//!
//! `bundle` gathers what the flow wants to send, chunk by chunk, until it wants something else or the outbox is
//! full, and sends it all by one operation. So its flows are told that a chunk was taken when it is in the
//! outbox; the operation is submitted before the engine waits. A connection that its flow closes is closed when
//! the outbox is empty, and an engine that leaves empties it first, or bytes that count as sent would be lost. The kernel gives bundles up that wait for a peer which has shut down its writing
//! ([`Ring::send_bundle`](bytegauge_sys::uring::Ring::send_bundle)): what is left goes by plain sends, and so does
//! all that follows.
//!
//! `zc` completes twice: first the bytes were taken, then the buffer is free. With two buffers a connection
//! sends the next bytes while it waits for the second completion of the last ones.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use bytegauge_model::UringKind;
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::uring::{BufferId, Errno, PoolId};

use crate::engine::driver::{Then, Waits};
use crate::engine::unconnected;
use crate::engine::uring::completions::Loop;
use crate::fault::Fault;
use crate::flow::{Doing, End, Flow, Want};
use crate::party::Party;

/// Most bytes of one send: longer ones go in parts.
const SEND_MAX: usize = 1 << 20;

/// Send buffers grow in steps of this many bytes.
const STEP: usize = 4096;

/// Chunks that one bundle sends, and the least length of each.
const OUTBOX_CHUNKS: u16 = 16;
const OUTBOX_CHUNK_SIZE: usize = 4096;

/// The length of a chunk of an outbox that holds a message of `len` bytes, as long as one send may be.
fn chunk_size(len: usize) -> usize {
    len.min(SEND_MAX).div_ceil(usize::from(OUTBOX_CHUNKS)).next_multiple_of(OUTBOX_CHUNK_SIZE).max(OUTBOX_CHUNK_SIZE)
}

/// The memory of the ring that belongs to a slot, connection after connection.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) receive: Option<BufferId>,
    /// What is sent; the second only with zero copy.
    sends: [Option<BufferId>; 2],
    /// How many bytes of the present connection's last send each of them holds.
    copied: [Option<usize>; 2],
    pub(super) outbox: Option<PoolId>,
    /// A bundle failed: the outbox holds what was not sent.
    soiled: bool,
    /// What a bundle left, to be sent plainly; its flow takes it for sent.
    rest: Vec<u8>,
}

impl Memory {
    /// The connection is another one: nothing of the last one's bytes is sent again.
    pub(super) fn forget(&mut self) {
        self.copied = [None; 2];
        self.rest.clear();
    }
}

impl<P: Party> Loop<'_, P> {
    /// Sends what is outgoing, unless a send is in flight.
    pub(super) fn queue_send(&mut self, index: u32, now_ns: &mut u64) -> Result<Then, Fault> {
        let slot = &self.slots[index as usize];
        if slot.fd.is_none() || slot.flow.is_none() {
            return Err(unconnected());
        }
        if let Some(End::Failed { errno, .. }) = slot.link.came {
            // A receive has met the error that this send would have met.
            *now_ns = self.tick();
            self.fail(index, Doing::Sending, errno, *now_ns);
            return Ok(Then::Ask);
        }
        if slot.link.sending.is_none() {
            let half_closed = slot.eof || slot.link.came.is_some();
            if self.port.kind == UringKind::Bundle && !half_closed {
                self.send_gathered(index, now_ns)?;
                return Ok(Then::Ask);
            }
            if !self.send_copy(index)? {
                self.rest(index, Waits::Send)?;
                return Ok(Then::Rest);
            }
        }
        self.rest(index, Waits::Send)?;
        Ok(Then::Rest)
    }

    /// Whether a flow that leaves still sends what it takes for sent.
    pub(super) fn flushes_as_it_leaves(&self, index: u32) -> bool {
        self.slots[index as usize].link.takes_what_comes
            && self.must_flush(index)
            && !self.station.abort.load(Ordering::Relaxed)
    }

    /// Queues a send of a copy. `false`: no buffer is free.
    fn send_copy(&mut self, index: u32) -> Result<bool, Fault> {
        let zero_copy = self.port.kind == UringKind::ZeroCopy;
        let Some(which) = self.free_send_buffer(index, zero_copy)? else { return Ok(false) };
        let token = self.token(index);
        let slot = &mut self.slots[index as usize];
        let (Some(flow), Some(fd), Some(buffer)) = (&mut slot.flow, &slot.fd, slot.link.memory.sends[which]) else {
            return Err(unconnected());
        };
        let repeats = flow.repeats();
        let bytes = flow.outgoing();
        let len = bytes.len().min(SEND_MAX);
        slot.link.asked = bytes.len();
        if !(repeats && slot.link.memory.copied[which] == Some(len)) {
            if self.port.ring.buffer_len(buffer) < len {
                self.port.ring.lengthen_buffer(buffer, len.next_multiple_of(STEP))?;
            }
            if let Some(room) = self.port.ring.buffer(buffer) {
                room[..len].copy_from_slice(&bytes[..len]);
            }
            slot.link.memory.copied[which] = Some(len);
        }
        slot.link.plain = true;
        slot.link.sending = Some(if zero_copy {
            self.report.zero_copy += 1;
            self.port.ring.send_zero_copy(token, fd.as_fd(), buffer, len)
        } else {
            self.port.ring.send(token, fd.as_fd(), buffer, len)
        });
        Ok(true)
    }

    /// Queues a send of all that the flow wants to send now.
    fn send_gathered(&mut self, index: u32, now_ns: &mut u64) -> Result<(), Fault> {
        let outbox = self.outbox(index)?;
        let token = self.token(index);
        let slot = &mut self.slots[index as usize];
        let (Some(flow), Some(fd)) = (&mut slot.flow, &slot.fd) else { return Err(unconnected()) };
        slot.link.asked = 0;
        slot.link.plain = false;
        while self.port.ring.has_room(outbox) {
            let taken = self.port.ring.put(outbox, flow.outgoing());
            slot.link.asked += taken;
            *now_ns = if P::Flow::TIMED { monotonic_ns() } else { 0 };
            flow.sent(taken, *now_ns);
            let want = flow.want(*now_ns);
            if want != Want::Send {
                slot.held = Some(want);
                break;
            }
        }
        slot.link.sending = Some(self.port.ring.send_bundle(token, fd.as_fd(), outbox));
        Ok(())
    }

    /// Whether a part of what a flow takes for sent was sent, and the rest is on its way.
    pub(super) fn goes_on_sending(
        &mut self,
        index: u32,
        more: bool,
        moved: Result<usize, Errno>,
        lost: usize,
    ) -> Result<bool, Fault> {
        let token = self.token(index);
        let stays = !self.slots[index as usize].leaving || self.flushes_as_it_leaves(index);
        let slot = &mut self.slots[index as usize];
        if self.port.kind != UringKind::Bundle || !stays {
            return Ok(false);
        }
        let moved = match moved {
            Ok(moved) => moved,
            Err(Errno::CANCELLED | Errno::INTERRUPTED) => 0,
            Err(_) => return Ok(false),
        };
        if !slot.link.memory.rest.is_empty() {
            slot.link.memory.rest.drain(..moved);
            if slot.link.memory.rest.is_empty() {
                return Ok(false);
            }
            self.meter.count(moved, slot.link.asked);
            self.send_rest(index)?;
            return Ok(true);
        }
        let (Some(outbox), Some(fd)) = (slot.link.memory.outbox, &slot.fd) else { return Ok(false) };
        if slot.link.plain || moved == slot.link.asked && !more {
            return Ok(false);
        }
        self.meter.count(moved, slot.link.asked);
        slot.link.asked -= moved.min(slot.link.asked);
        if more {
            return Ok(true);
        }
        if lost == 0 && moved > 0 {
            slot.link.sending = Some(self.port.ring.send_bundle(token, fd.as_fd(), outbox));
        } else {
            slot.link.memory.rest = self.port.ring.empty_pool(outbox)?;
            self.send_rest(index)?;
        }
        Ok(true)
    }

    /// Queues a plain send of what a bundle left.
    fn send_rest(&mut self, index: u32) -> Result<(), Fault> {
        let Some(which) = self.free_send_buffer(index, false)? else { return Err(unconnected()) };
        let token = self.token(index);
        let slot = &mut self.slots[index as usize];
        let (Some(fd), Some(buffer)) = (&slot.fd, slot.link.memory.sends[which]) else { return Err(unconnected()) };
        let len = slot.link.memory.rest.len();
        if self.port.ring.buffer_len(buffer) < len {
            self.port.ring.lengthen_buffer(buffer, len.next_multiple_of(STEP))?;
        }
        if let Some(room) = self.port.ring.buffer(buffer) {
            room[..len].copy_from_slice(&slot.link.memory.rest);
        }
        slot.link.memory.copied[which] = None;
        slot.link.asked = len;
        slot.link.sending = Some(self.port.ring.send(token, fd.as_fd(), buffer, len));
        Ok(())
    }

    pub(super) fn on_sent(&mut self, index: u32, moved: Result<usize, Errno>) -> Result<(), Fault> {
        let slot = &mut self.slots[index as usize];
        // The flow was told when its bytes were put into the outbox.
        let told = self.port.kind == UringKind::Bundle && !slot.link.plain;
        slot.link.sending = None;
        slot.link.impatient = false;
        let waited = matches!(slot.waits, Waits::Send | Waits::Either);
        if waited {
            self.timers.clear(index);
        }
        let now_ns = self.tick();
        let slot = &mut self.slots[index as usize];
        match moved {
            Ok(moved) => {
                self.meter.count(moved, slot.link.asked);
                slot.link.memory.soiled = told && moved < slot.link.asked;
                if let (false, Some(flow)) = (told, &mut slot.flow) {
                    flow.sent(moved, now_ns);
                }
            }
            Err(errno) => {
                slot.link.memory.soiled = told;
                if let Some(lack) = lack(self.port.kind, errno) {
                    return Err(Fault::Missing(lack.into()));
                }
                let called_off = matches!(errno, Errno::CANCELLED | Errno::INTERRUPTED);
                if !slot.leaving && !called_off {
                    self.fail(index, Doing::Sending, errno.0, now_ns);
                }
            }
        }
        let slot = &self.slots[index as usize];
        if slot.leaving {
            self.finish_leaving(index);
            return Ok(());
        }
        // With an outbox the flow may have gone on to something else, which is not over yet.
        if waited || slot.fd.is_none() { self.advance(index, now_ns) } else { Ok(()) }
    }

    /// A buffer of a zero-copy send is free again.
    pub(super) fn on_released(&mut self, index: u32) -> Result<(), Fault> {
        let slot = &self.slots[index as usize];
        if !matches!(slot.waits, Waits::Send | Waits::Either) || slot.link.sending.is_some() {
            return Ok(());
        }
        self.timers.clear(index);
        let now_ns = self.tick();
        self.advance(index, now_ns)
    }

    /// Which of the slot's send buffers is free, if any.
    fn free_send_buffer(&mut self, index: u32, zero_copy: bool) -> Result<Option<usize>, Fault> {
        for which in 0..=usize::from(zero_copy) {
            match self.slots[index as usize].link.memory.sends[which] {
                Some(buffer) if !self.port.ring.is_in_use(buffer) => return Ok(Some(which)),
                Some(_) if zero_copy => {}
                held => {
                    let buffer = self.replace(held, STEP)?;
                    let memory = &mut self.slots[index as usize].link.memory;
                    memory.sends[which] = Some(buffer);
                    memory.copied[which] = None;
                    return Ok(Some(which));
                }
            }
        }
        Ok(None)
    }

    /// The slot's own buffer for receives, for the modes that need one.
    pub(super) fn receive_buffer(&mut self, index: u32) -> Result<BufferId, Fault> {
        let held = self.slots[index as usize].link.memory.receive;
        let buffer = match held {
            Some(buffer) if !self.port.ring.is_in_use(buffer) => buffer,
            held => self.replace(held, self.port.receive_size)?,
        };
        self.slots[index as usize].link.memory.receive = Some(buffer);
        Ok(buffer)
    }

    /// A buffer instead of one that an operation of an older connection still uses, or of none.
    fn replace(&mut self, held: Option<BufferId>, len: usize) -> Result<BufferId, Fault> {
        let free = self.port.spare_buffers.iter().position(|spare| !self.port.ring.is_in_use(*spare));
        let found = free.map(|at| self.port.spare_buffers.swap_remove(at));
        self.port.spare_buffers.extend(held);
        match found {
            Some(buffer) if self.port.ring.buffer_len(buffer) < len => {
                self.port.ring.lengthen_buffer(buffer, len)?;
                Ok(buffer)
            }
            Some(buffer) => Ok(buffer),
            None => Ok(self.port.ring.new_buffer(len)?),
        }
    }

    /// The slot's outbox, empty: its own, one that another slot left behind, or a new one that holds what the flow sends.
    fn outbox(&mut self, index: u32) -> Result<PoolId, Fault> {
        let slot = &mut self.slots[index as usize];
        let len = slot.flow.as_mut().map_or(0, |flow| flow.outgoing().len());
        let memory = &mut slot.link.memory;
        let soiled = std::mem::take(&mut memory.soiled);
        if let Some(outbox) = memory.outbox {
            if soiled {
                self.port.ring.empty_pool(outbox)?;
            }
            return Ok(outbox);
        }
        let free = self.port.spare_outboxes.iter().position(|spare| !self.port.ring.is_pool_in_use(*spare));
        let outbox = match free.map(|at| self.port.spare_outboxes.swap_remove(at)) {
            Some(outbox) => {
                self.port.ring.empty_pool(outbox)?;
                outbox
            }
            None => self.port.ring.new_pool(OUTBOX_CHUNKS, chunk_size(len))?,
        };
        self.slots[index as usize].link.memory.outbox = Some(outbox);
        Ok(outbox)
    }
}

/// What an error says about the machine or the transport instead of the connection.
fn lack(kind: UringKind, errno: Errno) -> Option<&'static str> {
    match (kind, errno) {
        (_, Errno::NOT_A_SOCKET) => {
            Some("the uring engines carry sockets only: use --engine blocking for pipes and files")
        }
        (UringKind::ZeroCopy, Errno::UNSUPPORTED) => {
            Some("this kind of socket takes no zero-copy sends (Unix sockets do not): use uring:multishot, or tcp")
        }
        (UringKind::ZeroCopy, Errno::NO_MEMORY) => Some(
            "no more memory may be locked for zero-copy sends: raise the limit with `ulimit -l unlimited`, or use \
             fewer flows",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outbox_holds_a_write_whole() {
        let outbox = |len: usize| usize::from(OUTBOX_CHUNKS) * chunk_size(len);
        for len in [1, 4096, 65_536] {
            assert_eq!(outbox(len), 65_536, "{len}");
        }
        for len in [65_537, 131_072, 262_144, SEND_MAX] {
            assert!((len..len + 65_536).contains(&outbox(len)), "{len}");
        }
        assert_eq!(outbox(16 << 20), SEND_MAX);
    }
}
