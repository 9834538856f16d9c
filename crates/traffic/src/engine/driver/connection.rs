//! One connection and its flow: asked what it wants, until it has to wait or has had its turn.
//!
//! Flows may come in pairs, as the two connections of a relay do: what one of them is told may change what the
//! other one wants. A flow that says so has its partner asked at once, while what it was told is in the caches;
//! what the partner says back waits for the next round, so that two flows can never keep a thread to themselves.

use std::os::fd::{AsFd, OwnedFd};

use bytegauge_sys::socket;

use crate::engine::driver::{Driver, Port, Then, errno};
use crate::engine::{plain, unconnected};
use crate::fault::Fault;
use crate::flow::{Doing, End, Flow, Want};
use crate::party::Party;

/// Steps that one connection may take before others have their turn.
const TURN_STEPS: usize = 32;

/// The partner of a flow that has none.
const NOBODY: u32 = u32::MAX;

/// What a slot's flow said last, as long as it was not asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum WaitingFor {
    /// It is being worked on, or has had its turn.
    No,
    /// For bytes.
    Receive,
    /// Until its bytes are taken.
    Send,
    /// For either.
    Either,
    /// Until a connection is there.
    Connected,
    /// For a moment.
    Moment,
}

impl WaitingFor {
    pub(in crate::engine) fn listens(self) -> bool {
        matches!(self, WaitingFor::Receive | WaitingFor::Either)
    }
}

/// What a port keeps of a connection.
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
    /// Counts connections, so that an event of an older one is told apart.
    generation: u32,
    /// The slot of the flow that is paired with this one.
    partner: u32,
    pub(in crate::engine) waits: WaitingFor,
    /// The peer has shut down its writing side, and the flow knows.
    pub(in crate::engine) eof: bool,
    /// It leaves, and is not asked any more.
    pub(in crate::engine) leaving: bool,
    /// Whether it stands in the queue of those that go on.
    pub(in crate::engine) queued: bool,
    /// What the flow said it wants and was not given yet: asking twice may not bring the same answer.
    pub(in crate::engine) held: Option<Want>,
    /// The port's.
    pub(in crate::engine) link: L,
}

impl<F, L: EngineLink> Slot<F, L> {
    fn empty() -> Slot<F, L> {
        Slot {
            flow: None,
            fd: None,
            generation: 0,
            partner: NOBODY,
            waits: WaitingFor::No,
            eof: false,
            leaving: false,
            queued: false,
            held: None,
            link: L::default(),
        }
    }

    /// The slot has another connection now, or none.
    fn attach(&mut self, fd: Option<OwnedFd>) {
        self.generation = self.generation.wrapping_add(1) & (u32::MAX >> 1);
        self.fd = fd;
        self.eof = false;
        self.held = None;
        self.link.renew();
    }
}

