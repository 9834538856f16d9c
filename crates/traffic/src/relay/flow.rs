//! The engine `uring`, in each of its modes, as a relay: two flows, each of which sends the bytes that the other receives.
//!
//! Bytes held for a side are bounded: its partner stops receiving while it holds a buffer or more. The end of a stream is
//! passed on as such, and a failure as a failure.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytegauge_model::{Engine, EngineReport, RelayMethod};

use crate::engine::{self, Station};
use crate::fault::Fault;
use crate::flow::{Doing, End, Flow, Want};
use crate::party::Party;
use crate::relay::copy_method::Carrying;
use crate::relay::shared::{Passage, RelayShared};
use crate::relay::socket::unconnected;

pub(super) fn carry(carrying: Carrying<'_, '_>) -> Result<EngineReport, Fault> {
    let Carrying { shared, setup, cues, meter } = carrying;
    let impossible = || Fault::Impossible("the relay's method is no engine's".into());
    let engine = setup.relay_method().and_then(engine_of).ok_or_else(impossible)?;
    if let Some(reason) = engine::lacks(engine) {
        return Err(Fault::Missing(reason));
    }
    let stop_requested = if shared.leaves_when_stopped() { cues.stop_requested } else { shared.over() };
    let mut party = PairParty { shared, held_max: setup.relay_buffer(), left: BTreeMap::new(), number: 0 };
    let buffer_size = setup.set_relay_buffer().unwrap_or_else(|| engine::message_buffer(engine, setup.relay_buffer()));
    let station = Station {
        listener: Some(shared.listener()),
        buffer_size,
        epoll_busy_poll_ns: None,
        abort: cues.abort,
        stop_requested,
    };
    let driven = engine::drive(engine, &mut party, station, meter);
    driven.map(|(_, report)| report)
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

/// The mode that a method requires but an engine's counters do not prove, if any.
pub(super) fn unproven(method: RelayMethod, report: &EngineReport) -> Option<String> {
    engine::proof::unproven(engine_of(method)?, report)
}

/// One side of a connection: 0 was accepted, 1 connects to the other side.
///
/// It owns its state, and hands data to its partner when the driver, which has both, calls for it: no message takes a lock.
/// The bytes stay in the engine's buffers, from where the partner sends them.
#[derive(Debug)]
struct Half {
    number: u64,
    side: usize,
    joined: bool,
    held_max: usize,
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

impl Half {
    fn new(number: u64, side: usize, held_max: usize) -> Half {
        Half {
            number,
            side,
            joined: side == 0,
            held_max,
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

    /// The bytes received here and sent at the other side.
    fn passage(&self, partner: &Half) -> Passage {
        Passage { taken: self.taken, given: partner.given, in_order: partner.finished && !self.broken }
    }
}

impl Flow for Half {
    const PAIRED: bool = true;

    const FORWARDS: bool = true;

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
        self.fresh += bytes.len();
        self.taken += bytes.len() as u64;
        self.concerns_partner = true;
        true
    }

    fn connected(&mut self, _now_ns: u64) {
        self.joined = true;
    }

    fn ended(&mut self, end: End, _now_ns: u64) {
        self.concerns_partner = true;
        match end {
            End::Eof => self.eof = true,
            End::Failed { doing: Doing::Connecting, errno } => {
                self.unconnected = Some(errno);
                self.broken = true;
            }
            End::Closed | End::Failed { .. } => self.broken = true,
        }
    }

    fn wakes(&mut self) -> bool {
        std::mem::take(&mut self.concerns_partner)
    }

    fn hand_over(&mut self, partner: &mut Half) {
        let was_held_up = self.is_held_up();
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
struct PairParty<'a> {
    shared: &'a RelayShared,
    held_max: usize,
    /// Sides that ended before their partners, with their connections.
    left: BTreeMap<u64, (Half, Option<OwnedFd>)>,
    number: u64,
}

impl Party for PairParty<'_> {
    type Flow = Half;

    fn first(&mut self) -> Option<(Half, Option<OwnedFd>)> {
        None
    }

    fn accepted(&mut self, connection: BorrowedFd<'_>, _now_ns: u64) -> Option<Half> {
        if !self.shared.admits(connection) {
            return None;
        }
        if let Err(fault) = self.shared.upstream.welcome(connection) {
            self.shared.unconnected(fault);
            return None;
        }
        self.number += 1;
        Some(Half::new(self.number, 0, self.held_max))
    }

    fn connect(&mut self, _flow: &mut Half) -> io::Result<OwnedFd> {
        self.shared.upstream.begin()
    }

    fn partner(&mut self, flow: &mut Half) -> Option<(Half, Option<OwnedFd>)> {
        Some((Half::new(flow.number, 1, self.held_max), None))
    }

    fn left(&mut self, flow: Half, connection: Option<OwnedFd>) {
        let Some((other, other_connection)) = self.left.remove(&flow.number) else {
            self.left.insert(flow.number, (flow, connection));
            return;
        };
        if let Some(errno) = flow.unconnected.or(other.unconnected) {
            self.shared.unconnected(unconnected(io::Error::from_raw_os_error(errno)));
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An event at a side.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Receives(usize),
        Sends(usize),
    }

    const MAX: usize = 100;

    fn step() -> impl Strategy<Value = (usize, Step)> {
        (0usize..2, prop_oneof![(1usize..80).prop_map(Step::Receives), (1usize..200).prop_map(Step::Sends)])
    }

    /// Both sides, the bytes that each has received and sent, and whether its engine waits for a request.
    struct FlowPair {
        halves: [Half; 2],
        received: [Vec<u8>; 2],
        sent: [Vec<u8>; 2],
        /// The received bytes that the engine keeps of each.
        kept: [Vec<u8>; 2],
        rests: [bool; 2],
    }

    impl FlowPair {
        fn new() -> FlowPair {
            let mut halves = [0, 1].map(|side| Half::new(1, side, MAX));
            halves[1].connected(0);
            FlowPair {
                halves,
                received: Default::default(),
                sent: Default::default(),
                kept: Default::default(),
                rests: [false; 2],
            }
        }

        /// As the driver does after every event: a flow that wakes its partner hands over first.
        fn wake(&mut self, side: usize) {
            for from in [side, 1 - side] {
                if self.halves[from].wakes() {
                    let [front, back] = &mut self.halves;
                    if from == 0 {
                        front.hand_over(back);
                    } else {
                        back.hand_over(front);
                    }
                    self.rests[1 - from] = false;
                }
            }
        }

        fn step(&mut self, side: usize, step: Step) {
            if self.rests[side] {
                return;
            }
            let want = self.halves[side].want(0);
            match (step, want) {
                (Step::Receives(n), Want::Receive | Want::Both) => {
                    let at = self.received[side].len();
                    let mut bytes: Vec<u8> = (at..at + n).map(|byte| byte as u8).collect();
                    self.received[side].extend_from_slice(&bytes);
                    self.kept[side].extend_from_slice(&bytes);
                    assert!(self.halves[side].received(&mut bytes, 0));
                }
                (Step::Sends(most), Want::Send | Want::Both) => {
                    let n = self.halves[side].returns().len().min(most);
                    assert!(n > 0);
                    self.sent[side].extend(self.kept[1 - side].drain(..n));
                    self.halves[side].sent(n, 0);
                }
                (_, Want::Pause(_)) => self.rests[side] = true,
                _ => {}
            }
            self.wake(side);
            assert!(self.halves[side].held < MAX + 80);
        }
    }

    proptest! {
        #[test]
        fn all_bytes_cross_in_order_and_nothing_hangs(
            steps in prop::collection::vec(step(), 1..300),
        ) {
            let mut pair = FlowPair::new();
            for (side, step) in steps {
                pair.step(side, step);
            }
            // Both sides are asked to send until neither has anything: a side left waiting would keep bytes.
            for _ in 0..400 {
                pair.step(0, Step::Sends(50));
                pair.step(1, Step::Sends(50));
            }
            prop_assert_eq!(&pair.sent[1], &pair.received[0]);
            prop_assert_eq!(&pair.sent[0], &pair.received[1]);
            let wants = [0, 1].map(|side| pair.halves[side].want(0));
            prop_assert_eq!((pair.rests, wants), ([false; 2], [Want::Receive; 2]));
            for side in 0..2 {
                pair.halves[side].ended(End::Eof, 0);
                pair.wake(side);
            }
            for side in [0, 1] {
                prop_assert_eq!(pair.halves[side].want(0), Want::Finish);
                pair.wake(side);
            }
            prop_assert_eq!([0, 1].map(|side| pair.halves[side].want(0)), [Want::Done, Want::Done]);
        }
    }

    #[test]
    fn a_failure_of_one_side_breaks_both() {
        let mut pair = FlowPair::new();
        pair.halves[0].ended(End::Closed, 0);
        pair.wake(0);
        assert_eq!([0, 1].map(|side| pair.halves[side].want(0)), [Want::Reset, Want::Reset]);
    }
}
