//! One client's flow over datagrams: begins calls when they are due, assigns replies to calls by their numbers, times and
//! checks them.
//!
//! A request or a reply may be lost, repeated or reordered. So a reply belongs to the call whose number it has, never simply to
//! the next one that waits. A call without a reply in time is an error of its own class, and the flow continues with the next
//! number. Does no I/O and reads no clock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytegauge_model::{ErrorClass, ErrorPhase};

use crate::call::arrival::Arrival;
use crate::call::classify::class_of;
use crate::call::client::{Client, RETRIES, RETRY_MAX_NS, RETRY_NS};
use crate::call::client_counts::{FlowCounts, Times, Trouble};
use crate::call::message_bytes::Terms;
use crate::call::recorder::Recorder;
use crate::flow::{ConnectionEnd, Flow, Want};

/// Number of calls given up whose replies are still recognised; replies to older ones count as duplicates.
const GIVEN_UP_MAX: usize = 1024;

/// One flow.
#[derive(Debug)]
pub struct DatagramFlow {
    client: Arc<Client>,
    recorder: Recorder,
    arrival: Arrival,
    flow: usize,
    /// Most requests of one send.
    batch: usize,
    /// Calls begun and neither answered nor given up, in the order of their beginning.
    calls: VecDeque<Call>,
    /// The number of the last of them whose requests the kernel has not accepted.
    unsent: usize,
    /// Numbers of calls that were given up recently.
    given_up: VecDeque<u64>,
    /// The newest completed call: a reply to an older one was overtaken.
    newest: Option<u64>,
    /// Failures in a row, and the end of the pause after them.
    failures: u32,
    /// Since when the flow could begin a call.
    free_ns: u64,
    rests_until_ns: u64,
    /// Whether late replies may arrive that cannot be distinguished from due ones.
    has_late_replies: bool,
    is_over: bool,
    counts: FlowCounts,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    /// Its number among the flow's calls.
    count: u64,
    /// Its intended time.
    began_ns: u64,
    /// The time at which it began.
    write_began_ns: u64,
    write_ns: u64,
    late_ns: u64,
}

impl DatagramFlow {
    /// Flow number `flow`, which sends at most `batch` requests at once.
    pub fn new(
        client: Arc<Client>,
        recorder: Recorder,
        (flow, batch): (usize, usize),
        arrival: Arrival,
    ) -> DatagramFlow {
        DatagramFlow {
            recorder,
            arrival,
            flow,
            batch,
            calls: VecDeque::with_capacity(client.depth),
            unsent: 0,
            given_up: VecDeque::new(),
            newest: None,
            failures: 0,
            free_ns: 0,
            rests_until_ns: 0,
            has_late_replies: false,
            is_over: false,
            counts: FlowCounts::default(),
            client,
        }
    }

    /// The flow's counts, once it is done, and the number of datagrams for which its socket had no room.
    pub fn hand_in(mut self, dropped: u64) {
        self.counts.datagrams.dropped += dropped;
        self.counts.unfinished += self.calls.len() as u64;
        self.counts.overdue = self.arrival.overdue(self.client.open_ns, self.client.close_ns);
        self.recorder.with(|record| {
            self.calls.iter().for_each(|call| record.ended_late(call.began_ns));
            record.hand_in(self.counts);
        });
    }

    /// Whether a reply may be in flight.
    #[inline]
    pub fn waits(&self) -> bool {
        self.calls.len() > self.unsent
    }

    /// Begins the call that is due.
    fn begin(&mut self, now_ns: u64) {
        let count = self.counts.begun;
        let due_ns = self.arrival.due_ns();
        let began_ns = if self.arrival.is_open() { due_ns } else { now_ns };
        let late_ns = now_ns.saturating_sub(due_ns.max(self.free_ns).max(self.rests_until_ns));
        self.arrival.begun();
        self.calls.push_back(Call { count, began_ns, write_began_ns: now_ns, write_ns: 0, late_ns });
        self.unsent += 1;
        self.counts.begun += 1;
    }

    /// Writes the request of a call that has begun and was not sent; the oldest is 0.
    pub fn write(&self, index: usize, request: &mut [u8]) {
        if let Some(call) = self.calls.get(self.calls.len() - self.unsent + index) {
            self.client.terms.write_request(Terms::number(self.flow, call.count), request);
        }
    }

    /// Requests that have begun and were not sent.
    pub fn unsent(&self) -> usize {
        self.unsent
    }

