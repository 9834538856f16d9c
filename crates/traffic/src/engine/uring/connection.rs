//! What the io_uring engine does with one connection: what its flow wants is queued, and asked for again when
//! it has completed.

use std::os::fd::{AsFd, OwnedFd};

use bytegauge_model::UringKind;
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::socket;
use bytegauge_sys::uring::OpId;

use crate::engine::unconnected;
use crate::engine::uring::Loop;
use crate::engine::uring::arrival::Spill;
use crate::engine::uring::sending::Memory;
use crate::fault::Fault;
use crate::flow::{Doing, End, Flow, Want};
use crate::party::Party;

/// Steps that one connection may take before others have their turn.
const TURN_STEPS: usize = 32;

/// What a slot's flow said last, as long as it was not asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// It is being worked on, or has had its turn.
    No,
    /// For bytes.
    Receive,
    /// Until its bytes are taken.
    Send,
    /// For either.
    Either,
    /// Until a buffer of a zero-copy send is free again.
    Buffer,
    /// Until a connection is there.
    Connected,
    /// For a moment.
    Moment,
}

impl Waits {
    pub(super) fn listens(self) -> bool {
        matches!(self, Waits::Receive | Waits::Either)
    }
}

/// What becomes of a flow whose operations were called off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// It stays.
    No,
    /// It leaves, and wants nothing any more.
    Done,
    /// It leaves because the engine does, with all that still arrives if it wants that.
    WithWhatComes,
}

/// What follows from a step.
pub(super) enum Then {
    /// The flow is asked again.
    Ask,
    /// A completion or a moment is waited for, or the flow has left.
    Rest,
}

/// One flow and its connection.
pub(super) struct Slot<F> {
    pub(super) flow: Option<F>,
    pub(super) fd: Option<OwnedFd>,
    /// Counts connections, so that a completion of an older one is told apart.
    generation: u32,
    pub(super) waits: Waits,
    pub(super) receiving: Option<OpId>,
    pub(super) sending: Option<OpId>,
    connecting: Option<OpId>,
    /// The flow's patience with what it sends is over: its connection is closed without more ado.
    pub(super) impatient: bool,
    /// The receive was called off, since more came than the flow takes.
    pub(super) called_off: bool,
    /// Bytes that were outgoing when the send was queued.
    pub(super) asked: usize,
    /// The send in flight is of the flow's next bytes, which it does not take for sent yet.
    pub(super) plain: bool,
    /// The peer has shut down its writing side, and the flow knows.
    pub(super) eof: bool,
    /// The connection's end, which the flow does not know yet.
    pub(super) came: Option<End>,
    pub(super) spill: Spill,
    pub(super) memory: Memory,
    pub(super) leaving: Leaving,
    /// Whether it stands in the queue of those that go on.
    pub(super) queued: bool,
}

impl<F> Slot<F> {
    fn empty() -> Slot<F> {
        Slot {
            flow: None,
            fd: None,
            generation: 0,
            waits: Waits::No,
            receiving: None,
            sending: None,
            connecting: None,
            impatient: false,
            called_off: false,
            asked: 0,
            plain: false,
            eof: false,
            came: None,
            spill: Spill::default(),
            memory: Memory::default(),
            leaving: Leaving::No,
            queued: false,
        }
    }

    fn attach(&mut self, fd: Option<OwnedFd>) {
        self.generation = self.generation.wrapping_add(1) & (u32::MAX >> 1);
        self.fd = fd;
        (self.receiving, self.sending, self.connecting) = (None, None, None);
        self.impatient = false;
        self.called_off = false;
        self.eof = false;
        self.came = None;
        self.spill.clear();
        self.memory.forget();
    }

    fn ops(&self) -> impl Iterator<Item = OpId> {
        [self.receiving, self.sending, self.connecting].into_iter().flatten()
    }
}

