//! Flows with unusual behaviour, one for each mistake that an engine might make in waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytegauge_sys::clock::monotonic_ns;
use bytegauge_traffic::flow::{ConnectionEnd, Flow, Want};

use super::{ROOM, in_a_minute_ns, put};

/// A flow that answers only after it has seen the end of the stream.
#[derive(Debug, Default)]
pub struct AfterEof {
    pub seen: Vec<u8>,
    pub gone: usize,
    pub eofs: usize,
    pub closed: bool,
}

impl Flow for AfterEof {
    fn want(&mut self, _now_ns: u64) -> Want {
        match self.eofs {
            0 => Want::Receive,
            _ if self.gone < self.seen.len() => Want::Send,
            // Asking once more ends the connection once more.
            1 => Want::Receive,
            _ if self.closed => Want::Done,
            _ => {
                self.closed = true;
                Want::Close
            }
        }
    }
    fn room(&self) -> usize {
        ROOM
    }
    fn compose(&mut self, room: &mut [u8], _is_new: bool) -> usize {
        put(&self.seen[self.gone..], room)
    }
    fn sent(&mut self, n: usize, _now_ns: u64) {
        self.gone += n;
    }
    fn received(&mut self, bytes: &mut [u8], _now_ns: u64) -> bool {
        self.seen.extend_from_slice(bytes);
        true
    }
    fn ended(&mut self, end: ConnectionEnd, _now_ns: u64) {
        assert_eq!(end, ConnectionEnd::Eof);
        self.eofs += 1;
    }
}

/// A flow that records when it is called again.
#[derive(Debug, Default)]
pub struct Waiter {
    pub pause_ns: u64,
    pub receive_ns: u64,
    /// The number of calls without an event.
    pub waited: Arc<AtomicUsize>,
    pub seen: Vec<(&'static str, u64)>,
    pub received: usize,
}

impl Flow for Waiter {
    const TIMED: bool = true;

    fn want(&mut self, now_ns: u64) -> Want {
        match self.seen.len() {
            0 if now_ns < self.pause_ns => Want::Pause(self.pause_ns),
            0 => {
                self.seen.push(("paused", now_ns));
                self.want(now_ns)
            }
            1 if now_ns < self.receive_ns => Want::ReceiveUntil(self.receive_ns),
            1 => {
                self.seen.push(("nothing came", now_ns));
                self.waited.fetch_add(1, Ordering::Relaxed);
                self.want(now_ns)
            }
            _ if self.received == 0 => Want::ReceiveUntil(in_a_minute_ns()),
            _ => Want::Done,
        }
    }
    fn received(&mut self, bytes: &mut [u8], now_ns: u64) -> bool {
        self.received += bytes.len();
        self.seen.push(("received", now_ns));
        true
    }
}

/// A flow that requests a time long past.
#[derive(Debug)]
pub struct Impatient(pub Want);

impl Flow for Impatient {
    fn want(&mut self, _now_ns: u64) -> Want {
        self.0
    }
    fn received(&mut self, _bytes: &mut [u8], _now_ns: u64) -> bool {
        true
    }
}

/// A flow that sends and receives at the same time, as much as possible.
#[derive(Debug)]
pub struct BothWays {
    pub outbox: Vec<u8>,
    pub gone: usize,
    pub inbox: Vec<u8>,
}

impl Flow for BothWays {
    fn want(&mut self, _now_ns: u64) -> Want {
        match (self.gone < self.outbox.len(), self.inbox.len() < self.outbox.len()) {
            (true, true) => Want::Both,
            (true, false) => Want::Send,
            (false, true) => Want::Receive,
            (false, false) => Want::Done,
        }
    }
    fn room(&self) -> usize {
        ROOM
    }
    fn compose(&mut self, room: &mut [u8], _is_new: bool) -> usize {
        put(&self.outbox[self.gone..], room)
    }
    fn sent(&mut self, n: usize, _now_ns: u64) {
        self.gone += n;
    }
    fn received(&mut self, bytes: &mut [u8], _now_ns: u64) -> bool {
        self.inbox.extend_from_slice(bytes);
        true
    }
}

/// A flow that rests while its peer sends and then resets the connection.
#[derive(Debug)]
pub struct Sleeper {
    pub until_ns: u64,
    pub ended: bool,
}

impl Flow for Sleeper {
    fn want(&mut self, _now_ns: u64) -> Want {
        match (monotonic_ns() < self.until_ns, self.ended) {
            (true, _) => Want::Pause(self.until_ns),
            (false, false) => Want::Receive,
            (false, true) => Want::Done,
        }
    }
    fn received(&mut self, _bytes: &mut [u8], _now_ns: u64) -> bool {
        true
    }
    fn ended(&mut self, _end: ConnectionEnd, _now_ns: u64) {
        self.ended = true;
    }
}