    /// The kernel refused to send, or reported that datagrams sent were not accepted. It does not report which ones, so all
    /// outstanding calls are lost.
    pub fn failed(&mut self, errno: i32, now_ns: u64) {
        let (class, sent) = (class_of(errno), self.calls.len() - self.unsent);
        for index in 0..self.calls.len() {
            let phase = if index < sent { ErrorPhase::FirstByte } else { ErrorPhase::Write };
            self.lose((class, phase), now_ns, self.calls[index].began_ns);
        }
        self.calls.clear();
        self.free_ns = now_ns;
        self.unsent = 0;
        self.arrival.over(now_ns);
        self.failures += 1;
        if self.failures > RETRIES {
            self.client.gave_up.fetch_add(1, Ordering::Relaxed);
            self.is_over = true;
        }
        self.rests_until_ns = now_ns + (RETRY_NS << (self.failures - 1).min(16)).min(RETRY_MAX_NS);
    }

    /// A reply of a call that waits for one.
    fn replied(&mut self, index: usize, call: Call, datagram: &[u8], now_ns: u64) {
        if self.calls.len() >= self.client.depth {
            self.free_ns = now_ns;
        }
        self.calls.remove(index);
        if let Err((class, missing)) = self.judge(datagram, call.count) {
            self.trouble(Trouble {
                class,
                phase: ErrorPhase::Reply,
                count: 1,
                request_bytes_lost: 0,
                reply_bytes_missing: missing,
            });
            return self.arrival.over(now_ns);
        }
        self.failures = 0;
        self.counts.completed += 1;
        match self.newest {
            Some(newest) if newest > call.count => self.counts.datagrams.overtaken += 1,
            _ => self.newest = Some(call.count),
        }
        // A datagram arrives whole: its first byte is not earlier than its last.
        let total_ns = now_ns.saturating_sub(call.began_ns);
        let times = Times {
            connect_ns: None,
            write_ns: call.write_ns,
            first_byte_ns: total_ns,
            total_ns,
            late_ns: call.late_ns,
        };
        self.recorder.completed(now_ns, times);
        self.arrival.over(now_ns);
    }

    /// Whether a call is to begin.
    fn is_due(&self, now_ns: u64) -> bool {
        self.may_begin(now_ns) && now_ns >= self.due_ns()
    }

    fn may_begin(&self, now_ns: u64) -> bool {
        !self.is_last(now_ns) && self.calls.len() < self.client.depth
    }

    fn is_last(&self, now_ns: u64) -> bool {
        self.is_over || self.client.is_late(now_ns)
    }

    /// The earliest time of the next call, nanoseconds of the monotonic clock.
    fn due_ns(&self) -> u64 {
        self.arrival.due_ns().max(self.rests_until_ns)
    }

    /// The action of a flow without a request to send.
    fn want_reply(&self, now_ns: u64) -> Want {
        if self.is_last(now_ns) && self.calls.is_empty() {
            return Want::Done;
        }
        let end_ns = self.client.end_ns(now_ns);
        let patience_ns = self.calls.front().map_or(end_ns, |call| self.limit_ns(call));
        Want::ReceiveUntil(if self.may_begin(now_ns) {
            self.due_ns().min(patience_ns).min(end_ns)
        } else {
            patience_ns
        })
    }

    /// Makes no more calls: all of them would fail.
    pub fn give_up_all(&mut self) {
        self.is_over = true;
    }

    fn limit_ns(&self, call: &Call) -> u64 {
        call.write_began_ns.saturating_add(self.client.timeout_ns)
    }

    fn give_up(&mut self, now_ns: u64) {
        while let Some(call) = self.calls.front()
            && (now_ns >= self.limit_ns(call) || (self.has_late_replies && self.waits()))
        {
            let (count, began_ns) = (call.count, call.began_ns);
            let is_sent = self.waits();
            // Replies without numbers are assigned by their order, which is lost with the first of them.
            self.has_late_replies |= is_sent && self.client.terms.head == 0;
            let phase = if is_sent { ErrorPhase::FirstByte } else { ErrorPhase::Write };
            self.lose((ErrorClass::TimedOut, phase), now_ns, began_ns);
            if self.given_up.len() == GIVEN_UP_MAX {
                self.given_up.pop_front();
            }
            self.given_up.push_back(count);
            self.calls.pop_front();
            self.free_ns = now_ns;
            self.unsent = self.unsent.min(self.calls.len());
            self.arrival.over(now_ns);
        }
    }

    /// The call that waits for a reply with this head; of calls with equal heads the oldest.
    fn call_of(&self, head: u64) -> Option<(usize, Call)> {
        let sent = self.calls.len() - self.unsent;
        let mut waiting = self.calls.iter().take(sent).copied().enumerate();
        waiting.find(|(_, call)| self.client.terms.carried(Terms::number(self.flow, call.count)) == head)
    }

