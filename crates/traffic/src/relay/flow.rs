//! A relay on an engine: two flows, each of which sends the bytes that the other receives.
//!
//! With `uring`, in each of its modes, the engine receives and keeps the bytes. A [`CopyMethod`] is driven by `epoll`: it takes
//! them by a call of its own, and goes to the other flow with the bytes that it holds.
//!
//! Bytes held for a side are bounded: its partner stops receiving while it holds a buffer or more, or anything by a method of its
//! own. The end of a stream is passed on as such, and a failure as a failure.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytegauge_model::{Engine, EngineReport, EpollMode, RelayMethod};

use crate::EndError;
use crate::end::thread_group::Flags;
use crate::engine::{self, Station};
use crate::flow::{CallResult, ConnectionEnd, Doing, Flow, Party, Want};
use crate::meter::Meter;
use crate::relay::copy_methods::{Carrying, CopyMethod, ReadWrite};
use crate::relay::state::{Passage, RelayShared};
use crate::setup::Setup;

/// The engine of methods with calls of their own: those call until a socket is not ready, so one registration lasts.
const OWN_CALLS: Engine = EpollMode::of(true, true);

/// Relays the connections that the calling thread accepts, by a method of its own; several threads may share a listener.
pub(super) fn carry_by<H: CopyMethod + 'static>(carrying: Carrying<'_, '_>) -> Result<EngineReport, EndError> {
    let Carrying { shared, setup, flags, meter } = carrying;
    let mut party = PairParty::<H, true>::new(shared, setup, 1);
    engine::drive(OWN_CALLS, &mut party, station(shared, flags, 0), meter).map(|(_, report)| report)
}

/// The listener and the flags, and the longest receive of an engine that moves the bytes itself.
fn station<'a>(shared: &'a RelayShared, flags: &'a Flags, buffer_size: usize) -> Station<'a> {
    let stop_requested = if shared.leaves_when_stopped() { &*flags.stop_requested } else { &shared.over };
    Station { listener: Some(shared.listener.as_fd()), ..Station::new(buffer_size, &flags.abort, stop_requested) }
}

/// Relays connections by the engine of the method's name.
pub(super) fn carry(carrying: Carrying<'_, '_>) -> Result<EngineReport, EndError> {
    let Carrying { shared, setup, flags, meter } = carrying;
    let impossible = || EndError::Impossible("the relay's method is no engine's".into());
    let engine = setup.relay_method().and_then(engine_of).ok_or_else(impossible)?;
    if let Some(reason) = engine::missing_requirement(engine) {
        return Err(EndError::Missing(reason));
    }
    let mut party = PairParty::<ReadWrite, false>::new(shared, setup, setup.relay_buffer());
    let buffer_size = setup.set_relay_buffer().unwrap_or_else(|| engine::message_buffer(engine, setup.relay_buffer()));
    engine::drive(engine, &mut party, station(shared, flags, buffer_size), meter).map(|(_, report)| report)
}

/// The engine of a method.
pub(super) fn engine_of(method: RelayMethod) -> Option<Engine> {
    let name = match method {
        RelayMethod::Uring => "uring:plain",
        RelayMethod::UringMultishot => "uring:multishot",
        RelayMethod::UringBundle => "uring:bundle",
        RelayMethod::Zerocopy => "uring:zc",
        _ => return None,
    };
    name.parse().ok()
}

/// One side of a connection: 0 was accepted, 1 connects to the other side.
///
/// It owns its state, and hands data to its partner when the driver, which has both, calls for it: no message takes a lock.
/// The bytes go over with a method that `CALLS`, or stay in the engine's buffers, from where the partner sends them: then there is no
/// method.
#[derive(Debug)]
struct Half<H, const CALLS: bool> {
    number: u64,
    side: usize,
    joined: bool,
    held_max: usize,
    /// The method of the bytes that it receives, unless its partner has it.
    takes: Option<H>,
    /// The partner's, while it holds bytes.
    gives: Option<H>,
    /// Bytes held for it to send.
    held: usize,
    /// Bytes received since it last handed over.
    fresh: usize,
    /// Bytes that its partner had to send at that time.
    partner_held: usize,
    /// Whether it has received everything, and whether it has ended its sending; then the same of its partner.
    eof: bool,
    finished: bool,
    partner_eof: bool,
    partner_finished: bool,
    /// Whether a side has failed.
    broken: bool,
    /// Why connecting to the other side failed.
    unconnected: Option<i32>,
    /// Bytes received, and bytes sent.
    taken: u64,
    given: u64,
    concerns_partner: bool,
    left: bool,
}