impl<P: Party, I: Port> Driver<'_, P, I> {
    /// Gives a flow a slot, and another one to the flow that is paired with it.
    pub(super) fn take_in(&mut self, mut flow: P::Flow, fd: Option<OwnedFd>) -> Result<u32, Fault> {
        if !P::Flow::PAIRED {
            return Ok(self.seat(flow, fd));
        }
        let partner = self.party.partner(&mut flow);
        let index = self.seat(flow, fd);
        if let Some((flow, fd)) = partner {
            if let Some(fd) = &fd {
                I::adopt(self, fd)?;
            }
            let other = self.seat(flow, fd);
            self.slots[index as usize].partner = other;
            self.slots[other as usize].partner = index;
            self.go_on_later(other);
        }
        Ok(index)
    }

    fn seat(&mut self, flow: P::Flow, fd: Option<OwnedFd>) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::empty());
            self.timers.grow(self.slots.len());
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.flow = Some(flow);
        slot.leaving = false;
        slot.attach(fd);
        slot.link.take_in();
        self.live += 1;
        index
    }

    /// Sees to it that a slot's flow goes back to its party, with its connection.
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

    /// Gives a flow back, whatever is in flight.
    pub(in crate::engine) fn give_up(&mut self, index: u32) {
        if P::Flow::PAIRED && self.slots[index as usize].partner != NOBODY {
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
        // The party has closed the connection, or will.
        self.on_closed();
    }

    /// Lets a slot go on in the next round.
    pub(in crate::engine) fn go_on_later(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.waits = WaitingFor::No;
        if !std::mem::replace(&mut slot.queued, true) {
            self.again.push_back(index);
        }
    }

    /// The token of a slot's present connection.
    #[inline]
    pub(in crate::engine) fn token(&self, index: u32) -> u64 {
        u64::from(self.slots[index as usize].generation) << 32 | u64::from(index)
    }

    /// Whether a token is of the present connection of its slot.
    #[inline]
    pub(in crate::engine) fn is_current(&self, token: u64) -> bool {
        self.token(token as u32) == token
    }

    /// A moment that the flow named, or the end of its patience.
    pub(super) fn on_deadline(&mut self, index: u32, now_ns: u64) -> Result<(), Fault> {
        let now_ns = if P::Flow::TIMED { now_ns } else { 0 };
        let waits = self.slots[index as usize].waits;
        match waits {
            WaitingFor::No => return Ok(()),
            WaitingFor::Connected => self.fail(index, Doing::Connecting, socket::TIMED_OUT, now_ns),
            WaitingFor::Send => I::on_impatience(self, index),
            WaitingFor::Receive | WaitingFor::Either | WaitingFor::Moment => {}
        }
        self.advance(index, now_ns)
    }

    /// A connection attempt is over.
    pub(in crate::engine) fn on_connected(&mut self, index: u32) -> Result<(), Fault> {
        self.timers.clear(index);
        let now_ns = self.tick();
        match (self.attempt_error(index), &mut self.slots[index as usize].flow) {
            (Some(errno), _) => self.fail(index, Doing::Connecting, errno, now_ns),
            (None, Some(flow)) => flow.connected(now_ns),
            (None, None) => {}
        }
        self.advance(index, now_ns)
    }

    /// Does what a flow wants until it has to wait, or has had its turn; then what its partner does, if that one shall
    /// be asked.
    #[inline]
    pub(in crate::engine) fn advance(&mut self, index: u32, now_ns: u64) -> Result<(), Fault> {
        self.turn(index, now_ns)?;
        if P::Flow::PAIRED { self.wake_partner(index, now_ns) } else { Ok(()) }
    }

    /// Has a flow's partner asked again if what the flow was told concerns it.
    fn wake_partner(&mut self, index: u32, now_ns: u64) -> Result<(), Fault> {
        let slot = &mut self.slots[index as usize];
        let partner = slot.partner;
        if partner == NOBODY || !slot.flow.as_mut().is_some_and(Flow::wakes) {
            return Ok(());
        }
        self.tell_partner(index, partner);
        if self.can_be_woken(partner) {
            self.timers.clear(partner);
            self.turn(partner, now_ns)?;
        }
        // And back; later, or the two could go on for ever.
        if self.slots[partner as usize].flow.as_mut().is_some_and(Flow::wakes) {
            self.tell_partner(partner, index);
            if self.can_be_woken(index) {
                self.timers.clear(index);
                self.go_on_later(index);
            }
        }
        Ok(())
    }

    fn tell_partner(&mut self, from: u32, to: u32) {
        if let Ok([from, to]) = self.slots.get_disjoint_mut([from as usize, to as usize])
            && let (Some(teller), Some(told)) = (&mut from.flow, &mut to.flow)
        {
            teller.hand_over(told);
            // It may want something else now. What ends its sending it wants once, and would not want again.
            to.held = to.held.filter(|want| ends_sending(*want) || *want == Want::Reset);
        }
    }

    /// The slot that keeps what a slot's flow sends back, if there is one.
    pub(in crate::engine) fn keeper(&self, index: u32) -> Option<u32> {
        let keeper = if P::Flow::FORWARDS { self.slots[index as usize].partner } else { index };
        (keeper != NOBODY).then_some(keeper)
    }

    /// A flow of a pair leaves: the other one is asked again.
    fn part(&mut self, index: u32) {
        let partner = std::mem::replace(&mut self.slots[index as usize].partner, NOBODY);
        if partner == NOBODY {
            return;
        }
        self.slots[partner as usize].partner = NOBODY;
        if self.can_be_woken(partner) {
            self.timers.clear(partner);
            self.go_on_later(partner);
        }
    }

    /// A flow that connects is asked when that is over, and one that stands in the queue when its turn comes.
    fn can_be_woken(&self, index: u32) -> bool {
        let slot = &self.slots[index as usize];
        slot.flow.is_some() && !slot.leaving && !slot.queued && slot.waits != WaitingFor::Connected
    }

    fn turn(&mut self, index: u32, mut now_ns: u64) -> Result<(), Fault> {
        let slot = &mut self.slots[index as usize];
        if slot.queued || slot.leaving {
            return Ok(());
        }
        slot.waits = WaitingFor::No;
        for _ in 0..TURN_STEPS {
            let slot = &mut self.slots[index as usize];
            let Some(flow) = &mut slot.flow else { return Ok(()) };
            let held = if I::HOLDS { slot.held.take() } else { None };
            let want = held.unwrap_or_else(|| flow.want(now_ns));
            let over = slot.eof && !survives_eof::<P::Flow>(want);
            if I::HOLDS && (over || ends_sending(want)) && I::is_flushing(self, index) {
                self.slots[index as usize].held = Some(want);
                return self.rest(index, WaitingFor::Send);
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
                Want::Send => I::send(self, index, &mut now_ns)?,
                Want::Receive => I::receive(self, index, &mut now_ns)?,
                Want::ReceiveUntil(at_ns) => {
                    let then = I::receive(self, index, &mut now_ns)?;
                    if then == Then::Rest && self.slots[index as usize].waits == WaitingFor::Receive {
                        self.timers.set(index, at_ns);
                    }
                    then
                }
                Want::Both if self.slots[index as usize].eof => I::send(self, index, &mut now_ns)?,
                Want::Both => I::send_or_receive(self, index, &mut now_ns)?,
                Want::Pause(at_ns) => {
                    self.slots[index as usize].waits = WaitingFor::Moment;
                    self.timers.set(index, at_ns);
                    Then::Rest
                }
                Want::Connect => self.connect(index, now_ns)?,
                Want::Finish => self.finish(index, now_ns)?,
                Want::Close => {
                    self.close(index);
                    Then::Ask
                }
                Want::Reset => {
                    self.reset(index);
                    Then::Ask
                }
                Want::Done => {
                    self.leave(index);
                    Then::Rest
                }
            };
            if then == Then::Rest || self.slots[index as usize].leaving {
                return Ok(());
            }
        }
        self.go_on_later(index);
        Ok(())
    }

    fn connect(&mut self, index: u32, now_ns: u64) -> Result<Then, Fault> {
        self.close(index);
        let Some(flow) = &mut self.slots[index as usize].flow else { return Ok(Then::Rest) };
        // socket(2) and connect(2), at the least.
        self.report.system_calls += 2;
        match self.party.connect(flow) {
            Ok(fd) => {
                I::adopt(self, &fd)?;
                self.slots[index as usize].attach(Some(fd));
                I::watch_attempt(self, index)?;
                self.rest(index, WaitingFor::Connected)?;
                Ok(Then::Rest)
            }
            Err(error) => {
                self.fail(index, Doing::Connecting, errno(&error), now_ns);
                Ok(Then::Ask)
            }
        }
    }

    /// Ends the sending direction.
    fn finish(&mut self, index: u32, now_ns: u64) -> Result<Then, Fault> {
        let Some(fd) = &self.slots[index as usize].fd else { return Err(unconnected()) };
        self.report.system_calls += 1;
        // A connection that is over already is told of by the error.
        if let Err(error) = plain::finish(fd.as_fd()) {
            self.fail(index, Doing::Sending, errno(&error), now_ns);
        }
        Ok(Then::Ask)
    }

    /// WaitingFor for an event, as long as the flow's patience lasts.
    pub(in crate::engine) fn rest(&mut self, index: u32, waits: WaitingFor) -> Result<(), Fault> {
        let slot = &mut self.slots[index as usize];
        slot.waits = waits;
        if waits != WaitingFor::Receive
            && let Some(patience_ns) = slot.flow.as_ref().map(Flow::patience_ns)
            && patience_ns < u64::MAX
        {
            self.timers.set(index, patience_ns);
        }
        I::on_rest(self, index)
    }

    /// Closes the connection.
    pub(in crate::engine) fn close(&mut self, index: u32) {
        if let Some(fd) = self.slots[index as usize].fd.take() {
            I::close(self, index, fd);
            self.slots[index as usize].attach(None);
            self.on_closed();
        }
    }

    /// Closes the connection so that its peer is told of a failure.
    fn reset(&mut self, index: u32) {
        if let Some(fd) = &self.slots[index as usize].fd {
            self.report.system_calls += 1;
            plain::reset_when_closed(fd.as_fd());
        }
        self.close(index);
    }

    pub(in crate::engine) fn fail(&mut self, index: u32, doing: Doing, errno: i32, now_ns: u64) {
        self.close(index);
        self.end(index, End::Failed { doing, errno }, now_ns);
    }

    pub(in crate::engine) fn end(&mut self, index: u32, end: End, now_ns: u64) {
        if let Some(flow) = &mut self.slots[index as usize].flow {
            flow.ended(end, now_ns);
        }
    }
}

/// Whether a connection whose peer sends no more stays open for what its flow wants. One of a pair may still be given
/// something to send by the other, and one that is done takes its connection along.
fn survives_eof<F: Flow>(want: Want) -> bool {
    matches!(want, Want::Send | Want::Both | Want::Finish) || F::PAIRED && matches!(want, Want::Pause(_) | Want::Done)
}

/// Whether nothing is sent on the connection after that.
fn ends_sending(want: Want) -> bool {
    matches!(want, Want::Connect | Want::Finish | Want::Close | Want::Done)
}
