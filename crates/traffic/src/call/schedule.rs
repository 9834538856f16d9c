//! When a flow's next call is due, and the calls that it has outstanding.
//!
//! A closed loop begins the next call when the last one is over, or a pause later. An offered load has intended times that do
//! not wait for the server: a late call is timed from its intended time; otherwise a server that stalls would hide the calls
//! that it delays. Flows are staggered, so that they do not all call at once. Never reads the clock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytegauge_model::{Arrivals, CallError};

use crate::call::client::Client;
use crate::call::client_counts::{FlowCounts, Times};
use crate::call::message_bytes::Terms;
use crate::call::recorder::Recorder;

/// One flow's schedule.
#[derive(Clone, Debug)]
pub struct Arrival {
    kind: ArrivalKind,
    due_ns: u64,
    /// The part of a nanosecond that `due_ns` leaves out.
    rest: f64,
}

#[derive(Clone, Debug)]
enum ArrivalKind {
    Closed { think_ns: u64 },
    Open { gap_ns: f64, random: Option<Random> },
}

/// A load offered to several flows.
#[derive(Clone, Copy, Debug)]
pub struct Offered {
    /// Calls per second of all flows.
    pub rate: u64,
    /// How they are spaced.
    pub arrivals: Arrivals,
    /// Flows that share the load.
    pub flows: usize,
}

impl Arrival {
    /// A closed loop from `start_ns` on with a pause between calls, of flow number `flow` of `flows`.
    pub fn closed(start_ns: u64, think_ns: u64, flow: usize, flows: usize) -> Arrival {
        let mut arrival = Arrival { kind: ArrivalKind::Closed { think_ns }, due_ns: start_ns, rest: 0.0 };
        arrival.later(think_ns as f64 * (flow % flows) as f64 / flows as f64);
        arrival
    }

    /// The share of flow number `flow` of an offered load.
    pub fn open(start_ns: u64, offered: Offered, flow: usize, seed: u64) -> Arrival {
        let gap_ns = offered.flows as f64 * 1e9 / offered.rate.max(1) as f64;
        let random = match offered.arrivals {
            Arrivals::Constant => None,
            Arrivals::Poisson => Some(Random(seed ^ (flow as u64).wrapping_mul(0xd134_2543_de82_ef95))),
        };
        let mut arrival = Arrival { kind: ArrivalKind::Open { gap_ns, random }, due_ns: start_ns, rest: 0.0 };
        match offered.arrivals {
            Arrivals::Constant => arrival.later(gap_ns * (flow % offered.flows) as f64 / offered.flows as f64),
            // The first gap of a Poisson process has the same distribution as all others.
            Arrivals::Poisson => arrival.begun(),
        }
        arrival
    }

    /// Whether a load is offered.
    pub fn is_open(&self) -> bool {
        matches!(self.kind, ArrivalKind::Open { .. })
    }

    /// Whether calls have intended times, for which a flow waits.
    #[cfg(test)]
    pub(super) fn waits(&self) -> bool {
        !matches!(self.kind, ArrivalKind::Closed { think_ns: 0 })
    }

    /// When the next call is due, nanoseconds.
    pub fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// The call that was due has begun.
    pub fn begun(&mut self) {
        if let ArrivalKind::Open { gap_ns, random } = &mut self.kind {
            let gap_ns = *gap_ns * random.as_mut().map_or(1.0, Random::exponential);
            self.later(gap_ns);
        }
    }

    /// A call has ended, with or without success.
    pub fn over(&mut self, now_ns: u64) {
        if let ArrivalKind::Closed { think_ns } = self.kind {
            self.due_ns = now_ns + think_ns;
        }
    }

    /// Calls that were due from `open_ns` to `close_ns` and have not begun; for random arrivals their expectation.
    pub fn overdue(&self, open_ns: u64, close_ns: u64) -> u64 {
        let ArrivalKind::Open { gap_ns, .. } = self.kind else { return 0 };
        if self.due_ns >= close_ns {
            return 0;
        }
        let first = self.due_ns.max(open_ns);
        (close_ns.saturating_sub(first) as f64 / gap_ns).ceil() as u64
    }

    fn later(&mut self, ns: f64) {
        let ns = ns + self.rest;
        self.due_ns = self.due_ns.saturating_add(ns as u64);
        self.rest = ns.fract();
    }
}

/// SplitMix64, as used by the pattern of verify mode.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    /// A gap of mean 1, by inverting the distribution function.
    fn exponential(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        // 53 bits, from (0, 1]: the logarithm of 0 is no gap.
        -(((z >> 11) + 1) as f64 / (1u64 << 53) as f64).ln()
    }
}

/// A call that was begun and not answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingCall {
    pub(super) number: u64,
    /// Its intended time.
    pub(super) began_ns: u64,
    /// The time at which it began.
    pub(super) write_began_ns: u64,
    pub(super) write_ns: u64,
    pub(super) first_byte_ns: u64,
    pub(super) late_ns: u64,
}

