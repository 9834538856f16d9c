//! One client's flow: begins calls when they are due, sends requests, receives replies, times and checks them.
//!
//! Every error costs the outstanding calls, is classified and counted, and is followed by a new connection: errors are results.
//! Only a server that refuses again and again ends the flow early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytegauge_model::{ErrorClass, ErrorPhase};

use crate::call::arrival::Arrival;
use crate::call::classify::{class_of, class_of_connect};
use crate::call::client_counts::{FlowCounts, Times, Trouble};
use crate::call::message_bytes::Terms;
use crate::call::overwritten::Overwritten;
use crate::call::pending::{PendingCall, PendingCalls};
use crate::call::recorder::Recorder;
use crate::flow::{ConnectionEnd, Doing, Flow, Want};
use crate::ticket::{SHOWN, Shown};

/// The first pause after a failed connection attempt; it doubles.
pub(super) const RETRY_NS: u64 = 1_000_000;

/// The longest of these pauses.
pub(super) const RETRY_MAX_NS: u64 = 100_000_000;

/// Connections in a row that may fail before a flow gives up: most of a second.
pub(super) const RETRIES: u32 = 14;

/// State shared by all flows of a client.
#[derive(Debug)]
pub struct Client {
    /// The bytes of messages.
    pub terms: Terms,
    /// Calls that a flow keeps outstanding.
    pub depth: usize,
    /// Most bytes of one send.
    pub chunk: usize,
    /// Whether every call has a connection of its own.
    pub connect_per_call: bool,
    /// How long a call, or a connection, may take, nanoseconds.
    pub timeout_ns: u64,
    /// When the window opens, nanoseconds of the monotonic clock.
    pub open_ns: u64,
    /// When it closes; no call begins after it.
    pub close_ns: u64,
    /// Whether calls continue after the window until [`stop_requested`](Client::stop_requested).
    pub until_stopped: bool,
    /// Set when no more calls may begin.
    pub stop_requested: Arc<AtomicBool>,
    /// Flows that gave up because of the server.
    pub gave_up: Arc<AtomicU64>,
    /// The ticket that a new connection sends first, if the server is on another host.
    pub shown: Option<Shown>,
}

impl Client {
    /// Whether no more calls may begin.
    pub(super) fn is_late(&self, now_ns: u64) -> bool {
        let is_stopped = || self.stop_requested.load(Ordering::Relaxed);
        if self.until_stopped { is_stopped() } else { now_ns >= self.close_ns || is_stopped() }
    }

    /// The next time at which a waiting flow must check its state.
    pub(super) fn end_ns(&self, now_ns: u64) -> u64 {
        // The stop comes with a signal, but a wait that began just before it must end too.
        if self.until_stopped { now_ns + self.timeout_ns / 2 } else { self.close_ns }
    }
}

/// One flow.
#[derive(Debug)]
pub struct ClientFlow {
    client: Arc<Client>,
    recorder: Recorder,
    arrival: Arrival,
    flow: usize,
    state: ClientState,
    /// Bytes of the ticket of a new connection that were not sent yet.
    to_show: usize,
    /// Whether it has sent the ticket, and no request.
    overwritten: Overwritten,
    /// Sent bytes of the last request.
    sent: usize,
    /// Calls begun and not answered, oldest first; the last one may not have been sent whole.
    calls: PendingCalls,
    /// Received bytes of the oldest call's reply.
    got: usize,
    connect_ns: Option<u64>,
    /// Since when the flow could begin a call.
    free_ns: u64,
    /// When to check next for an overdue call.
    look_ns: u64,
    failures: u32,
    counts: FlowCounts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientState {
    /// No connection, and no attempt before this time.
    Apart { until_ns: u64 },
    /// A connection is being opened.
    Joining { since_ns: u64 },
    /// A connection is open.
    Joined,
    /// The connection is to be closed.
    Leaving { until_ns: u64 },
    /// No more calls.
    Over,
}

impl ClientFlow {
    /// Flow number `flow`; `joined` if its connection is open already.
    pub fn new(client: Arc<Client>, recorder: Recorder, flow: usize, arrival: Arrival, joined: bool) -> ClientFlow {
        ClientFlow {
            recorder,
            arrival,
            flow,
            state: if joined { ClientState::Joined } else { ClientState::Apart { until_ns: 0 } },
            // The connector has already sent the ticket.
            to_show: 0,
            overwritten: Overwritten::default(),
            sent: client.terms.request,
            calls: PendingCalls::with_depth(client.depth),
            got: 0,
            connect_ns: None,
            free_ns: 0,
            look_ns: client.open_ns,
            failures: 0,
            counts: FlowCounts::default(),
            client,
        }
    }

