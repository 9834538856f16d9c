//! One client's flow: begins calls when they are due, sends requests, receives replies, times and checks them.
//!
//! Every error costs the outstanding calls, is classified and counted, and is followed by a new connection: errors are results.
//! Only a server that refuses again and again ends the flow early.

use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytegauge_model::{CallError, ErrorClass, ErrorPhase, MessageParts, MessageWrites};
use bytegauge_sys::clock::monotonic_ns;

use crate::EndError;
use crate::call::client_counts::{class_of, class_of_connect};
use crate::call::message_bytes::{HEAD, Terms, parts_to_copy};
use crate::call::recorder::Recorder;
use crate::call::schedule::{Arrival, FlowLog, PendingCalls};
use crate::engine::{Stop, UnsentMessage};
use crate::flow::{ConnectionEnd, Doing, Flow, Want};
use crate::meter::Meter;
use crate::path::{SHOWN, Shown};

/// State shared by all flows of a client.
#[derive(Debug)]
pub struct Client {
    /// The bytes of messages.
    pub terms: Terms,
    /// Calls that a flow keeps outstanding.
    pub depth: usize,
    /// The parts of a request.
    pub parts: MessageParts,
    /// How a request of several parts is written.
    pub writes: MessageWrites,
    /// The parts of a reply whose arrival is timed.
    pub reply_parts: Option<MessageParts>,
    /// The value of `TCP_QUICKACK` set after each receive.
    pub quickack_again: Option<bool>,
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
    log: FlowLog,
    state: ClientState,
    /// Bytes of the ticket of a new connection that were not sent yet.
    to_show: usize,
    /// Sent bytes of the last request.
    sent: usize,
    /// Calls begun and not answered, oldest first; the last one may not have been sent whole.
    calls: PendingCalls,
    /// Received bytes of the oldest call's reply.
    got: usize,
    /// When the last whole part of it arrived.
    part_ns: u64,
    /// The parts of a request that is copied into one buffer before it is sent.
    parts: Box<[u8]>,
    connect_ns: Option<u64>,
    /// When to check next for an overdue call.
    check_ns: u64,
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
    pub(crate) fn new(
        client: Arc<Client>,
        recorder: Recorder,
        flow: usize,
        arrival: Arrival,
        joined: bool,
    ) -> ClientFlow {
        ClientFlow {
            state: if joined { ClientState::Joined } else { ClientState::Apart { until_ns: 0 } },
            // The connector has already sent the ticket.
            to_show: 0,
            sent: client.terms.request,
            calls: PendingCalls::with_depth(client.depth),
            got: 0,
            part_ns: 0,
            parts: parts_to_copy(client.writes, client.parts, client.terms.request),
            connect_ns: None,
            check_ns: client.open_ns,
            log: FlowLog::new(client, recorder, flow, arrival),
        }
    }

    /// Adds its counts to the record, once the flow has been returned.
    pub fn finish(self) {
        self.log.finish(self.calls.iter().map(|call| call.began_ns));
    }

    fn is_sending(&self) -> bool {
        self.sent < self.log.client.terms.request
    }

    /// Begins the call that is due.
    fn begin(&mut self, now_ns: u64) {
        self.sent = 0;
        self.calls.begin(self.log.begin(now_ns));
    }

    fn want_apart(&mut self, now_ns: u64, until_ns: u64) -> Want {
        if self.log.client.is_late(now_ns) {
            return self.leave();
        }
        let due_ns = if self.log.client.connect_per_call { self.log.arrival.due_ns().max(until_ns) } else { until_ns };
        if now_ns < due_ns {
            return Want::Pause(due_ns.min(self.log.client.end_ns(now_ns)));
        }
        if self.log.client.connect_per_call {
            self.begin(now_ns);
        }
        self.state = ClientState::Joining { since_ns: now_ns };
        Want::Connect
    }

