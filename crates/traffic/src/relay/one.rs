//! One thread for all connections of a method that reads and writes by system calls, woken by epoll(7) or by an io_uring; or
//! several such threads, each for the connections that it has accepted.
//!
//! Both sockets of a connection are registered once, edge-triggered: a socket counts as ready until a call shows that it is
//! not. A connection that could continue is queued again after its turn.

use std::collections::VecDeque;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytegauge_model::EngineReport;
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::epoll::Ready;
use bytegauge_sys::{io as sys_io, option, socket};

use crate::engine::{ACCEPT_PAUSE_NS, WAIT_MAX_NS, is_passing};
use crate::fault::Fault;
use crate::meter::Meter;
use crate::relay::copy_method::{Carrying, CopyMethod, Cues};
use crate::relay::poller::{PollEvent, Poller};
use crate::relay::shared::{Passage, RelayShared};
use crate::relay::socket::unconnected;
use crate::setup::Setup;
use crate::tally::Share;

/// The listener's token; connections carry a slot, a generation and a side.
const LISTENER: u64 = u64::MAX;

/// The events to watch at both sockets of a connection.
const CHANGES: Ready = Ready::READ.and(Ready::WRITE).and(Ready::PEER_SHUT).and(Ready::EDGE);

/// Most calls of a direction before others have their turn.
const TURN_CALLS: usize = 32;

/// A socket of a connection.
struct Leg<R> {
    fd: OwnedFd,
    /// How the poller identifies it.
    registration: R,
    readable: bool,
    writable: bool,
    /// Whether the peer has ended its sending: a short read is then not the last one.
    peer_shut: bool,
}

/// A connection: its two sockets, and its two directions.
struct LoopPair<H, R> {
    legs: [Leg<R>; 2],
    ways: [LoopWay<H>; 2],
    /// Whether the connection to the other side is still being made.
    connecting: bool,
}

struct LoopWay<H> {
    method: H,
    passed: Passage,
    /// Whether its end was passed on.
    over: bool,
}

struct PairSlot<H, R> {
    generation: u32,
    pair: Option<LoopPair<H, R>>,
    queued: bool,
}

/// The result of a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// It waits for its sockets.
    Rests,
    /// It could continue.
    Wants,
    /// Both directions have ended.
    Over,
    /// It has failed.
    Broken,
}

/// Counts the work of a relay loop: the meter in its thread, a share of its tally in the others.
trait RelayWatch {
    fn count(&mut self, moved: usize, asked: usize);

    /// The next time at which [`look`](Watch::look) has something to do.
    fn next_mark_ns(&self) -> u64;

    /// Whether the relay may continue.
    fn look(&mut self, now_ns: u64) -> bool;
}

impl RelayWatch for &mut Meter {
    #[inline]
    fn count(&mut self, moved: usize, asked: usize) {
        Meter::count(self, moved, asked);
    }

    fn next_mark_ns(&self) -> u64 {
        Meter::next_mark_ns(self)
    }

    fn look(&mut self, now_ns: u64) -> bool {
        // A request to stop does not end it by itself.
        self.goes_on(now_ns, &AtomicBool::new(false))
    }
}

impl RelayWatch for Share {
    #[inline]
    fn count(&mut self, moved: usize, asked: usize) {
        Share::count(self, moved, asked);
    }

    fn next_mark_ns(&self) -> u64 {
        u64::MAX
    }

    fn look(&mut self, _now_ns: u64) -> bool {
        true
    }
}

struct RelayLoop<'a, H, W, B: Poller> {
    shared: &'a RelayShared,
    setup: &'a Setup,
    watch: W,
    poller: B,
    slots: Vec<PairSlot<H, B::Registration>>,
    free: Vec<u32>,
    again: VecDeque<u32>,
    report: EngineReport,
}

/// Relays connections with `threads` threads, of which the calling one is the first.
pub(super) fn carry<H: CopyMethod, B: Poller>(
    carrying: Carrying<'_, '_>,
    threads: usize,
) -> Result<EngineReport, Fault> {
    let Carrying { shared, setup, cues, meter } = carrying;
    if threads <= 1 {
        return carry_share::<H, B, _>(shared, setup, cues, meter);
    }
    let tally = meter.tally();
    std::thread::scope(|scope| {
        let mut others = Vec::new();
        for number in 1..threads {
            let named = std::thread::Builder::new().name(format!("relay-{number}"));
            let tally = &tally;
            let spawned = named.spawn_scoped(scope, move || carry_share::<H, B, _>(shared, setup, cues, tally.share()));
            others.push(spawned.map_err(Fault::io("starting a thread of the relay"))?);
        }
        let first = carry_share::<H, B, _>(shared, setup, cues, meter);
        others.into_iter().fold(first, |sum, thread| {
            let carried = thread.join().map_err(|_| Fault::Impossible("a thread of the relay panicked".into()))?;
            Ok(sum?.plus(&carried?))
        })
    })
}