    /// The flow's counts, once it has been returned.
    pub fn hand_in(mut self) {
        self.counts.unfinished += self.calls.len() as u64;
        self.counts.overdue = self.arrival.overdue(self.client.open_ns, self.client.close_ns);
        self.recorder.with(|record| {
            self.calls.iter().for_each(|call| record.ended_late(call.began_ns));
            record.hand_in(self.counts);
        });
    }

    fn is_sending(&self) -> bool {
        self.sent < self.client.terms.request
    }

    /// Begins the call that is due.
    fn begin(&mut self, now_ns: u64) {
        let number = Terms::number(self.flow, self.counts.begun);
        self.sent = 0;
        let due_ns = self.arrival.due_ns();
        let began_ns = if self.arrival.is_open() { due_ns } else { now_ns };
        let late_ns = now_ns.saturating_sub(due_ns.max(self.free_ns));
        self.arrival.begun();
        self.calls.begin(PendingCall {
            number,
            began_ns,
            write_began_ns: now_ns,
            write_ns: 0,
            first_byte_ns: 0,
            late_ns,
        });
        self.counts.begun += 1;
    }

    fn want_apart(&mut self, now_ns: u64, until_ns: u64) -> Want {
        if self.client.is_late(now_ns) {
            return self.leave();
        }
        let due_ns = if self.client.connect_per_call { self.arrival.due_ns().max(until_ns) } else { until_ns };
        if now_ns < due_ns {
            return Want::Pause(due_ns.min(self.client.end_ns(now_ns)));
        }
        if self.client.connect_per_call {
            self.begin(now_ns);
        }
        self.state = ClientState::Joining { since_ns: now_ns };
        Want::Connect
    }

    fn want_joined(&mut self, now_ns: u64) -> Want {
        // Early, so that a busy flow's next check is never near: an engine waits for a near time with one more system call.
        if now_ns + self.client.timeout_ns / 8 >= self.look_ns && self.times_out(now_ns) {
            return self.want(now_ns);
        }
        if self.to_show > 0 {
            return Want::Send;
        }
        let mut wake_ns = self.look_ns;
        let free = self.calls.len() < self.client.depth && !self.client.connect_per_call;
        if !self.is_sending() && free {
            if self.client.is_late(now_ns) {
                if self.calls.is_empty() {
                    return self.leave();
                }
            } else if now_ns >= self.arrival.due_ns() {
                self.begin(now_ns);
            } else {
                wake_ns = wake_ns.min(self.arrival.due_ns()).min(self.client.end_ns(now_ns));
            }
        }
        match (self.is_sending(), self.calls.len()) {
            // A reply may arrive while the next request is sent: receiving it keeps both ends from waiting for each
            // other.
            (true, 2..) => Want::Both,
            (true, _) => Want::Send,
            (false, _) => Want::ReceiveUntil(wake_ns),
        }
    }

    /// Checks for a call that takes too long, and returns when to check again: in steps of a quarter of the limit, so that an
    /// engine's timers seldom change.
    fn times_out(&mut self, now_ns: u64) -> bool {
        self.look_ns = now_ns + (self.client.timeout_ns / 4).max(1);
        let late = self.calls.oldest().is_some_and(|call| now_ns >= call.write_began_ns + self.client.timeout_ns);
        if late {
            self.fail(ErrorClass::TimedOut, self.phase(), now_ns);
            self.state = ClientState::Leaving { until_ns: now_ns };
        }
        late
    }

    fn leave(&mut self) -> Want {
        self.state = ClientState::Over;
        Want::Done
    }

