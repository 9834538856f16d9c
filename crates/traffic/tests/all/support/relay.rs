//! The smallest relay: two flows, each of which sends the bytes that the other receives.
//!
//! Bytes held for a side are bounded: its partner does not receive while there are too many. The end of a stream is passed on as
//! such, a failure as a failure.

use std::sync::{Arc, Mutex, MutexGuard};

use bytegauge_traffic::flow::{ConnectionEnd, Flow, Want};

use super::{ROOM, put};

/// From this number on the other side does not receive.
pub const HELD_MAX: usize = 16_384;

/// State shared by the two sides.
#[derive(Debug, Default)]
pub struct Joint {
    /// For each side its bytes to send, and their number including those being sent.
    bytes: [Vec<u8>; 2],
    held: [usize; 2],
    /// Which sides have received everything, and which are to send no more.
    eof: [bool; 2],
    finished: [bool; 2],
    /// A side has failed.
    broken: bool,
    /// Most bytes held for a side.
    pub held_most: usize,
    /// Bytes that were sent by both.
    pub passed: usize,
}

/// One side of a relay.
#[derive(Debug)]
pub struct Relay {
    pub joint: Arc<Mutex<Joint>>,
    side: usize,
    joined: bool,
    outbox: Vec<u8>,
    gone: usize,
    concerns_partner: bool,
    left: bool,
    pub ends: Vec<ConnectionEnd>,
}

impl Relay {
    /// The accepted side.
    pub fn front() -> Relay {
        Relay::of(Arc::default(), 0, true)
    }

    /// The side that connects for this one.
    pub fn back(front: &mut Relay) -> Option<Relay> {
        (front.side == 0).then(|| Relay::of(Arc::clone(&front.joint), 1, false))
    }

    fn of(joint: Arc<Mutex<Joint>>, side: usize, joined: bool) -> Relay {
        Relay {
            joint,
            side,
            joined,
            outbox: Vec::new(),
            gone: 0,
            concerns_partner: false,
            left: false,
            ends: Vec::new(),
        }
    }

    fn joint(&self) -> MutexGuard<'_, Joint> {
        self.joint.lock().unwrap()
    }

    fn leave(&mut self, how: Want) -> Want {
        if std::mem::replace(&mut self.left, true) { Want::Done } else { how }
    }
}

impl Flow for Relay {
    const PAIRED: bool = true;

    fn want(&mut self, _now_ns: u64) -> Want {
        let (here, there) = (self.side, 1 - self.side);
        let mut joint = self.joint.lock().unwrap();
        if joint.broken {
            drop(joint);
            return self.leave(Want::Reset);
        }
        if !self.joined {
            return Want::Connect;
        }
        let sends = joint.held[here] > 0;
        let receives = !joint.eof[here] && joint.held[there] < HELD_MAX;
        if !sends && joint.eof[there] && !joint.finished[here] {
            joint.finished[here] = true;
            self.concerns_partner = true;
            return Want::Finish;
        }
        if joint.finished == [true, true] {
            drop(joint);
            return self.leave(Want::Close);
        }
        match (sends, receives) {
            (true, true) => Want::Both,
            (true, false) => Want::Send,
            (false, true) => Want::Receive,
            (false, false) => Want::Pause(u64::MAX),
        }
    }

    fn room(&self) -> usize {
        ROOM
    }

    fn compose(&mut self, room: &mut [u8], _is_new: bool) -> usize {
        if self.gone == self.outbox.len() {
            self.outbox.clear();
            self.gone = 0;
            std::mem::swap(&mut self.outbox, &mut self.joint.lock().unwrap().bytes[self.side]);
        }
        let len = put(&self.outbox[self.gone..], room);
        self.gone += len;
        len
    }

    fn sent(&mut self, n: usize, _now_ns: u64) {
        let mut joint = self.joint.lock().unwrap();
        let held = joint.held[self.side];
        joint.held[self.side] = held - n;
        joint.passed += n;
        // The partner may receive again.
        self.concerns_partner |= held >= HELD_MAX && held - n < HELD_MAX;
    }

    fn received(&mut self, bytes: &mut [u8], _now_ns: u64) -> bool {
        let there = 1 - self.side;
        let mut joint = self.joint();
        joint.bytes[there].extend_from_slice(bytes);
        joint.held[there] += bytes.len();
        joint.held_most = joint.held_most.max(joint.held[there]);
        drop(joint);
        self.concerns_partner = true;
        true
    }

    fn connected(&mut self, _now_ns: u64) {
        self.joined = true;
    }

    fn ended(&mut self, end: ConnectionEnd, _now_ns: u64) {
        self.ends.push(end);
        self.concerns_partner = true;
        match end {
            ConnectionEnd::Eof => self.joint().eof[self.side] = true,
            ConnectionEnd::Closed | ConnectionEnd::Failed { .. } => self.joint().broken = true,
        }
    }

    fn wakes(&mut self) -> bool {
        std::mem::take(&mut self.concerns_partner)
    }
}