/// Outstanding calls, oldest first. The oldest one is in the flow itself: with hundreds of flows, a list elsewhere would be one
/// more access to memory outside of the cache for each call.
#[derive(Debug)]
pub(super) struct PendingCalls {
    oldest: Option<PendingCall>,
    /// Empty if there is no oldest call.
    later: VecDeque<PendingCall>,
}

impl PendingCalls {
    /// No call, with memory for `depth` of them.
    pub(super) fn with_depth(depth: usize) -> PendingCalls {
        PendingCalls { oldest: None, later: VecDeque::with_capacity(depth.saturating_sub(1)) }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        usize::from(self.oldest.is_some()) + self.later.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.oldest.is_none()
    }

    #[inline]
    pub(super) fn oldest(&self) -> Option<&PendingCall> {
        self.oldest.as_ref()
    }

    #[inline]
    pub(super) fn oldest_mut(&mut self) -> Option<&mut PendingCall> {
        self.oldest.as_mut()
    }

    #[inline]
    pub(super) fn newest(&self) -> Option<&PendingCall> {
        if self.later.is_empty() { self.oldest.as_ref() } else { self.later.back() }
    }

    #[inline]
    pub(super) fn newest_mut(&mut self) -> Option<&mut PendingCall> {
        if self.later.is_empty() { self.oldest.as_mut() } else { self.later.back_mut() }
    }

    #[inline]
    pub(super) fn begin(&mut self, call: PendingCall) {
        match self.oldest {
            None => self.oldest = Some(call),
            Some(_) => self.later.push_back(call),
        }
    }

    /// Removes the oldest call.
    #[inline]
    pub(super) fn finish(&mut self) -> Option<PendingCall> {
        let next = if self.later.is_empty() { None } else { self.later.pop_front() };
        std::mem::replace(&mut self.oldest, next)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &PendingCall> {
        self.oldest.iter().chain(&self.later)
    }

    pub(super) fn clear(&mut self) {
        self.oldest = None;
        self.later.clear();
    }
}

// The common part of clients' flows, over connections and over datagrams: when a call begins, how it is recorded, and how long a flow
// pauses after failures.

/// The first pause after a failed connection attempt; it doubles.
const RETRY_NS: u64 = 1_000_000;

/// The longest of these pauses.
const RETRY_MAX_NS: u64 = 100_000_000;

/// Failures in a row before a flow gives up: most of a second.
const RETRIES: u32 = 14;

/// The calls of one flow.
#[derive(Debug)]
pub(super) struct FlowLog {
    pub(super) client: Arc<Client>,
    pub(super) arrival: Arrival,
    pub(super) recorder: Recorder,
    pub(super) flow: usize,
    /// Since when the flow could begin a call.
    pub(super) free_ns: u64,
    /// Failures in a row.
    failures: u32,
    pub(super) counts: FlowCounts,
}

impl FlowLog {
    pub(super) fn new(client: Arc<Client>, recorder: Recorder, flow: usize, arrival: Arrival) -> FlowLog {
        FlowLog { client, arrival, recorder, flow, free_ns: 0, failures: 0, counts: FlowCounts::default() }
    }

    /// Begins the call that is due.
    pub(super) fn begin(&mut self, now_ns: u64) -> PendingCall {
        let number = Terms::number(self.flow, self.counts.begun);
        let due_ns = self.arrival.due_ns();
        let began_ns = if self.arrival.is_open() { due_ns } else { now_ns };
        let late_ns = now_ns.saturating_sub(due_ns.max(self.free_ns));
        self.arrival.begun();
        self.counts.begun += 1;
        PendingCall { number, began_ns, write_began_ns: now_ns, write_ns: 0, first_byte_ns: 0, late_ns }
    }

    /// A call is complete.
    #[inline]
    pub(super) fn completed(&mut self, now_ns: u64, call: &PendingCall, connect_ns: Option<u64>) {
        self.failures = 0;
        self.counts.completed += 1;
        let times = Times {
            connect_ns,
            write_ns: call.write_ns,
            first_byte_ns: call.first_byte_ns,
            total_ns: now_ns.saturating_sub(call.began_ns),
            late_ns: call.late_ns,
        };
        self.recorder.completed(now_ns, times);
        self.arrival.over(now_ns);
    }

    /// Calls that began at these times failed together.
    #[cold]
    pub(super) fn failed(&mut self, now_ns: u64, began_ns: impl Iterator<Item = u64>, trouble: CallError) {
        self.recorder.with(|record| {
            began_ns.for_each(|began_ns| record.failed(now_ns, began_ns));
            record.trouble(trouble);
        });
        self.arrival.over(now_ns);
    }