impl<H, const CALLS: bool> Half<H, CALLS> {
    fn new(number: u64, side: usize, held_max: usize, takes: Option<H>) -> Half<H, CALLS> {
        Half {
            number,
            side,
            joined: side == 0,
            held_max,
            takes,
            gives: None,
            held: 0,
            fresh: 0,
            partner_held: 0,
            eof: false,
            finished: false,
            partner_eof: false,
            partner_finished: false,
            broken: false,
            unconnected: None,
            taken: 0,
            given: 0,
            concerns_partner: false,
            left: false,
        }
    }

    /// Whether its partner has no room for more.
    fn is_held_up(&self) -> bool {
        self.partner_held + self.fresh >= self.held_max
    }

    fn took(&mut self, bytes: usize) {
        self.fresh += bytes;
        self.taken += bytes as u64;
        self.concerns_partner = true;
    }

    /// The bytes received here and sent at the other side.
    fn passage(&self, partner: &Half<H, CALLS>) -> Passage {
        Passage { taken: self.taken, given: partner.given, in_order: partner.finished && !self.broken }
    }
}

impl<H: CopyMethod, const CALLS: bool> Flow for Half<H, CALLS> {
    const PAIRED: bool = true;

    const FORWARDS: bool = !CALLS;

    fn want(&mut self, _now_ns: u64) -> Want {
        if self.broken {
            return if std::mem::replace(&mut self.left, true) { Want::Done } else { Want::Reset };
        }
        if !self.joined {
            return Want::Connect;
        }
        let sends = self.held > 0;
        if !sends && self.partner_eof && !self.finished {
            self.finished = true;
            self.concerns_partner = true;
            return Want::Finish;
        }
        if self.finished && self.partner_finished {
            // The connection is returned with the flow: the kernel's count is read later.
            return Want::Done;
        }
        match (sends, !self.eof && !self.is_held_up()) {
            (true, true) => Want::Both,
            (true, false) => Want::Send,
            (false, true) => Want::Receive,
            (false, false) => Want::Pause(u64::MAX),
        }
    }

    fn echoes(&self) -> bool {
        true
    }

    fn returns(&self) -> Range<usize> {
        0..self.held
    }

    fn sent(&mut self, n: usize, _now_ns: u64) {
        let was_held_up = self.held >= self.held_max;
        self.held -= n;
        self.given += n as u64;
        // The partner may receive again, or get the bytes that wait.
        self.concerns_partner |= self.held == 0 || was_held_up && self.held < self.held_max;
    }

    fn received(&mut self, bytes: &mut [u8], _now_ns: u64) -> bool {
        self.took(bytes.len());
        true
    }

    fn connected(&mut self, _now_ns: u64) {
        self.joined = true;
    }

    fn ended(&mut self, end: ConnectionEnd, _now_ns: u64) {
        self.concerns_partner = true;
        match end {
            ConnectionEnd::Eof => self.eof = true,
            ConnectionEnd::Failed { doing: Doing::Connecting, errno } => {
                self.unconnected = Some(errno);
                self.broken = true;
            }
            ConnectionEnd::Closed | ConnectionEnd::Failed { .. } => self.broken = true,
        }
    }

    fn wakes(&mut self) -> bool {
        std::mem::take(&mut self.concerns_partner)
    }

    fn give_to_partner(&mut self, partner: &mut Half<H, CALLS>) {
        let was_held_up = self.is_held_up();
        if CALLS && self.fresh > 0 {
            partner.gives = self.takes.take();
        }
        if CALLS && self.held == 0 && self.gives.is_some() {
            partner.takes = self.gives.take();
        }
        partner.held += std::mem::take(&mut self.fresh);
        self.partner_held = partner.held;
        partner.partner_held = self.held;
        // Its count of the partner's bytes was old, so it may not have asked for all the room.
        partner.concerns_partner |= was_held_up && !self.is_held_up();
        (partner.partner_eof, partner.partner_finished) = (self.eof, self.finished);
        partner.broken |= self.broken;
        partner.unconnected = partner.unconnected.or(self.unconnected);
    }
}

