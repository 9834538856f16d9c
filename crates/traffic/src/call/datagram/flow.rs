//! One client's flow over datagrams: begins calls when they are due, assigns replies to calls by their numbers, times and
//! checks them.
//!
//! A request or a reply may be lost, repeated or reordered. So a reply belongs to the call whose number it has, never simply to
//! the next one that waits. A call without a reply in time is an error of its own class, and the flow continues with the next
//! number. Does no I/O and reads no clock.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use bytegauge_model::{CallError, ErrorClass, ErrorPhase};

use crate::call::client::Client;
use crate::call::client_counts::class_of;
use crate::call::message_bytes::Terms;
use crate::call::recorder::Recorder;
use crate::call::schedule::{Arrival, FlowLog, PendingCall};
use crate::flow::{ConnectionEnd, Flow, Want};

/// Number of calls given up whose replies are still recognised; replies to older ones count as duplicates.
const GIVEN_UP_MAX: usize = 1024;

/// One flow.
#[derive(Debug)]
pub struct DatagramFlow {
    log: FlowLog,
    /// Most requests of one send.
    batch: usize,
    /// Calls begun and neither answered nor given up, in the order of their beginning.
    calls: VecDeque<PendingCall>,
    /// The number of the last of them whose requests the kernel has not accepted.
    unsent: usize,
    /// Numbers of calls that were given up recently.
    given_up: VecDeque<u64>,
    /// The newest completed call: a reply to an older one was overtaken.
    newest: Option<u64>,
    /// The end of the pause after failures.
    rests_until_ns: u64,
    /// Whether late replies may arrive that cannot be distinguished from due ones.
    has_late_replies: bool,
    is_over: bool,
}

impl DatagramFlow {
    /// Flow number `flow`, which sends at most `batch` requests at once.
    pub(crate) fn new(
        client: Arc<Client>,
        recorder: Recorder,
        flow: usize,
        batch: usize,
        arrival: Arrival,
    ) -> DatagramFlow {
        DatagramFlow {
            batch,
            calls: VecDeque::with_capacity(client.depth),
            unsent: 0,
            given_up: VecDeque::new(),
            newest: None,
            rests_until_ns: 0,
            has_late_replies: false,
            is_over: false,
            log: FlowLog::new(client, recorder, flow, arrival),
        }
    }

    /// Adds its counts to the record, once the flow is done, with the number of datagrams for which its socket had no room.
    pub fn finish(mut self, dropped: u64) {
        self.log.counts.datagrams.dropped += dropped;
        self.log.finish(self.calls.iter().map(|call| call.began_ns));
    }

    /// Whether a reply may be in flight.
    #[inline]
    pub fn waits(&self) -> bool {
        self.calls.len() > self.unsent
    }

    /// Begins the call that is due.
    fn begin(&mut self, now_ns: u64) {
        self.calls.push_back(self.log.begin(now_ns));
        self.unsent += 1;
    }

    /// Writes the request of a call that has begun and was not sent; the oldest is 0.
    pub fn write(&self, index: usize, request: &mut [u8]) {
        if let Some(call) = self.calls.get(self.calls.len() - self.unsent + index) {
            self.log.client.terms.write_request(call.number, request);
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
            self.lose(class, phase, now_ns, self.calls[index].began_ns);
        }
        self.calls.clear();
        self.unsent = 0;
        self.log.arrival.over(now_ns);
        match self.log.next_attempt_ns(now_ns) {
            Some(at_ns) => self.rests_until_ns = at_ns,
            None => self.is_over = true,
        }
    }

    /// A reply of a call that waits for one.
    fn replied(&mut self, index: usize, mut call: PendingCall, datagram: &[u8], now_ns: u64) {
        if self.calls.len() >= self.log.client.depth {
            self.log.free_ns = now_ns;
        }
        self.calls.remove(index);
        if let Err((class, reply_bytes_missing)) = self.judge(datagram, call.number) {
            let phase = ErrorPhase::Reply;
            let trouble = CallError { class, phase, count: 1, request_bytes_lost: 0, reply_bytes_missing };
            return self.log.failed(now_ns, std::iter::empty(), trouble);
        }
        match self.newest {
            Some(newest) if newest > call.number => self.log.counts.datagrams.overtaken += 1,
            _ => self.newest = Some(call.number),
        }
        // A datagram arrives whole: its first byte is not earlier than its last.
        call.first_byte_ns = now_ns.saturating_sub(call.began_ns);
        self.log.completed(now_ns, &call, None);
    }