    /// The state of the oldest call.
    fn phase(&self) -> ErrorPhase {
        match self.calls.len() {
            0 => ErrorPhase::Idle,
            1 if self.is_sending() => ErrorPhase::Write,
            _ if self.got > 0 => ErrorPhase::Reply,
            _ => ErrorPhase::FirstByte,
        }
    }

    /// Counts the outstanding calls as lost.
    fn fail(&mut self, class: ErrorClass, phase: ErrorPhase, now_ns: u64) {
        let terms = &self.client.terms;
        let calls = self.calls.len();
        let unsent = if calls > 0 { self.client.terms.request - self.sent } else { 0 };
        let trouble = Trouble {
            class,
            phase,
            count: calls.max(1) as u64,
            request_bytes_lost: (calls * terms.request - unsent) as u64,
            reply_bytes_missing: (calls * terms.response - self.got) as u64,
        };
        self.recorder.with(|record| {
            self.calls.iter().for_each(|call| record.failed(now_ns, call.began_ns));
            record.trouble(trouble);
        });
        self.calls.clear();
        self.got = 0;
        self.sent = self.client.terms.request;
        self.free_ns = now_ns;
        self.connect_ns = None;
        self.arrival.over(now_ns);
    }

    /// A connection attempt failed: when to try again, or that the flow gives up.
    #[cold]
    #[inline(never)]
    fn rest(&mut self, now_ns: u64) -> ClientState {
        self.failures += 1;
        if self.failures > RETRIES {
            self.client.gave_up.fetch_add(1, Ordering::Relaxed);
            return ClientState::Over;
        }
        let pause_ns = (RETRY_NS << (self.failures - 1).min(16)).min(RETRY_MAX_NS);
        self.free_ns = now_ns + pause_ns;
        ClientState::Apart { until_ns: now_ns + pause_ns }
    }

    /// Takes a part of the oldest call's reply. Returns the remaining bytes, or the error in them.
    fn take<'a>(&mut self, bytes: &'a [u8], now_ns: u64) -> Result<&'a [u8], ErrorClass> {
        let Some(call) = self.calls.oldest_mut() else { return Err(ErrorClass::LongReply) };
        let number = call.number;
        // No reply is due before its request is over.
        if self.calls.len() == 1 && self.sent < self.client.terms.request {
            return Err(ErrorClass::LongReply);
        }
        if self.got == 0
            && let Some(call) = self.calls.oldest_mut()
        {
            call.first_byte_ns = now_ns - call.began_ns.min(now_ns);
        }
        let (part, rest) = bytes.split_at(bytes.len().min(self.client.terms.response - self.got));
        self.client.terms.check_reply(number, self.got, part).map_err(|_| ErrorClass::Corrupt)?;
        self.got += part.len();
        if self.got == self.client.terms.response {
            self.complete(now_ns);
        }
        Ok(rest)
    }

    fn complete(&mut self, now_ns: u64) {
        let was_full = self.calls.len() >= self.client.depth;
        let Some(call) = self.calls.finish() else { return };
        if was_full {
            self.free_ns = now_ns;
        }
        self.got = 0;
        self.failures = 0;
        self.counts.completed += 1;
        let times = Times {
            connect_ns: self.connect_ns.take(),
            write_ns: call.write_ns,
            first_byte_ns: call.first_byte_ns,
            total_ns: now_ns.saturating_sub(call.began_ns),
            late_ns: call.late_ns,
        };
        self.recorder.completed(now_ns, times);
        self.arrival.over(now_ns);
    }
}

impl Flow for ClientFlow {
    const TIMED: bool = true;

    fn want(&mut self, now_ns: u64) -> Want {
        match self.state {
            ClientState::Apart { until_ns } => self.want_apart(now_ns, until_ns),
            ClientState::Joining { since_ns } if now_ns >= since_ns + self.client.timeout_ns => {
                self.fail(ErrorClass::TimedOut, ErrorPhase::Connect, now_ns);
                self.state = self.rest(now_ns);
                Want::Close
            }
            ClientState::Joining { .. } => Want::Connect,
            ClientState::Joined => self.want_joined(now_ns),
            ClientState::Leaving { until_ns } => {
                self.state = ClientState::Apart { until_ns };
                Want::Close
            }
            ClientState::Over => Want::Done,
        }
    }