/// Relays the connections that the calling thread accepts.
fn carry_share<H: CopyMethod, B: Poller, W: RelayWatch>(
    shared: &RelayShared,
    setup: &Setup,
    cues: Cues<'_>,
    watch: W,
) -> Result<EngineReport, Fault> {
    let mut poller = B::new()?;
    poller.add(shared.listener(), Ready::READ, LISTENER).map_err(Fault::io("waiting for connections"))?;
    let report = EngineReport::default();
    let (slots, free, again) = (Vec::new(), Vec::new(), VecDeque::new());
    let mut relay_loop = RelayLoop::<H, W, B> { shared, setup, watch, poller, slots, free, again, report };
    let carried = relay_loop.run(cues.stop_requested, cues.abort);
    shared.closes();
    for index in 0..relay_loop.slots.len() {
        relay_loop.close(index as u32, true);
    }
    carried.map(|()| relay_loop.report)
}

impl<H: CopyMethod, W: RelayWatch, B: Poller> RelayLoop<'_, H, W, B> {
    fn run(&mut self, stop_requested: &AtomicBool, abort: &AtomicBool) -> Result<(), Fault> {
        loop {
            let now_ns = monotonic_ns();
            if !self.watch.look(now_ns) {
                self.shared.gives_up();
            }
            if abort.load(Ordering::Relaxed) || self.shared.is_over(stop_requested) {
                return Ok(());
            }
            let until_ns = self.watch.next_mark_ns().clamp(now_ns, now_ns + WAIT_MAX_NS);
            let timeout_ns = if self.again.is_empty() { until_ns - now_ns } else { 0 };
            self.report.system_calls += 1;
            let count = match self.poller.wait(timeout_ns) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                Err(source) => return Err(Fault::Io { doing: "waiting for the relay's sockets".into(), source }),
            };
            self.report.wakeups += u64::from(count > 0);
            for index in 0..count {
                match self.poller.at(index) {
                    PollEvent { token: LISTENER, is_last, .. } => {
                        self.accept()?;
                        if is_last {
                            let again = self.poller.add(self.shared.listener(), Ready::READ, LISTENER);
                            again.map_err(Fault::io("waiting for connections"))?;
                        }
                    }
                    event => self.on_event(event)?,
                }
            }
            for _ in 0..self.again.len() {
                let Some(index) = self.again.pop_front() else { break };
                self.slots[index as usize].queued = false;
                self.turn(index);
            }
        }
    }

    fn accept(&mut self) -> Result<(), Fault> {
        self.report.system_calls += 1;
        match socket::accept(self.shared.listener(), true) {
            Ok(fd) => {
                self.report.accepted += 1;
                self.report.accepted_at_once = 1;
                self.welcome(fd)
            }
            Err(error) if socket::is_exhausted(&error) => {
                // A level-triggered listener would be reported again at once.
                std::thread::sleep(Duration::from_nanos(ACCEPT_PAUSE_NS));
                Ok(())
            }
            Err(error) if is_passing(&error) => Ok(()),
            Err(source) => Err(Fault::Io { doing: "accepting a connection for the relay".into(), source }),
        }
    }

    fn welcome(&mut self, front: OwnedFd) -> Result<(), Fault> {
        let shared = self.shared;
        if !shared.admits(&front) {
            return Ok(());
        }
        self.report.system_calls += 2;
        let joined = shared.upstream.welcome(&front).and_then(|()| shared.upstream.begin().map_err(unconnected));
        let back = match joined {
            Ok(back) => back,
            Err(fault) => {
                let _ = option::set(front.as_fd(), &option::LINGER.to(0));
                shared.unconnected(fault);
                return Ok(());
            }
        };
        let way = || H::new(self.setup).map(|method| LoopWay { method, passed: Passage::default(), over: false });
        let ways = [way()?, way()?];
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(PairSlot { generation: 0, pair: None, queued: false });
            (self.slots.len() - 1) as u32
        });
        let legs = [self.leg(front, self.token(index, 0))?, self.leg(back, self.token(index, 1))?];
        self.slots[index as usize].pair = Some(LoopPair { legs, ways, connecting: true });
        Ok(())
    }

    fn leg(&mut self, fd: OwnedFd, token: u64) -> Result<Leg<B::Registration>, Fault> {
        self.report.system_calls += u64::from(B::ADDING_IS_A_CALL);
        let registration =
            self.poller.add(fd.as_fd(), CHANGES, token).map_err(Fault::io("waiting for a connection"))?;
        Ok(Leg { fd, registration, readable: false, writable: false, peer_shut: false })
    }

    /// Slot, side, and the generation of the slot, which distinguishes events of an older connection.
    fn token(&self, index: u32, side: usize) -> u64 {
        u64::from(self.slots[index as usize].generation & (u32::MAX >> 1)) << 32 | u64::from(index) << 1 | side as u64
    }

    fn on_event(&mut self, PollEvent { token, ready, is_last }: PollEvent) -> Result<(), Fault> {
        let (index, side) = ((token as u32) >> 1, (token & 1) as usize);
        if self.token(index, side) != token {
            return Ok(());
        }
        let Some(pair) = &mut self.slots[index as usize].pair else { return Ok(()) };
        let gone = ready.any(Ready::ERROR | Ready::HANG_UP);
        let leg = &mut pair.legs[side];
        leg.readable |= gone || ready.any(Ready::READ | Ready::PEER_SHUT);
        leg.writable |= gone || ready.any(Ready::WRITE);
        leg.peer_shut |= gone || ready.any(Ready::PEER_SHUT);
        if is_last {
            leg.registration =
                self.poller.add(leg.fd.as_fd(), CHANGES, token).map_err(Fault::io("waiting for a connection"))?;
        }
        if side == 1 && pair.connecting && (gone || ready.any(Ready::WRITE)) {
            self.report.system_calls += 1;
            match socket::take_error(pair.legs[1].fd.as_fd()) {
                Ok(None) => pair.connecting = false,
                Ok(Some(errno)) => {
                    self.fail_to_connect(index, io::Error::from_raw_os_error(errno));
                    return Ok(());
                }
                Err(error) => {
                    self.fail_to_connect(index, error);
                    return Ok(());
                }
            }
        }
        self.turn(index);
        Ok(())
    }

    fn fail_to_connect(&mut self, index: u32, error: io::Error) {
        if let Some(pair) = self.vacate(index) {
            let _ = option::set(pair.legs[0].fd.as_fd(), &option::LINGER.to(0));
            self.shared.unconnected(unconnected(error));
        }
    }

    /// Does the work that both directions of a connection can do now.
    fn turn(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let Some(pair) = slot.pair.as_mut().filter(|pair| !pair.connecting) else { return };
        let mut turns = [Turn::Rests; 2];
        for (way, turn) in turns.iter_mut().enumerate() {
            *turn = advance(pair, way, &mut self.watch, &mut self.report);
        }
        if turns.contains(&Turn::Broken) {
            self.close(index, true);
        } else if turns == [Turn::Over; 2] {
            self.close(index, false);
        } else if turns.contains(&Turn::Wants) && !std::mem::replace(&mut slot.queued, true) {
            self.again.push_back(index);
        }
    }

    /// Closes a connection, and reports its bytes.
    fn close(&mut self, index: u32, broken: bool) {
        let Some(pair) = self.vacate(index) else { return };
        if broken {
            for leg in &pair.legs {
                // A socket without resets, such as a Unix socket, is just closed.
                let _ = option::set(leg.fd.as_fd(), &option::LINGER.to(0));
            }
        }
        self.shared.settle(
            [pair.ways[0].passed, pair.ways[1].passed],
            broken,
            [Some(pair.legs[0].fd.as_fd()), Some(pair.legs[1].fd.as_fd())],
        );
    }

    fn vacate(&mut self, index: u32) -> Option<LoopPair<H, B::Registration>> {
        let slot = &mut self.slots[index as usize];
        let pair = slot.pair.take()?;
        pair.legs.iter().for_each(|leg| self.poller.remove(&leg.registration));
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        Some(pair)
    }
}

