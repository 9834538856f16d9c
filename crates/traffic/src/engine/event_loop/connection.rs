//! One connection and its flow: handled until it has to wait or its turn is over.
//!
//! Flows may come in pairs, as the two connections of a relay: an event at one may change what the other wants. A flow that
//! reports such a change has its partner called at once, while the data is in the caches, and is called in return; after some
//! such turns the next one waits for the next round, so that two flows never occupy a thread.

use std::os::fd::{AsFd, OwnedFd};

use bytegauge_sys::socket;

use crate::EndError;
use crate::engine::event_loop::{Driver, Port, Then};
use crate::engine::flow_state::step;
use crate::engine::{errno, system_calls, unconnected};
use crate::flow::{ConnectionEnd, Doing, Flow, Party, Want};

/// Most steps of one connection before others have their turn.
const TURN_STEPS: usize = 32;

/// The partner of a flow without one.
const NO_PARTNER: u32 = u32::MAX;

/// The state of a slot's flow since it was last called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum WaitingFor {
    /// It is being handled, or its turn is over.
    No,
    /// Waits for bytes.
    Receive,
    /// Waits until its bytes are sent.
    Send,
    /// Waits for either.
    Either,
    /// Waits for a connection.
    Connected,
    /// Waits for a time.
    Moment,
}

impl WaitingFor {
    pub(in crate::engine) fn listens(self) -> bool {
        matches!(self, WaitingFor::Receive | WaitingFor::Either)
    }
}

/// A port's state of a connection.
pub(in crate::engine) trait EngineLink: Default {
    /// The slot has another connection now, or none.
    fn renew(&mut self);

    /// The slot has another flow now.
    fn take_in(&mut self);
}

/// One flow and its connection.
pub(in crate::engine) struct Slot<F, L> {
    pub(in crate::engine) flow: Option<F>,
    pub(in crate::engine) fd: Option<OwnedFd>,
    /// Counts connections, so that events of older ones are recognised.
    generation: u32,
    /// The slot of the flow's partner.
    partner: u32,
    pub(in crate::engine) waits: WaitingFor,
    /// The peer has shut down its writing side, and the flow knows.
    pub(in crate::engine) eof: bool,
    /// It is leaving, and is not called any more.
    pub(in crate::engine) leaving: bool,
    /// Whether it is in the queue of ready slots.
    pub(in crate::engine) queued: bool,
    /// The port's state.
    pub(in crate::engine) link: L,
}

impl<F, L: EngineLink> Slot<F, L> {
    fn empty() -> Slot<F, L> {
        Slot {
            flow: None,
            fd: None,
            generation: 0,
            partner: NO_PARTNER,
            waits: WaitingFor::No,
            eof: false,
            leaving: false,
            queued: false,
            link: L::default(),
        }
    }

    /// The slot has another connection now, or none.
    fn attach(&mut self, fd: Option<OwnedFd>) {
        self.generation = self.generation.wrapping_add(1) & (u32::MAX >> 1);
        self.fd = fd;
        self.eof = false;
        self.link.renew();
    }
}