impl<P: Party> Loop<'_, P> {
    /// Gives a flow a slot.
    pub(super) fn take_in(&mut self, flow: P::Flow, fd: Option<OwnedFd>) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::empty());
            self.timers.grow(self.slots.len());
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.flow = Some(flow);
        slot.leaving = Leaving::No;
        slot.attach(fd);
        self.live += 1;
        index
    }

    /// Gives a slot's flow back to its party as soon as nothing is in flight on its connection.
    pub(super) fn leave(&mut self, index: u32) {
        self.depart(index, Leaving::Done);
    }

    /// As [`Loop::leave`], but the flow gets what still arrives, as long as it wants that.
    pub(super) fn leave_with_what_comes(&mut self, index: u32) {
        self.depart(index, Leaving::WithWhatComes);
    }

    fn depart(&mut self, index: u32, leaving: Leaving) {
        let slot = &mut self.slots[index as usize];
        if slot.flow.is_none() || slot.leaving != Leaving::No {
            return;
        }
        slot.leaving = leaving;
        slot.waits = Waits::No;
        self.timers.clear(index);
        let flushed = if self.flushes_as_it_leaves(index) { self.slots[index as usize].sending } else { None };
        for op in self.slots[index as usize].ops().filter(|op| Some(*op) != flushed) {
            self.ring.cancel(op);
        }
        self.finish_leaving(index);
    }

    /// Calls off what a flow that leaves still sends.
    pub(super) fn stop_flushing(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if slot.leaving == Leaving::WithWhatComes {
            slot.impatient = true;
            slot.ops().for_each(|op| {
                self.ring.cancel(op);
            });
        }
    }

    /// The flow of a slot that leaves is gone once its operations are.
    pub(super) fn finish_leaving(&mut self, index: u32) {
        if self.slots[index as usize].ops().next().is_some() {
            return;
        }
        if self.slots[index as usize].leaving == Leaving::WithWhatComes {
            self.drain_spill(index);
        }
        self.give_up(index);
    }

    /// Gives a flow back, whatever is in flight.
    pub(super) fn give_up(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let Some(flow) = slot.flow.take() else { return };
        let fd = slot.fd.take();
        slot.attach(None);
        slot.waits = Waits::No;
        slot.leaving = Leaving::No;
        self.timers.clear(index);
        self.free.push(index);
        self.live -= 1;
        self.party.left(flow, fd);
        // The party has closed the connection, or will.
        self.on_closed();
    }

    /// Lets a slot go on in the next round.
    pub(super) fn go_on_later(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.waits = Waits::No;
        if !std::mem::replace(&mut slot.queued, true) {
            self.again.push_back(index);
        }
    }

    /// The time of an event, for flows that ask for it.
    #[inline]
    pub(super) fn tick(&self) -> u64 {
        if P::Flow::TIMED { monotonic_ns() } else { 0 }
    }

    /// The token of a slot's present connection.
    #[inline]
    pub(super) fn token(&self, index: u32) -> u64 {
        u64::from(self.slots[index as usize].generation) << 32 | u64::from(index)
    }

    #[inline]
    pub(super) fn is_current(&self, token: u64) -> bool {
        self.token(token as u32) == token
    }

    /// A moment that the flow named, or the end of its patience.
    pub(super) fn on_deadline(&mut self, index: u32, now_ns: u64) -> Result<(), Fault> {
        let now_ns = if P::Flow::TIMED { now_ns } else { 0 };
        let slot = &self.slots[index as usize];
        if slot.leaving != Leaving::No || slot.waits == Waits::No {
            return Ok(());
        }
        self.slots[index as usize].impatient = slot.waits == Waits::Send;
        if self.slots[index as usize].waits == Waits::Connected {
            self.fail(index, Doing::Connecting, socket::TIMED_OUT, now_ns);
        }
        self.advance(index, now_ns)
    }

    pub(super) fn on_connected(&mut self, index: u32) -> Result<(), Fault> {
        let slot = &mut self.slots[index as usize];
        slot.connecting = None;
        if slot.leaving != Leaving::No {
            self.finish_leaving(index);
            return Ok(());
        }
        self.timers.clear(index);
        let now_ns = self.tick();
        let slot = &mut self.slots[index as usize];
        self.report.system_calls += 1;
        let errno = match slot.fd.as_ref().map(|fd| socket::take_error(fd.as_fd())) {
            Some(Ok(errno)) => errno,
            Some(Err(error)) => error.raw_os_error(),
            None => None,
        };
        match (errno, &mut slot.flow) {
            (Some(errno), _) => self.fail(index, Doing::Connecting, errno, now_ns),
            (None, Some(flow)) => flow.connected(now_ns),
            (None, None) => {}
        }
        self.advance(index, now_ns)
    }

    /// Does what the flow wants until it has to wait, or has had its turn.
    pub(super) fn advance(&mut self, index: u32, mut now_ns: u64) -> Result<(), Fault> {
        if self.slots[index as usize].queued || self.slots[index as usize].leaving != Leaving::No {
            return Ok(());
        }
        self.slots[index as usize].waits = Waits::No;
        for _ in 0..TURN_STEPS {
            let slot = &mut self.slots[index as usize];
            let Some(flow) = &mut slot.flow else { return Ok(()) };
            let want = flow.want(now_ns);
            let over = self.slots[index as usize].eof && !matches!(want, Want::Send | Want::Both);
            if (over || matches!(want, Want::Connect | Want::Close | Want::Done)) && self.must_flush(index) {
                return self.rest(index, Waits::Send);
            }
            if over {
                let receives = matches!(want, Want::Receive | Want::ReceiveUntil(_));
                self.close(index);
                if receives {
                    self.end(index, End::Eof, now_ns);
                    continue;
                }
            }
            let then = match want {
                Want::Send => self.send(index, &mut now_ns)?,
                Want::Receive => self.receive(index, &mut now_ns)?,
                Want::ReceiveUntil(at_ns) => {
                    let then = self.receive(index, &mut now_ns)?;
                    if matches!(then, Then::Rest) && self.slots[index as usize].waits == Waits::Receive {
                        self.timers.set(index, at_ns);
                    }
                    then
                }
                Want::Both => self.send_or_receive(index, &mut now_ns)?,
                Want::Pause(at_ns) => {
                    self.slots[index as usize].waits = Waits::Moment;
                    self.timers.set(index, at_ns);
                    Then::Rest
                }
                Want::Connect => self.connect(index, now_ns)?,
                Want::Close => {
                    self.close(index);
                    Then::Ask
                }
                Want::Done => {
                    self.leave(index);
                    Then::Rest
                }
            };
            if matches!(then, Then::Rest) {
                return Ok(());
            }
            if self.slots[index as usize].leaving != Leaving::No {
                return Ok(());
            }
        }
        self.go_on_later(index);
        Ok(())
    }

    /// What is there is received first: a peer that takes everything would otherwise never be listened to.
    fn send_or_receive(&mut self, index: u32, now_ns: &mut u64) -> Result<Then, Fault> {
        let slot = &self.slots[index as usize];
        if slot.eof {
            return self.send(index, now_ns);
        }
        if slot.spill.holds() || slot.came.is_some() {
            return self.receive(index, now_ns);
        }
        self.arm(index)?;
        if self.slots[index as usize].sending.is_none() && matches!(self.send(index, now_ns)?, Then::Ask) {
            return Ok(Then::Ask);
        }
        if self.slots[index as usize].fd.is_some() {
            self.rest(index, Waits::Either)?;
        }
        Ok(Then::Rest)
    }

    fn connect(&mut self, index: u32, now_ns: u64) -> Result<Then, Fault> {
        self.close(index);
        let slot = &mut self.slots[index as usize];
        let Some(flow) = &mut slot.flow else { return Ok(Then::Rest) };
        // socket(2) and connect(2), at the least.
        self.report.system_calls += 2;
        match self.party.connect(flow) {
            Ok(fd) => {
                self.adopt(&fd)?;
                let slot = &mut self.slots[index as usize];
                slot.attach(Some(fd));
                let token = self.token(index);
                let slot = &mut self.slots[index as usize];
                let Some(fd) = &slot.fd else { return Err(unconnected()) };
                slot.connecting = Some(self.ring.writable(token, fd.as_fd()));
                self.rest(index, Waits::Connected)?;
                Ok(Then::Rest)
            }
            Err(error) => {
                self.fail(index, Doing::Connecting, error.raw_os_error().unwrap_or(0), now_ns);
                Ok(Then::Ask)
            }
        }
    }

    /// Waits for a completion, as long as the flow's patience lasts.
    pub(super) fn rest(&mut self, index: u32, waits: Waits) -> Result<(), Fault> {
        let slot = &mut self.slots[index as usize];
        slot.waits = waits;
        let patience_ns = slot.flow.as_ref().map_or(u64::MAX, Flow::patience_ns);
        if waits != Waits::Receive && patience_ns < u64::MAX {
            self.timers.set(index, patience_ns);
        }
        Ok(())
    }

    /// Closes the connection. What is in flight is called off first, or it would keep the socket open.
    pub(super) fn close(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let Some(fd) = slot.fd.take() else { return };
        for op in slot.ops() {
            self.ring.cancel(op);
        }
        if slot.sending.is_some() && self.kind == UringKind::Bundle {
            self.spare_outboxes.extend(slot.memory.outbox.take());
        }
        slot.attach(None);
        self.ring.close(0, fd);
        self.on_closed();
    }

    pub(super) fn fail(&mut self, index: u32, doing: Doing, errno: i32, now_ns: u64) {
        self.close(index);
        self.end(index, End::Failed { doing, errno }, now_ns);
    }

    pub(super) fn end(&mut self, index: u32, end: End, now_ns: u64) {
        if let Some(flow) = &mut self.slots[index as usize].flow {
            flow.ended(end, now_ns);
        }
    }
}