    fn may_begin(&self, now_ns: u64) -> bool {
        !self.is_last(now_ns) && self.calls.len() < self.log.client.depth
    }

    fn is_last(&self, now_ns: u64) -> bool {
        self.is_over || self.log.client.is_late(now_ns)
    }

    /// The earliest time of the next call, nanoseconds of the monotonic clock.
    fn due_ns(&self) -> u64 {
        self.log.arrival.due_ns().max(self.rests_until_ns)
    }

    /// The action of a flow without a request to send.
    fn want_reply(&self, now_ns: u64) -> Want {
        if self.is_last(now_ns) && self.calls.is_empty() {
            return Want::Done;
        }
        let end_ns = self.log.client.end_ns(now_ns);
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

    fn limit_ns(&self, call: &PendingCall) -> u64 {
        call.write_began_ns.saturating_add(self.log.client.timeout_ns)
    }

    fn give_up(&mut self, now_ns: u64) {
        while let Some(call) = self.calls.front()
            && (now_ns >= self.limit_ns(call) || (self.has_late_replies && self.waits()))
        {
            let (number, began_ns) = (call.number, call.began_ns);
            let is_sent = self.waits();
            // Replies without numbers are assigned by their order, which is lost with the first of them.
            self.has_late_replies |= is_sent && self.log.client.terms.head == 0;
            let phase = if is_sent { ErrorPhase::FirstByte } else { ErrorPhase::Write };
            self.lose(ErrorClass::TimedOut, phase, now_ns, began_ns);
            if self.given_up.len() == GIVEN_UP_MAX {
                self.given_up.pop_front();
            }
            self.given_up.push_back(number);
            self.calls.pop_front();
            self.log.free_ns = now_ns;
            self.unsent = self.unsent.min(self.calls.len());
        }
    }

    /// The call that waits for a reply with this head; of calls with equal heads the oldest.
    fn call_of(&self, head: u64) -> Option<(usize, PendingCall)> {
        let sent = self.calls.len() - self.unsent;
        let mut waiting = self.calls.iter().take(sent).copied().enumerate();
        waiting.find(|(_, call)| self.log.client.terms.carried(call.number) == head)
    }

    /// The error in a reply, and the number of its missing bytes.
    fn judge(&self, datagram: &[u8], number: u64) -> Result<(), (ErrorClass, u64)> {
        let terms = &self.log.client.terms;
        match datagram.len() {
            len if len > terms.response => Err((ErrorClass::LongReply, 0)),
            len if len < terms.response => Err((ErrorClass::ShortReply, (terms.response - len) as u64)),
            _ => {
                let whole = terms.check_reply(number, 0, datagram);
                whole.map_err(|_| (ErrorClass::Corrupt, 0))
            }
        }
    }

    /// A datagram for which no call waits.
    #[cold]
    fn count_unmatched(&mut self, head: Option<u64>) {
        let terms = &self.log.client.terms;
        let of = |number: u64| head.is_some_and(|head| terms.carried(number) == head);
        if let Some(place) = self.given_up.iter().position(|number| of(*number)) {
            self.given_up.remove(place);
            self.log.counts.datagrams.late += 1;
        } else if self.last_with(head).is_some() {
            self.log.counts.datagrams.duplicated += 1;
        } else {
            self.log.counts.datagrams.strange += 1;
        }
    }

    /// The newest call whose number has this head.
    fn last_with(&self, head: Option<u64>) -> Option<u64> {
        let (terms, newest) = (&self.log.client.terms, self.log.counts.begun.checked_sub(1)?);
        let before = terms.carried(Terms::number(self.log.flow, newest).wrapping_sub(head?));
        newest.checked_sub(before)
    }

    fn lose(&mut self, class: ErrorClass, phase: ErrorPhase, now_ns: u64, began_ns: u64) {
        let terms = &self.log.client.terms;
        let sent = if phase == ErrorPhase::Write { 0 } else { terms.request };
        let trouble = CallError {
            class,
            phase,
            count: 1,
            request_bytes_lost: sent as u64,
            reply_bytes_missing: terms.response as u64,
        };
        self.log.failed(now_ns, std::iter::once(began_ns), trouble);
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
        while self.may_begin(now_ns) && now_ns >= self.due_ns() {
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
        self.log.client.terms.request
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
            self.log.counts.datagrams.sent += 1;
        }
    }

    /// A datagram arrived: `datagram` is as much of it as the buffer held.
    fn received(&mut self, datagram: &mut [u8], now_ns: u64) -> bool {
        self.log.counts.datagrams.received += 1;
        let head = self.log.client.terms.head_of(datagram);
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
