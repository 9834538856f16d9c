//! The engine `uring`, in each of its modes, as a relay: two flows, of which each sends what the other one receives.
//!
//! What is held for a side is bounded: its partner does not listen while a buffer or more is. The end of a stream is
//! passed on as such, a failure as a failure.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytegauge_model::{Engine, EngineReport, RelayMethod};

use crate::engine::{self, Station};
use crate::fault::Fault;
use crate::flow::{Doing, End, Flow, Want};
use crate::party::Party;
use crate::relay::hall::{Hall, Passage};
use crate::relay::hands::Carrying;
use crate::relay::socket::unconnected;

pub(super) fn carry(carrying: Carrying<'_, '_>) -> Result<EngineReport, Fault> {
    let Carrying { hall, setup, cues, meter } = carrying;
    let impossible = || Fault::Impossible(format!("{} is no engine's", setup.method));
    let engine = engine_of(setup.method).ok_or_else(impossible)?;
    if let Some(reason) = engine::lacks(engine) {
        return Err(Fault::Missing(reason));
    }
    let told = if hall.leaves_when_told() { cues.told } else { hall.over() };
    let mut party = Pairs { hall, held_max: setup.buffer(), front: None, left: BTreeMap::new(), number: 0 };
    let buffer_size = setup.buffer.unwrap_or_else(|| engine::message_buffer(engine, setup.buffer()));
    let station = Station { listener: Some(hall.listener()), buffer_size, abort: cues.abort, told };
    let driven = engine::drive(engine, &mut party, station, meter);
    driven.map(|(_, report)| report)
}

/// The engine that carries a method.
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

/// What an engine's counters fail to prove of the mode that a method asks for, if anything.
pub(super) fn unproven(method: RelayMethod, report: &EngineReport) -> Option<String> {
    engine::proof::unproven(engine_of(method)?, report)
}

/// What the two sides of a connection share.
#[derive(Debug, Default)]
struct Shared {
    /// For each side the bytes that it has to send, and how many of those there are with what it sends already.
    bytes: [Vec<u8>; 2],
    held: [usize; 2],
    /// Which sides have received everything, and which have been told to send no more.
    eof: [bool; 2],
    finished: [bool; 2],
    /// A side has failed.
    broken: bool,
    /// Why the other side could not be reached.
    unconnected: Option<i32>,
    /// What each side received, and what it sent.
    taken: [u64; 2],
    given: [u64; 2],
}

/// One side of a connection: 0 was accepted, 1 connects to the other side.
#[derive(Debug)]
struct Half {
    joint: Arc<Mutex<Shared>>,
    number: u64,
    side: usize,
    joined: bool,
    outbox: Vec<u8>,
    gone: usize,
    held_max: usize,
    concerns_partner: bool,
    left: bool,
}

impl Half {
    fn new(joint: Arc<Mutex<Shared>>, number: u64, side: usize, held_max: usize) -> Half {
        let joined = side == 0;
        Half {
            joint,
            number,
            side,
            joined,
            outbox: Vec::new(),
            gone: 0,
            held_max,
            concerns_partner: false,
            left: false,
        }
    }
}

