//! The io_uring engine's state of one connection: its operations, and how they are cancelled.

use bytegauge_model::UringKind;
use bytegauge_sys::uring::OpId;

use crate::end_error::EndError;
use crate::engine::event_loop::{EngineLink, Then, WaitingFor};
use crate::engine::uring::receiving::Input;
use crate::engine::uring::ring_port::Loop;
use crate::engine::uring::sending::SendBuffers;
use crate::flow::ConnectionEnd;
use crate::party::Party;

/// Operations in flight on a connection, and their results.
#[derive(Default)]
pub(super) struct Operations {
    pub(super) receiving: Option<OpId>,
    pub(super) sending: Option<OpId>,
    pub(super) connecting: Option<OpId>,
    /// The flow's patience with its sending is over: its connection is closed at once.
    pub(super) impatient: bool,
    /// The receive was cancelled, since more arrived than the flow takes.
    pub(super) called_off: bool,
    /// The send in flight is of the flow's next bytes, which do not count as sent yet.
    pub(super) plain: bool,
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
        (self.receiving, self.sending, self.connecting) = (None, None, None);
        self.impatient = false;
        self.called_off = false;
        self.takes_what_comes = false;
        self.pending_end = None;
        self.output.forget();
    }

    fn take_in(&mut self) {
        self.output.hand_over();
    }
}

impl Operations {
    pub(super) fn in_flight(&self) -> impl Iterator<Item = OpId> + use<> {
        [self.receiving, self.sending, self.connecting].into_iter().flatten()
    }
}

impl<P: Party> Loop<'_, P> {
    /// As [`leave`](Loop::leave), but the flow gets bytes that still arrive, as long as it wants them.
    pub(super) fn leave_with_what_comes(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if slot.flow.is_some() && !slot.leaving {
            slot.link.takes_what_comes = true;
            self.leave(index);
        }
    }

    /// Cancels the operations of a flow that leaves, except sends of bytes that count as sent.
    pub(super) fn call_off(&mut self, index: u32) {
        let flushed = if self.flushes_as_it_leaves(index) { self.slots[index as usize].link.sending } else { None };
        for op in self.slots[index as usize].link.in_flight().filter(|op| Some(*op) != flushed) {
            self.port.ring.cancel(op);
        }
        self.finish_leaving(index);
    }

    /// Cancels the sends of a flow that leaves.
    pub(super) fn stop_flushing(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if slot.leaving && slot.link.takes_what_comes {
            slot.link.impatient = true;
            for op in slot.link.in_flight() {
                self.port.ring.cancel(op);
            }
        }
    }

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
            return self.hand_over(index, now_ns);
        }
        self.arm(index)?;
        if self.slots[index as usize].link.sending.is_none() && self.queue_send(index, now_ns)? == Then::Ask {
            return Ok(Then::Ask);
        }
        if self.slots[index as usize].fd.is_some() {
            self.rest(index, WaitingFor::Either)?;
        }
        Ok(Then::Rest)
    }

    /// Whether the connection must stay open until its outgoing bytes are sent.
    pub(super) fn must_flush(&self, index: u32) -> bool {
        let link = &self.slots[index as usize].link;
        self.port.kind == UringKind::Bundle && link.sending.is_some() && !link.plain && !link.impatient
    }
}