    fn want_joined(&mut self, now_ns: u64) -> Want {
        // Early, so that a busy flow's next check is never near: an engine waits for a near time with one more system call.
        if now_ns + self.log.client.timeout_ns / 8 >= self.check_ns && self.times_out(now_ns) {
            return self.want(now_ns);
        }
        if self.to_show > 0 {
            return Want::Send;
        }
        let mut wake_ns = self.check_ns;
        let free = self.calls.len() < self.log.client.depth && !self.log.client.connect_per_call;
        if !self.is_sending() && free {
            if self.log.client.is_late(now_ns) {
                if self.calls.is_empty() {
                    return self.leave();
                }
            } else if now_ns >= self.log.arrival.due_ns() {
                self.begin(now_ns);
            } else {
                wake_ns = wake_ns.min(self.log.arrival.due_ns()).min(self.log.client.end_ns(now_ns));
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
        self.check_ns = now_ns + (self.log.client.timeout_ns / 4).max(1);
        let late = self.calls.oldest().is_some_and(|call| now_ns >= call.write_began_ns + self.log.client.timeout_ns);
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
        let terms = &self.log.client.terms;
        let calls = self.calls.len();
        let unsent = if calls > 0 { self.log.client.terms.request - self.sent } else { 0 };
        let trouble = CallError {
            class,
            phase,
            count: calls.max(1) as u64,
            request_bytes_lost: (calls * terms.request - unsent) as u64,
            reply_bytes_missing: (calls * terms.response - self.got) as u64,
        };
        self.log.failed(now_ns, self.calls.iter().map(|call| call.began_ns), trouble);
        self.calls.clear();
        self.got = 0;
        self.sent = self.log.client.terms.request;
        self.log.free_ns = now_ns;
        self.connect_ns = None;
    }

    /// A connection attempt failed: when to try again, or that the flow gives up.
    fn rest(&mut self, now_ns: u64) -> ClientState {
        self.log.next_attempt_ns(now_ns).map_or(ClientState::Over, |until_ns| ClientState::Apart { until_ns })
    }

    /// Takes a part of the oldest call's reply. Returns the remaining bytes, or the error in them.
    fn take<'a>(&mut self, bytes: &'a [u8], now_ns: u64) -> Result<&'a [u8], ErrorClass> {
        let Some(call) = self.calls.oldest_mut() else { return Err(ErrorClass::LongReply) };
        let number = call.number;
        // No reply is due before its request is over.
        if self.calls.len() == 1 && self.sent < self.log.client.terms.request {
            return Err(ErrorClass::LongReply);
        }
        if self.got == 0
            && let Some(call) = self.calls.oldest_mut()
        {
            call.first_byte_ns = now_ns - call.began_ns.min(now_ns);
        }
        let (part, rest) = bytes.split_at(bytes.len().min(self.log.client.terms.response - self.got));
        self.log.client.terms.check_reply(number, self.got, part).map_err(|_| ErrorClass::Corrupt)?;
        let had = self.got;
        self.got += part.len();
        if let Some(parts) = self.log.client.reply_parts {
            self.time_parts(parts.count(had)..parts.count(self.got), now_ns);
        }
        if self.got == self.log.client.terms.response {
            self.complete(now_ns);
        }
        Ok(rest)
    }

    /// Parts of a reply began to arrive: records the time from each to the next.
    #[cold]
    fn time_parts(&mut self, begun: Range<usize>, now_ns: u64) {
        if begun.is_empty() {
            return;
        }
        let since_ns = std::mem::replace(&mut self.part_ns, now_ns);
        let first = (begun.start > 0).then(|| now_ns.saturating_sub(since_ns));
        let gaps = first.into_iter().chain(std::iter::repeat_n(0, begun.len() - 1));
        self.log.recorder.with(|record| gaps.for_each(|ns| record.gap(now_ns, ns)));
    }

    fn complete(&mut self, now_ns: u64) {
        let was_full = self.calls.len() >= self.log.client.depth;
        let Some(call) = self.calls.finish() else { return };
        if was_full {
            self.log.free_ns = now_ns;
        }
        self.got = 0;
        self.log.completed(now_ns, &call, self.connect_ns.take());
    }
}

impl Flow for ClientFlow {
    const TIMED: bool = true;

