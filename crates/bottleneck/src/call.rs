//! The limits that calls alone have: errors, an objective, delayed acknowledgements.

use bytegauge_model::unit::{Nanos, call_rate};

use super::path::PathSigns;
use super::{Evidence, evidence, percent};

/// Calls that take as long as the timer of a delayed acknowledgement, which expired as often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waits {
    /// Their share of all calls.
    pub slow_share: f64,
    /// Their share of the time of all calls.
    pub time_share: f64,
    /// Acknowledgements sent because the timer expired.
    pub acks: u64,
}

/// A latency objective at its knee and beyond.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    /// Its percentile: `p99`.
    pub percentile: &'static str,
    /// The limit, nanoseconds.
    pub limit_ns: u64,
    /// Its value at the knee, nanoseconds.
    pub at_knee_ns: f64,
    /// The lowest rate that exceeds it, calls per second.
    pub beyond_per_second: f64,
    /// Its value there, nanoseconds; `None` if too few calls were completed.
    pub at_beyond_ns: Option<f64>,
    /// The rate of a closed loop on the same connections, calls per second.
    pub closed_per_second: f64,
}

/// The limit of a client that waits for acknowledgements.
pub const DELAYED_ACKS: &str = "delayed acknowledgements";

/// From this share on calls consist mainly of waiting.
const WAITING_SHARE: f64 = 0.5;

/// A failed call takes a flow's time and answers nothing: beyond this share the rate is that of failures.
const FAILED_SHARE: f64 = 0.05;

pub(super) fn backlog(signs: &PathSigns) -> Option<Evidence> {
    let share = signs.not_accepted_share.filter(|share| *share >= FAILED_SHARE)?;
    let overflows = signs.listen_overflows.map(|times| ("listen_overflows", times as f64));
    let sentence = format!("{} of the calls found no place in the server's backlog", percent(share));
    Some(evidence(sentence, [("not_accepted_share", share)].into_iter().chain(overflows)))
}

pub(super) fn errors(signs: &PathSigns) -> Option<Evidence> {
    let share = signs.failed_share.filter(|share| *share >= FAILED_SHARE)?;
    let sentence = format!("{} of the calls failed: the rate is that of failing", percent(share));
    Some(evidence(sentence, [("failed_share", share)]))
}

/// Beyond the knee the limit is exceeded; the maximum of a closed loop shows which CPU is full by then.
pub(super) fn latency_objective(signs: &PathSigns) -> Option<Evidence> {
    let Objective { percentile, limit_ns, at_knee_ns, beyond_per_second, at_beyond_ns, closed_per_second } =
        signs.objective?;
    let time = |ns: f64| Nanos(ns as u64);
    let beyond = match at_beyond_ns.filter(|ns| *ns > limit_ns as f64) {
        Some(ns) => format!("it is {} at {}", time(ns), call_rate(beyond_per_second)),
        None => format!("of {} not all are completed in time", call_rate(beyond_per_second)),
    };
    let at_beyond = at_beyond_ns.map(|ns| ("at_beyond_ns", ns));
    let sentence = format!(
        "{percentile} is {} of the {} allowed, and {beyond}; clients that wait for each reply reach {}",
        time(at_knee_ns),
        Nanos(limit_ns),
        call_rate(closed_per_second)
    );
    let rates = [("beyond_calls_per_s", beyond_per_second), ("closed_calls_per_s", closed_per_second)];
    let times = [("limit_ns", limit_ns as f64), ("at_knee_ns", at_knee_ns)];
    Some(evidence(sentence, times.into_iter().chain(at_beyond).chain(rates)))
}

/// Nagle's algorithm (RFC 9293, 3.7.4) delays a small write while data is unacknowledged, and the receiver, which has nothing
/// to send before the request is whole, delays the acknowledgement (RFC 9293, 3.8.6.3).
pub(super) fn delayed_acknowledgements(signs: &PathSigns) -> Option<Evidence> {
    let waits = signs.waits.filter(|waits| waits.time_share >= WAITING_SHARE)?;
    Some(evidence(
        format!(
            "{} of the clients' time goes into calls of 40 ms and more, as long as an acknowledgement may be delayed, and \
             {} were: Nagle's algorithm holds the rest of a message back until it comes",
            percent(waits.time_share),
            waits.acks
        ),
        [("slow_time_share", waits.time_share), ("slow_share", waits.slow_share), ("delayed_acks", waits.acks as f64)],
    ))
}