/// Does the work that one direction can do now: gives the bytes that it holds, then takes more.
fn advance<H: CopyMethod, W: RelayWatch, R>(
    pair: &mut LoopPair<H, R>,
    number: usize,
    watch: &mut W,
    report: &mut EngineReport,
) -> Turn {
    let LoopPair { legs: [front, back], ways, .. } = pair;
    let (from, to) = if number == 0 { (front, back) } else { (back, front) };
    let way = &mut ways[number];
    if way.over {
        return Turn::Over;
    }
    for _ in 0..TURN_CALLS {
        let held = way.method.held();
        let done = match (held > 0, to.writable, from.readable) {
            (true, false, _) | (false, _, false) => return Turn::Rests,
            (true, true, _) => way.method.give(to.fd.as_fd()),
            (false, _, true) => way.method.take(from.fd.as_fd()),
        };
        report.system_calls += 1;
        match done {
            Ok(0) if held > 0 => return Turn::Broken,
            Ok(0) => {
                way.over = true;
                way.passed.in_order = true;
                report.system_calls += 1;
                // If the peer is gone already, the other direction reports it.
                let _ = sys_io::shutdown(to.fd.as_fd(), Shutdown::Write);
                return Turn::Over;
            }
            Ok(n) if held > 0 => {
                way.passed.given += n as u64;
                watch.count(n, held);
            }
            Ok(n) => {
                way.passed.taken += n as u64;
                watch.count(n, way.method.room());
                // Bytes that arrive after this read make an edge of their own; so did an end that came before it.
                from.readable = way.method.may_leave_some(n) || from.peer_shut;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if held > 0 {
                    to.writable = false;
                } else {
                    from.readable = false;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Turn::Broken,
        }
    }
    Turn::Wants
}