fn lock(joint: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    joint.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Flow for Half {
    const PAIRED: bool = true;

    fn want(&mut self, _now_ns: u64) -> Want {
        let (here, there) = (self.side, 1 - self.side);
        let mut joint = lock(&self.joint);
        if joint.broken {
            return if std::mem::replace(&mut self.left, true) { Want::Done } else { Want::Reset };
        }
        if !self.joined {
            return Want::Connect;
        }
        let sends = joint.held[here] > 0;
        let receives = !joint.eof[here] && joint.held[there] < self.held_max;
        if !sends && joint.eof[there] && !joint.finished[here] {
            joint.finished[here] = true;
            self.concerns_partner = true;
            return Want::Finish;
        }
        if joint.finished == [true, true] {
            // The connection comes back with the flow: the kernel's count of it is still to be read.
            return Want::Done;
        }
        match (sends, receives) {
            (true, true) => Want::Both,
            (true, false) => Want::Send,
            (false, true) => Want::Receive,
            (false, false) => Want::Pause(u64::MAX),
        }
    }

    fn room(&self) -> usize {
        self.held_max
    }

    fn compose(&mut self, room: &mut [u8], _is_new: bool) -> usize {
        if self.gone == self.outbox.len() {
            self.outbox.clear();
            self.gone = 0;
            std::mem::swap(&mut self.outbox, &mut lock(&self.joint).bytes[self.side]);
        }
        let len = room.len().min(self.outbox.len() - self.gone);
        room[..len].copy_from_slice(&self.outbox[self.gone..][..len]);
        self.gone += len;
        len
    }

    fn sent(&mut self, n: usize, _now_ns: u64) {
        let mut joint = lock(&self.joint);
        let held = joint.held[self.side];
        joint.held[self.side] = held - n;
        joint.given[self.side] += n as u64;
        // The partner may listen again, or end what it sends: nothing more comes from here.
        self.concerns_partner |= held >= self.held_max && held - n < self.held_max;
    }

    fn received(&mut self, bytes: &mut [u8], _now_ns: u64) -> bool {
        let there = 1 - self.side;
        let mut joint = lock(&self.joint);
        joint.bytes[there].extend_from_slice(bytes);
        joint.held[there] += bytes.len();
        joint.taken[self.side] += bytes.len() as u64;
        self.concerns_partner = true;
        true
    }

    fn connected(&mut self, _now_ns: u64) {
        self.joined = true;
    }

    fn ended(&mut self, end: End, _now_ns: u64) {
        self.concerns_partner = true;
        let mut joint = lock(&self.joint);
        match end {
            End::Eof => joint.eof[self.side] = true,
            End::Failed { doing: Doing::Connecting, errno } => {
                joint.unconnected = Some(errno);
                joint.broken = true;
            }
            End::Closed | End::Failed { .. } => joint.broken = true,
        }
    }

    fn wakes(&mut self) -> bool {
        std::mem::take(&mut self.concerns_partner)
    }
}

/// All connections of a relay.
struct Pairs<'a> {
    hall: &'a Hall,
    held_max: usize,
    /// What the flow that was just accepted shares with its partner, which is asked for next.
    front: Option<Arc<Mutex<Shared>>>,
    /// Sides that have left before their partners, with their connections.
    left: BTreeMap<u64, (usize, Option<OwnedFd>)>,
    number: u64,
}

impl Party for Pairs<'_> {
    type Flow = Half;

    fn first(&mut self) -> Option<(Half, Option<OwnedFd>)> {
        None
    }

    fn accepted(&mut self, connection: BorrowedFd<'_>, _now_ns: u64) -> Option<Half> {
        if !self.hall.admits(connection) {
            return None;
        }
        if let Err(fault) = self.hall.upstream.welcome(connection) {
            self.hall.unconnected(fault);
            return None;
        }
        self.number += 1;
        let joint = Arc::<Mutex<Shared>>::default();
        self.front = Some(Arc::clone(&joint));
        Some(Half::new(joint, self.number, 0, self.held_max))
    }

    fn connect(&mut self, _flow: &mut Half) -> io::Result<OwnedFd> {
        self.hall.upstream.begin()
    }

    fn partner(&mut self, flow: &mut Half) -> Option<(Half, Option<OwnedFd>)> {
        let joint = self.front.take()?;
        Some((Half::new(joint, flow.number, 1, self.held_max), None))
    }

    fn left(&mut self, flow: Half, connection: Option<OwnedFd>) {
        let Some((side, other)) = self.left.remove(&flow.number) else {
            self.left.insert(flow.number, (flow.side, connection));
            return;
        };
        let joint = lock(&flow.joint);
        if let Some(errno) = joint.unconnected {
            self.hall.unconnected(unconnected(io::Error::from_raw_os_error(errno)));
            return;
        }
        // What came in at a side went out at the other one.
        let in_order = |side: usize| joint.finished[1 - side] && !joint.broken;
        let passage =
            |side: usize| Passage { taken: joint.taken[side], given: joint.given[1 - side], in_order: in_order(side) };
        let legs = if side == 0 { [&other, &connection] } else { [&connection, &other] };
        self.hall.settle([passage(0), passage(1)], joint.broken, legs.map(|leg| leg.as_ref().map(AsFd::as_fd)));
    }
}