    /// The error in a reply, and the number of its missing bytes.
    fn judge(&self, datagram: &[u8], count: u64) -> Result<(), (ErrorClass, u64)> {
        let terms = &self.client.terms;
        match datagram.len() {
            len if len > terms.response => Err((ErrorClass::LongReply, 0)),
            len if len < terms.response => Err((ErrorClass::ShortReply, (terms.response - len) as u64)),
            _ => {
                let whole = terms.check_reply(Terms::number(self.flow, count), 0, datagram);
                whole.map_err(|_| (ErrorClass::Corrupt, 0))
            }
        }
    }

    /// A datagram for which no call waits.
    #[cold]
    fn count_unmatched(&mut self, head: Option<u64>) {
        let terms = &self.client.terms;
        let of = |count: u64| head.is_some_and(|head| terms.carried(Terms::number(self.flow, count)) == head);
        if let Some(place) = self.given_up.iter().position(|count| of(*count)) {
            self.given_up.remove(place);
            self.counts.datagrams.late += 1;
        } else if self.last_with(head).is_some() {
            self.counts.datagrams.duplicated += 1;
        } else {
            self.counts.datagrams.strange += 1;
        }
    }

    /// The newest call whose number has this head.
    fn last_with(&self, head: Option<u64>) -> Option<u64> {
        let (terms, newest) = (&self.client.terms, self.counts.begun.checked_sub(1)?);
        let before = terms.carried(Terms::number(self.flow, newest).wrapping_sub(head?));
        newest.checked_sub(before)
    }

    fn lose(&mut self, (class, phase): (ErrorClass, ErrorPhase), now_ns: u64, began_ns: u64) {
        let terms = &self.client.terms;
        let sent = if phase == ErrorPhase::Write { 0 } else { terms.request };
        let trouble = Trouble {
            class,
            phase,
            count: 1,
            request_bytes_lost: sent as u64,
            reply_bytes_missing: terms.response as u64,
        };
        self.recorder.with(|record| {
            record.failed(now_ns, began_ns);
            record.trouble(trouble);
        });
    }

    fn trouble(&mut self, trouble: Trouble) {
        self.recorder.with(|record| record.trouble(trouble));
    }
}

impl Flow for DatagramFlow {
    const TIMED: bool = true;

    /// Gives up calls that take too long, and begins those that are due.
    fn want(&mut self, now_ns: u64) -> Want {
        self.give_up(now_ns);
        if self.has_late_replies && !self.is_over {
            return if now_ns < self.rests_until_ns { Want::Pause(self.rests_until_ns) } else { Want::Connect };
        }
        while self.is_due(now_ns) {
            self.begin(now_ns);
            if self.unsent >= self.batch {
                break;
            }
        }
        match (self.unsent, self.waits()) {
            (0, _) => self.want_reply(now_ns),
            (_, true) => Want::Both,
            (_, false) => Want::Send,
        }
    }

    fn room(&self) -> usize {
        self.client.terms.request
    }

    fn compose(&mut self, room: &mut [u8], _is_new: bool) -> usize {
        self.write(0, room);
        room.len()
    }

    /// The oldest unsent request was sent.
    #[inline]
    fn sent(&mut self, _n: usize, now_ns: u64) {
        let index = self.calls.len() - self.unsent;
        if let Some(call) = self.calls.get_mut(index) {
            call.write_ns = now_ns.saturating_sub(call.write_began_ns);
            self.unsent -= 1;
            self.counts.datagrams.sent += 1;
        }
    }

    /// A datagram arrived: `datagram` is as much of it as the buffer held.
    fn received(&mut self, datagram: &mut [u8], now_ns: u64) -> bool {
        self.counts.datagrams.received += 1;
        let head = self.client.terms.head_of(datagram);
        match head.and_then(|head| self.call_of(head)) {
            Some((index, call)) => self.replied(index, call, datagram, now_ns),
            None => self.count_unmatched(head),
        }
        true
    }

    fn patience_ns(&self) -> u64 {
        self.calls.front().map_or(u64::MAX, |call| self.limit_ns(call))
    }

    fn connected(&mut self, _now_ns: u64) {
        self.has_late_replies = false;
    }

    fn ended(&mut self, end: ConnectionEnd, now_ns: u64) {
        if let ConnectionEnd::Failed { errno, .. } = end {
            self.failed(errno, now_ns);
        }
    }
}

#[cfg(test)]
mod tests;
