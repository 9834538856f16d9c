//! A server's flow that returns whole messages, each with its length (four bytes) before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytegauge_traffic::flow::{ConnectionEnd, Flow, Want};

use super::{ROOM, put};

/// Returns every message once it is complete; closes when the peer has ended.
#[derive(Debug, Default)]
pub struct Echo {
    /// Received bytes of incomplete messages.
    inbox: Vec<u8>,
    /// The bytes being returned, and how many of them have been sent.
    outbox: Vec<u8>,
    gone: usize,
    closing: bool,
    /// A deliberate mistake, to test the tests.
    mistake: Option<Mistake>,
    /// Ends of connections.
    pub ends: Vec<ConnectionEnd>,
    /// Number of connections of all such flows that failed.
    broken: Arc<AtomicUsize>,
    /// Messages returned.
    pub served: u64,
    pub received_bytes: u64,
    pub sent_bytes: u64,
}

/// A planted error of a flow.
#[derive(Clone, Copy, Debug)]
pub enum Mistake {
    /// Changes a byte of every receive.
    Corrupts,
    /// Loses the last byte of every receive.
    Drops,
    /// Returns the first byte of every receive twice.
    Repeats,
}

impl Echo {
    /// One with a planted error.
    pub fn erring(mistake: Mistake) -> Echo {
        Echo { mistake: Some(mistake), ..Echo::default() }
    }

    /// One that counts in a common count that its connection failed.
    pub fn telling(broken: &Arc<AtomicUsize>) -> Echo {
        Echo { broken: Arc::clone(broken), ..Echo::default() }
    }

    fn take_message(&mut self) {
        if self.inbox.len() < 4 {
            return;
        }
        let len = 4 + u32::from_le_bytes(self.inbox[..4].try_into().unwrap()) as usize;
        if self.inbox.len() >= len {
            let rest = self.inbox.split_off(len);
            self.outbox = std::mem::replace(&mut self.inbox, rest);
            self.gone = 0;
        }
    }
}

impl Flow for Echo {
    fn want(&mut self, _now_ns: u64) -> Want {
        if self.outbox.is_empty() {
            self.take_message();
        }
        match (self.outbox.is_empty(), self.ends.is_empty(), self.closing) {
            (false, ..) => Want::Send,
            (true, true, _) => Want::Receive,
            (true, false, false) => {
                self.closing = true;
                Want::Close
            }
            (true, false, true) => Want::Done,
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
        self.sent_bytes += n as u64;
        if self.gone == self.outbox.len() {
            self.served += 1;
            self.outbox.clear();
        }
    }

    fn received(&mut self, bytes: &mut [u8], _now_ns: u64) -> bool {
        assert!(!bytes.is_empty());
        self.received_bytes += bytes.len() as u64;
        // The length stays right, or the message would never be complete.
        let after_length = self.inbox.len() >= 4;
        match self.mistake.filter(|_| after_length) {
            Some(Mistake::Corrupts) => bytes[0] ^= 1,
            Some(Mistake::Drops) => {
                self.inbox.extend_from_slice(&bytes[..bytes.len() - 1]);
                return true;
            }
            Some(Mistake::Repeats) => self.inbox.push(bytes[0]),
            None => {}
        }
        self.inbox.extend_from_slice(bytes);
        true
    }

    fn ended(&mut self, end: ConnectionEnd, _now_ns: u64) {
        if end != ConnectionEnd::Eof {
            // The connection is gone: nothing can be returned any more.
            self.outbox.clear();
            self.inbox.clear();
            self.broken.fetch_add(1, Ordering::Relaxed);
        }
        self.ends.push(end);
    }
}