/// All connections of a relay.
struct PairParty<'a, H, const CALLS: bool> {
    shared: &'a RelayShared,
    setup: &'a Setup,
    held_max: usize,
    /// The second flow of an accepted connection, until the engine asks for it.
    back: Option<Half<H, CALLS>>,
    /// Sides that ended before their partners, with their connections.
    left: BTreeMap<u64, (Half<H, CALLS>, Option<OwnedFd>)>,
    number: u64,
}

impl<H: CopyMethod, const CALLS: bool> PairParty<'_, H, CALLS> {
    fn new<'a>(shared: &'a RelayShared, setup: &'a Setup, held_max: usize) -> PairParty<'a, H, CALLS> {
        PairParty { shared, setup, held_max, back: None, left: BTreeMap::new(), number: 0 }
    }

    /// Both flows of an accepted connection.
    fn prepared(&self, connection: BorrowedFd<'_>) -> Result<[Half<H, CALLS>; 2], EndError> {
        self.shared.upstream.prepare_accepted(connection)?;
        let method = || CALLS.then(|| H::new(self.setup)).transpose();
        let half = |side, method| Half::new(self.number, side, self.held_max, method);
        Ok([half(0, method()?), half(1, method()?)])
    }
}

impl<H: CopyMethod + 'static, const CALLS: bool> Party for PairParty<'_, H, CALLS> {
    type Flow = Half<H, CALLS>;

    const CALLS: bool = CALLS;

    fn accepted(&mut self, connection: BorrowedFd<'_>, _now_ns: u64) -> Option<Half<H, CALLS>> {
        if !self.shared.admits(connection) {
            return None;
        }
        self.number += 1;
        match self.prepared(connection) {
            Ok([front, back]) => {
                self.back = Some(back);
                Some(front)
            }
            Err(fault) => {
                self.shared.unconnected(fault);
                None
            }
        }
    }

    fn connect(&mut self, _flow: &mut Half<H, CALLS>) -> io::Result<OwnedFd> {
        self.shared.upstream.connector.begin()
    }

    fn partner(&mut self, _flow: &mut Half<H, CALLS>) -> Option<(Half<H, CALLS>, Option<OwnedFd>)> {
        Some((self.back.take()?, None))
    }

    #[inline]
    fn transfer(
        &mut self,
        doing: Doing,
        half: &mut Half<H, CALLS>,
        connection: BorrowedFd<'_>,
        meter: &mut Meter,
        _now_ns: &mut u64,
    ) -> io::Result<CallResult> {
        if doing == Doing::Sending {
            let Some(method) = &mut half.gives else { return Err(io::ErrorKind::Unsupported.into()) };
            let held = method.held();
            let n = method.give(connection)?;
            if n == 0 {
                return Ok(CallResult::End);
            }
            meter.count(n, held);
            half.sent(n, 0);
            // A pipe gives in fragments: only the next call shows that the socket is full.
            return Ok(CallResult::Some { is_ready: true });
        }
        let Some(method) = &mut half.takes else { return Err(io::ErrorKind::Unsupported.into()) };
        let n = method.take(connection)?;
        if n == 0 {
            return Ok(CallResult::End);
        }
        meter.count(n, method.room());
        let is_ready = method.may_leave_some(n);
        half.took(n);
        Ok(CallResult::Some { is_ready })
    }

    fn left(&mut self, flow: Half<H, CALLS>, connection: Option<OwnedFd>) {
        let Some((other, other_connection)) = self.left.remove(&flow.number) else {
            self.left.insert(flow.number, (flow, connection));
            return;
        };
        if let Some(errno) = flow.unconnected.or(other.unconnected) {
            self.shared.unconnected(self.shared.upstream.connector.fault(io::Error::from_raw_os_error(errno)));
            return;
        }
        let broken = flow.broken || other.broken;
        let [(front, front_fd), (back, back_fd)] = match flow.side {
            0 => [(&flow, &connection), (&other, &other_connection)],
            _ => [(&other, &other_connection), (&flow, &connection)],
        };
        let legs = [front_fd, back_fd].map(|leg| leg.as_ref().map(AsFd::as_fd));
        self.shared.settle([front.passage(back), back.passage(front)], broken, legs);
    }
}