impl<P: Party, I: Port> Driver<'_, P, I> {
    /// Gives a flow a slot, and its partner another one.
    pub(super) fn take_in(&mut self, mut flow: P::Flow, fd: Option<OwnedFd>) -> Result<u32, EndError> {
        if !P::Flow::PAIRED {
            return self.fill_slot(flow, fd);
        }
        let partner = self.party.partner(&mut flow);
        let index = self.fill_slot(flow, fd)?;
        if let Some((flow, fd)) = partner {
            if let Some(fd) = &fd {
                I::adopt(self, fd)?;
            }
            let other = self.fill_slot(flow, fd)?;
            self.slots[index as usize].partner = other;
            self.slots[other as usize].partner = index;
            self.queue_later(other);
        }
        Ok(index)
    }

    fn fill_slot(&mut self, flow: P::Flow, fd: Option<OwnedFd>) -> Result<u32, EndError> {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::empty());
            self.timers.grow(self.slots.len());
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.flow = Some(flow);
        slot.leaving = false;
        let has_connection = fd.is_some();
        slot.attach(fd);
        slot.link.take_in();
        self.live += 1;
        if has_connection {
            I::on_attached(self, index)?;
        }
        Ok(index)
    }

    /// Starts to return a slot's flow to its party, with its connection.
    pub(in crate::engine) fn leave(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if slot.flow.is_none() || slot.leaving {
            return;
        }
        slot.leaving = true;
        slot.waits = WaitingFor::No;
        self.timers.clear(index);
        I::depart(self, index);
    }

    /// Returns a flow, whatever is in flight.
    pub(in crate::engine) fn give_up(&mut self, index: u32) {
        if P::Flow::PAIRED && self.slots[index as usize].partner != NO_PARTNER {
            self.tell_partner(index, self.slots[index as usize].partner);
        }
        let slot = &mut self.slots[index as usize];
        let Some(flow) = slot.flow.take() else { return };
        let fd = slot.fd.take();
        slot.attach(None);
        slot.waits = WaitingFor::No;
        slot.leaving = false;
        if P::Flow::PAIRED {
            self.part(index);
        }
        self.timers.clear(index);
        self.free.push(index);
        self.live -= 1;
        self.party.left(flow, fd);
    }

    /// Queues a slot for the next round.
    pub(in crate::engine) fn queue_later(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.waits = WaitingFor::No;
        if !std::mem::replace(&mut slot.queued, true) {
            self.again.push_back(index);
        }
    }

    /// The token of a slot's current connection.
    #[inline]
    pub(in crate::engine) fn token(&self, index: u32) -> u64 {
        u64::from(self.slots[index as usize].generation) << 32 | u64::from(index)
    }

    /// Whether a token belongs to the current connection of its slot.
    #[inline]
    pub(in crate::engine) fn is_current(&self, token: u64) -> bool {
        self.token(token as u32) == token
    }

    /// A time set by the flow, or the end of its patience.
    pub(super) fn on_deadline(&mut self, index: u32, now_ns: u64) -> Result<(), EndError> {
        let now_ns = if P::Flow::TIMED { now_ns } else { 0 };
        let waits = self.slots[index as usize].waits;
        match waits {
            WaitingFor::No => return Ok(()),
            WaitingFor::Connected => self.fail(index, Doing::Connecting, socket::TIMED_OUT, now_ns),
            WaitingFor::Send | WaitingFor::Receive | WaitingFor::Either | WaitingFor::Moment => {}
        }
        self.advance(index, now_ns)
    }

    /// A connection attempt is over.
    pub(in crate::engine) fn on_connected(&mut self, index: u32) -> Result<(), EndError> {
        self.timers.clear(index);
        let now_ns = self.tick();
        self.report.system_calls += 1;
        let slot = &mut self.slots[index as usize];
        match (slot.fd.as_ref().map(|fd| socket::take_error(fd.as_fd())), &mut slot.flow) {
            (Some(Err(error)), _) => self.fail(index, Doing::Connecting, errno(&error), now_ns),
            (_, Some(flow)) => flow.connected(now_ns),
            (_, None) => {}
        }
        self.advance(index, now_ns)
    }

    /// Does what a flow wants until it has to wait, or its turn is over; then the same for its partner, if that is to be
    /// called.
    #[inline]
    pub(in crate::engine) fn advance(&mut self, index: u32, now_ns: u64) -> Result<(), EndError> {
        self.turn(index, now_ns)?;
        if P::Flow::PAIRED { self.wake_partner(index, now_ns) } else { Ok(()) }
    }

    /// Has a flow's partner called again if the flow's last event concerns it, and the flow itself if its partner's does.
    fn wake_partner(&mut self, index: u32, now_ns: u64) -> Result<(), EndError> {
        let (mut from, mut to) = (index, self.slots[index as usize].partner);
        for turn in 0..=TURN_STEPS {
            if to == NO_PARTNER || !self.slots[from as usize].flow.as_mut().is_some_and(Flow::wakes) {
                return Ok(());
            }
            self.tell_partner(from, to);
            if self.can_be_woken(to) {
                self.timers.clear(to);
                if turn == TURN_STEPS {
                    // Others have their turn first, or the two could continue for ever.
                    self.queue_later(to);
                    return Ok(());
                }
                self.turn(to, now_ns)?;
            }
            (from, to) = (to, from);
        }
        Ok(())
    }

    fn tell_partner(&mut self, from: u32, to: u32) {
        if let Ok([from, to]) = self.slots.get_disjoint_mut([from as usize, to as usize])
            && let (Some(giver), Some(taker)) = (&mut from.flow, &mut to.flow)
        {
            giver.give_to_partner(taker);
        }
    }

    /// The slot with the bytes that a slot's flow sends back, if any.
    pub(in crate::engine) fn keeper(&self, index: u32) -> Option<u32> {
        let keeper = if P::Flow::FORWARDS { self.slots[index as usize].partner } else { index };
        (keeper != NO_PARTNER).then_some(keeper)
    }

    /// A flow of a pair leaves: the other one is called again.
    fn part(&mut self, index: u32) {
        let partner = std::mem::replace(&mut self.slots[index as usize].partner, NO_PARTNER);
        if partner == NO_PARTNER {
            return;
        }
        self.slots[partner as usize].partner = NO_PARTNER;
        if self.can_be_woken(partner) {
            self.timers.clear(partner);
            self.queue_later(partner);
        }
    }

    /// A flow that connects is called when that is over, and a queued one when its turn comes.
    fn can_be_woken(&self, index: u32) -> bool {
        let slot = &self.slots[index as usize];
        slot.flow.is_some() && !slot.leaving && !slot.queued && slot.waits != WaitingFor::Connected
    }

    fn turn(&mut self, index: u32, mut now_ns: u64) -> Result<(), EndError> {
        let slot = &mut self.slots[index as usize];
        if slot.queued || slot.leaving {
            return Ok(());
        }
        slot.waits = WaitingFor::No;
        for _ in 0..TURN_STEPS {
            let slot = &mut self.slots[index as usize];
            let Some(flow) = &mut slot.flow else { return Ok(()) };
            let next = step::<P::Flow>(flow.want(now_ns), slot.eof);
            if next.closes {
                self.close(index);
            }
            if next.is_over {
                self.end(index, ConnectionEnd::Eof, now_ns);
                continue;
            }
            let then = match next.want {
                want @ (Want::Send | Want::Both | Want::Receive | Want::ReceiveUntil(_)) => {
                    let then = I::transfer(self, index, want, &mut now_ns)?;
                    if let Want::ReceiveUntil(until_ns) = next.want
                        && then == Then::Rest
                        && self.slots[index as usize].waits == WaitingFor::Receive
                    {
                        self.timers.set(index, until_ns);
                    }
                    then
                }
                Want::Done => {
                    self.leave(index);
                    Then::Rest
                }
                want => self.act(index, want, now_ns)?,
            };
            if then == Then::Rest || self.slots[index as usize].leaving {
                return Ok(());
            }
        }
        self.queue_later(index);
        Ok(())
    }

    /// Does what moves no bytes.
    fn act(&mut self, index: u32, want: Want, now_ns: u64) -> Result<Then, EndError> {
        match want {
            Want::Connect => return self.connect(index, now_ns),
            Want::Finish => return self.finish(index, now_ns),
            Want::Pause(until_ns) => {
                self.slots[index as usize].waits = WaitingFor::Moment;
                // A flow that only its partner ends needs no timer.
                if until_ns < u64::MAX {
                    self.timers.set(index, until_ns);
                }
                return Ok(Then::Rest);
            }
            Want::Reset => self.reset(index),
            Want::Send | Want::Receive | Want::ReceiveUntil(_) | Want::Both | Want::Close | Want::Done => {}
        }
        Ok(Then::Ask)
    }

    fn connect(&mut self, index: u32, now_ns: u64) -> Result<Then, EndError> {
        let Some(flow) = &mut self.slots[index as usize].flow else { return Ok(Then::Rest) };
        // socket(2) and connect(2), at the least.
        self.report.system_calls += 2;
        match self.party.connect(flow) {
            Ok(fd) => {
                I::adopt(self, &fd)?;
                self.slots[index as usize].attach(Some(fd));
                I::on_attached(self, index)?;
                I::watch_attempt(self, index)?;
                self.rest(index, WaitingFor::Connected)
            }
            Err(error) => {
                self.fail(index, Doing::Connecting, errno(&error), now_ns);
                Ok(Then::Ask)
            }
        }
    }

    /// Ends the sending direction.
    fn finish(&mut self, index: u32, now_ns: u64) -> Result<Then, EndError> {
        let Some(fd) = &self.slots[index as usize].fd else { return Err(unconnected()) };
        self.report.system_calls += 1;
        // The error reports a connection that is over already.
        if let Err(error) = system_calls::finish(fd.as_fd()) {
            self.fail(index, Doing::Sending, errno(&error), now_ns);
        }
        Ok(Then::Ask)
    }

    /// Waits for an event, within the flow's patience.
    pub(in crate::engine) fn rest(&mut self, index: u32, waits: WaitingFor) -> Result<Then, EndError> {
        let slot = &mut self.slots[index as usize];
        slot.waits = waits;
        if waits != WaitingFor::Receive
            && let Some(patience_ns) = slot.flow.as_ref().map(Flow::patience_ns)
            && patience_ns < u64::MAX
        {
            self.timers.set(index, patience_ns);
        }
        I::on_rest(self, index).map(|()| Then::Rest)
    }

    /// Closes the connection.
    pub(in crate::engine) fn close(&mut self, index: u32) {
        if let Some(fd) = self.slots[index as usize].fd.take() {
            I::close(self, index, fd);
            self.slots[index as usize].attach(None);
        }
    }

    /// Closes the connection so that its peer gets an error.
    fn reset(&mut self, index: u32) {
        if let Some(fd) = &self.slots[index as usize].fd {
            self.report.system_calls += 1;
            system_calls::reset_when_closed(fd.as_fd());
        }
        self.close(index);
    }

    pub(in crate::engine) fn fail(&mut self, index: u32, doing: Doing, errno: i32, now_ns: u64) {
        self.close(index);
        self.end(index, ConnectionEnd::Failed { doing, errno }, now_ns);
    }

    pub(in crate::engine) fn end(&mut self, index: u32, end: ConnectionEnd, now_ns: u64) {
        if let Some(flow) = &mut self.slots[index as usize].flow {
            flow.ended(end, now_ns);
        }
    }
}