    /// The server could not be reached: when to try again; `None`: the flow gives up.
    #[cold]
    #[inline(never)]
    pub(super) fn next_attempt_ns(&mut self, now_ns: u64) -> Option<u64> {
        self.failures += 1;
        if self.failures > RETRIES {
            self.client.gave_up.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.free_ns = now_ns + (RETRY_NS << (self.failures - 1).min(16)).min(RETRY_MAX_NS);
        Some(self.free_ns)
    }

    /// The flow was returned, with outstanding calls that began at these times.
    pub(super) fn finish(mut self, began_ns: impl Iterator<Item = u64>) {
        let began_ns: Vec<u64> = began_ns.collect();
        self.counts.unfinished += began_ns.len() as u64;
        self.counts.overdue = self.arrival.overdue(self.client.open_ns, self.client.close_ns);
        self.recorder.with(|record| {
            began_ns.into_iter().for_each(|began_ns| record.ended_late(began_ns));
            record.add_counts(self.counts);
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn count_until(arrival: &mut Arrival, end_ns: u64) -> u64 {
        let mut calls = 0;
        while arrival.due_ns() < end_ns {
            arrival.begun();
            calls += 1;
        }
        calls
    }

    proptest! {
        #[test]
        fn a_constant_rate_is_kept_to_the_call(rate in 1u64..50_000, flows in 1usize..20, start in 0u64..1 << 50) {
            let offered = Offered { rate, arrivals: Arrivals::Constant, flows };
            let mut all: Vec<Arrival> = (0..flows).map(|flow| Arrival::open(start, offered, flow, 1)).collect();
            prop_assert!(all.iter().all(|arrival| arrival.overdue(start, start + SECOND_NS) > 0) || rate < flows as u64);
            let calls: u64 = all.iter_mut().map(|arrival| count_until(arrival, start + SECOND_NS)).sum();
            prop_assert!(calls.abs_diff(rate) <= 1 + flows as u64 / 10, "{} of {}", calls, rate);
        }

        #[test]
        fn poisson_arrivals_have_their_mean_and_variance(seed in any::<u64>()) {
            let offered = Offered { rate: 10_000, arrivals: Arrivals::Poisson, flows: 1 };
            let mut arrival = Arrival::open(0, offered, 0, seed);
            let counts: Vec<f64> =
                (1..=100).map(|bin| count_until(&mut arrival, bin * SECOND_NS / 100) as f64).collect();
            let mean = counts.iter().sum::<f64>() / 100.0;
            let variance = counts.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / 99.0;
            // A count of 100 a bin: the mean of 100 bins has a standard deviation of 1, and a Poisson count's
            // variance is its mean.
            prop_assert!((mean - 100.0).abs() < 6.0, "{}", mean);
            prop_assert!((0.3..3.0).contains(&(variance / mean)), "{}", variance / mean);
        }
    }

    #[test]
    fn flows_are_staggered() {
        let offered = Offered { rate: 1000, arrivals: Arrivals::Constant, flows: 4 };
        let due: Vec<u64> = (0..4).map(|flow| Arrival::open(0, offered, flow, 1).due_ns()).collect();
        assert_eq!(due, [0, 1_000_000, 2_000_000, 3_000_000]);
        // Clients that pause do not call all at once either.
        let due: Vec<u64> = (0..4).map(|flow| Arrival::closed(5, 1_000, flow, 4).due_ns()).collect();
        assert_eq!(due, [5, 255, 505, 755]);
    }

    #[test]
    fn a_closed_loop_waits_for_its_call() {
        let mut arrival = Arrival::closed(5, 10, 0, 1);
        assert_eq!(arrival.due_ns(), 5);
        arrival.begun();
        arrival.over(100);
        assert_eq!((arrival.due_ns(), arrival.overdue(0, 1000)), (110, 0));
    }

    #[test]
    fn what_never_began_is_counted() {
        let offered = Offered { rate: 1000, arrivals: Arrivals::Constant, flows: 1 };
        let arrival = Arrival::open(0, offered, 0, 1);
        assert_eq!(arrival.overdue(0, SECOND_NS), 1000);
        assert_eq!(arrival.overdue(SECOND_NS / 2, SECOND_NS), 500);
    }
}

#[cfg(test)]
mod pending_tests {
    use super::*;

    fn call(number: u64) -> PendingCall {
        PendingCall { number, began_ns: 0, write_began_ns: 0, write_ns: 0, first_byte_ns: 0, late_ns: 0 }
    }

    #[test]
    fn calls_finish_in_the_order_of_their_beginning() {
        let mut calls = PendingCalls::with_depth(3);
        let mut expected = VecDeque::new();
        for step in [3, 2, 1, 2, 3, 0] {
            while expected.len() < step {
                let number = expected.back().map_or(7, |last| last + 1);
                calls.begin(call(number));
                expected.push_back(number);
                check(&mut calls, &expected);
            }
            while expected.len() > step {
                assert_eq!(calls.finish().map(|call| call.number), expected.pop_front());
                check(&mut calls, &expected);
            }
        }
        assert!(calls.finish().is_none());
    }

    fn check(calls: &mut PendingCalls, expected: &VecDeque<u64>) {
        let number = |call: &PendingCall| call.number;
        assert!(calls.iter().map(number).eq(expected.iter().copied()));
        assert_eq!((calls.len(), calls.is_empty()), (expected.len(), expected.is_empty()));
        assert_eq!(calls.oldest().map(number), expected.front().copied());
        assert_eq!(calls.newest().map(number), expected.back().copied());
        assert_eq!(calls.oldest_mut().map(|call| call.number), expected.front().copied());
        assert_eq!(calls.newest_mut().map(|call| call.number), expected.back().copied());
    }
}
