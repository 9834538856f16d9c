//! A client's flow: connects, sends messages by the pattern, checks every byte of the echoes, and leaves.

use bytegauge_traffic::flow::{ConnectionEnd, Flow, Want};

use super::{message, put};

/// The plan of a caller.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// Which pattern.
    pub flow: usize,
    /// Number of calls.
    pub calls: usize,
    /// Bytes of a message, without its length.
    pub len: usize,
    /// Whether every call has a connection of its own.
    pub connect_per_call: bool,
    /// When to give up a reply (or a connection), ns of the monotonic clock.
    pub give_up_ns: u64,
}

#[derive(Debug)]
pub struct Caller {
    task: Task,
    message: Vec<u8>,
    sent: usize,
    echoed: usize,
    connected: bool,
    /// Calls with a complete and correct echo.
    pub completed: usize,
    /// Wrong echoes.
    pub wrong: usize,
    /// Ends of connections that the flow did not close.
    pub ends: Vec<ConnectionEnd>,
    /// A reply did not arrive in time.
    pub late: bool,
    pub connects: usize,
}

impl Caller {
    pub fn new(task: Task) -> Caller {
        Caller {
            task,
            message: message(task.flow, task.len),
            sent: 0,
            echoed: 0,
            connected: false,
            completed: 0,
            wrong: 0,
            ends: Vec::new(),
            late: false,
            connects: 0,
        }
    }

    /// On an open connection.
    pub fn joined(task: Task) -> Caller {
        Caller { connected: true, ..Caller::new(task) }
    }

    fn is_over(&self) -> bool {
        self.completed == self.task.calls || self.wrong > 0 || !self.ends.is_empty() || self.late
    }
}

impl Flow for Caller {
    const TIMED: bool = true;

    fn want(&mut self, now_ns: u64) -> Want {
        assert!(now_ns > 0, "a timed flow gets the time");
        self.late |= now_ns >= self.task.give_up_ns && !self.is_over();
        let between = self.sent == 0 && self.completed > 0 && self.task.connect_per_call && self.echoed > 0;
        if between || (self.is_over() && self.connected) {
            self.echoed = 0;
            self.connected = false;
            return Want::Close;
        }
        if self.is_over() {
            Want::Done
        } else if !self.connected {
            Want::Connect
        } else if self.sent < self.message.len() {
            Want::Send
        } else {
            Want::ReceiveUntil(self.task.give_up_ns)
        }
    }

    fn room(&self) -> usize {
        self.message.len()
    }

    fn compose(&mut self, room: &mut [u8], _is_new: bool) -> usize {
        put(&self.message, room)
    }

    fn patience_ns(&self) -> u64 {
        self.task.give_up_ns
    }

    fn sent(&mut self, n: usize, now_ns: u64) {
        assert!(now_ns > 0);
        if self.sent == 0 {
            self.echoed = 0;
        }
        self.sent += n;
    }

    fn received(&mut self, bytes: &mut [u8], now_ns: u64) -> bool {
        assert!(now_ns > 0 && !bytes.is_empty());
        let expected = self.message.get(self.echoed..self.echoed + bytes.len());
        if expected != Some(&*bytes) {
            self.wrong += 1;
            return true;
        }
        self.echoed += bytes.len();
        if self.echoed == self.message.len() {
            self.completed += 1;
            self.sent = 0;
        }
        true
    }

    fn connected(&mut self, now_ns: u64) {
        assert!(now_ns > 0);
        self.connected = true;
        self.connects += 1;
    }

    fn ended(&mut self, end: ConnectionEnd, _now_ns: u64) {
        self.connected = false;
        self.ends.push(end);
    }
}