    fn want(&mut self, now_ns: u64) -> Want {
        match self.state {
            ClientState::Apart { until_ns } => self.want_apart(now_ns, until_ns),
            ClientState::Joining { since_ns } if now_ns >= since_ns + self.log.client.timeout_ns => {
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
            ClientState::Joining { since_ns } => since_ns.saturating_add(self.log.client.timeout_ns),
            ClientState::Joined => self.check_ns,
            _ => u64::MAX,
        }
    }

    fn room(&self) -> usize {
        self.log.client.terms.request.max(self.log.client.shown.map_or(0, |shown| shown.len()))
    }

    fn compose(&mut self, room: &mut [u8], is_new: bool) -> usize {
        if is_new {
            room.fill(0x5a);
        }
        if let (1.., Some(shown)) = (self.to_show, &self.log.client.shown) {
            room[..SHOWN].copy_from_slice(shown);
            return SHOWN;
        }
        let request = &mut room[..self.log.client.terms.request];
        if self.log.client.shown.is_some() {
            // The ticket may be there.
            let front = SHOWN.min(request.len());
            request[..front].fill(0x5a);
        }
        request[..self.parts.len()].copy_from_slice(&self.parts);
        if let Some(call) = self.calls.newest() {
            self.log.client.terms.write_request(call.number, request);
        }
        request.len()
    }

    fn parts(&self) -> MessageParts {
        if self.log.client.writes == MessageWrites::Copy { MessageParts::WHOLE } else { self.log.client.parts }
    }

    fn writes(&self) -> MessageWrites {
        self.log.client.writes
    }

    fn quickack_again(&self) -> Option<bool> {
        self.log.client.quickack_again
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
            self.log.free_ns = now_ns;
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
        if self.log.client.connect_per_call && self.calls.is_empty() {
            self.state = ClientState::Leaving { until_ns: 0 };
        }
        true
    }

    fn connected(&mut self, now_ns: u64) {
        if let ClientState::Joining { since_ns } = self.state {
            self.connect_ns = self.log.client.connect_per_call.then(|| now_ns.saturating_sub(since_ns));
            self.log.free_ns = now_ns;
            // A request begins when it can be sent.
            if let Some(call) = self.calls.newest_mut() {
                call.write_began_ns = now_ns;
            }
            self.check_ns = now_ns + (self.log.client.timeout_ns / 4).max(1);
            self.to_show = self.log.client.shown.map_or(0, |shown| shown.len());
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

// The client without a network: the cost of beginning, timing, checking and recording a call.
//
// The null engine of calls. It reads the clock where a real engine would and answers every request at once, so that a report
// can show bytegauge's own share of a call's cost.

/// Runs one flow until it is done.
pub(crate) fn carry(
    flow: &mut impl Flow,
    response: usize,
    buffer: &mut [u8],
    abort: &AtomicBool,
    meter: &mut Meter,
) -> Result<Stop, EndError> {
    // As in an engine with threads of its own, whose counting is the slower of two ways (`engine::blocking`).
    let mut share = meter.tally().share_of_meter();
    let never = AtomicBool::new(false);
    let mut now_ns = monotonic_ns();
    let mut head = [0; HEAD];
    let mut unsent = UnsentMessage::default();
    let (mut taken, mut given) = (0, 0);
    loop {
        for _ in 0..meter.lap_calls() {
            match flow.want(now_ns) {
                // A request is answered before the next one is sent.
                Want::Receive | Want::ReceiveUntil(_) | Want::Both if taken > 0 => {
                    let n = (response - given).min(buffer.len());
                    if given < HEAD {
                        let part = n.min(HEAD - given);
                        buffer[..part].copy_from_slice(&head[given..given + part]);
                    }
                    given += n;
                    if given == response {
                        taken = 0;
                    }
                    share.count(n, n);
                    now_ns = monotonic_ns();
                    flow.received(black_box(&mut buffer[..n]), now_ns);
                }
                Want::Send | Want::Both => {
                    let bytes = black_box(unsent.next(flow));
                    let n = bytes.len();
                    if taken < HEAD {
                        let part = n.min(HEAD - taken);
                        head[taken..taken + part].copy_from_slice(&bytes[..part]);
                    }
                    taken += n;
                    given = 0;
                    share.count(n, n);
                    now_ns = monotonic_ns();
                    unsent.sent(n);
                    flow.sent(n, now_ns);
                }
                Want::Connect => {
                    now_ns = monotonic_ns();
                    flow.connected(now_ns);
                }
                Want::Finish | Want::Close | Want::Reset => {}
                // A time in the future, for which this loop does not wait.
                Want::Receive | Want::ReceiveUntil(_) | Want::Pause(_) => now_ns = monotonic_ns(),
                Want::Done => return Ok(Stop::Done),
            }
        }
        meter.lap(&never);
        if abort.load(Ordering::Relaxed) {
            return Ok(Stop::Aborted);
        }
    }
}

#[cfg(test)]
mod tests;