    fn patience_ns(&self) -> u64 {
        match self.state {
            ClientState::Joining { since_ns } => since_ns.saturating_add(self.client.timeout_ns),
            ClientState::Joined => self.look_ns,
            _ => u64::MAX,
        }
    }

    fn room(&self) -> usize {
        self.client.terms.request.max(self.client.shown.map_or(0, |shown| shown.len()))
    }

    fn compose(&mut self, room: &mut [u8], is_new: bool) -> usize {
        if let (1.., Some(shown)) = (self.to_show, &self.client.shown) {
            room[..SHOWN].copy_from_slice(shown);
            self.overwritten.add(room);
            return SHOWN;
        }
        let request = &mut room[..self.client.terms.request];
        if self.overwritten.take(request) || is_new {
            request.fill(0x5a);
        }
        if let Some(call) = self.calls.newest() {
            self.client.terms.write_request(call.number, request);
        }
        request.len()
    }

    fn chunk(&self) -> usize {
        self.client.chunk
    }

    fn sent(&mut self, n: usize, now_ns: u64) {
        if self.to_show > 0 {
            self.to_show -= n.min(self.to_show);
            return;
        }
        self.sent += n;
        if !self.is_sending()
            && let Some(call) = self.calls.newest_mut()
        {
            // The next request cannot begin before this one is sent.
            self.free_ns = now_ns;
            call.write_ns = now_ns.saturating_sub(call.write_began_ns);
        }
    }

    fn received(&mut self, bytes: &mut [u8], now_ns: u64) -> bool {
        let mut rest: &[u8] = bytes;
        while !rest.is_empty() {
            match self.take(rest, now_ns) {
                Ok(left) => rest = left,
                Err(class) => {
                    self.fail(class, self.phase(), now_ns);
                    self.state = ClientState::Leaving { until_ns: now_ns };
                    return true;
                }
            }
        }
        if self.client.connect_per_call && self.calls.is_empty() {
            self.state = ClientState::Leaving { until_ns: 0 };
        }
        true
    }

    fn connected(&mut self, now_ns: u64) {
        if let ClientState::Joining { since_ns } = self.state {
            self.connect_ns = self.client.connect_per_call.then(|| now_ns.saturating_sub(since_ns));
            self.free_ns = now_ns;
            // A request begins when it can be sent.
            if let Some(call) = self.calls.newest_mut() {
                call.write_began_ns = now_ns;
            }
            self.look_ns = now_ns + (self.client.timeout_ns / 4).max(1);
            self.to_show = self.client.shown.map_or(0, |shown| shown.len());
            self.state = ClientState::Joined;
        }
    }

    fn ended(&mut self, end: ConnectionEnd, now_ns: u64) {
        match (self.state, end) {
            (ClientState::Joining { .. }, end) => {
                let class = match end {
                    ConnectionEnd::Failed { errno, .. } => class_of_connect(errno),
                    ConnectionEnd::Eof | ConnectionEnd::Closed => ErrorClass::Reset,
                };
                self.fail(class, ErrorPhase::Connect, now_ns);
                self.state = self.rest(now_ns);
            }
            (ClientState::Joined, end) => {
                let (class, phase) = match end {
                    ConnectionEnd::Eof => (ErrorClass::ShortReply, self.phase()),
                    ConnectionEnd::Closed => (ErrorClass::Reset, ErrorPhase::Write),
                    ConnectionEnd::Failed { doing: Doing::Sending, errno } => (class_of(errno), ErrorPhase::Write),
                    ConnectionEnd::Failed { errno, .. } => (class_of(errno), self.phase()),
                };
                self.fail(class, if self.calls.is_empty() { ErrorPhase::Idle } else { phase }, now_ns);
                self.state = ClientState::Apart { until_ns: 0 };
            }
            // It was to be closed anyway.
            (ClientState::Leaving { until_ns }, _) => self.state = ClientState::Apart { until_ns },
            (ClientState::Apart { .. } | ClientState::Over, _) => {}
        }
    }
}

#[cfg(test)]
mod tests;
