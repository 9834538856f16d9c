//! The knee of a cell: the highest rate at which calls can be offered and a latency objective is still kept.
//!
//! A search is what a trial is elsewhere: one number of one cell in its block. A closed loop shows how far it can go at
//! most, since no open loop on the same connections completes more; below that, open loops are probed on fresh sockets,
//! timed from the intended send. The search keeps the probe at the knee, so that the cell's rate, times
//! and CPU time are those at the knee, and a line for each other probe. Never judges two probes together.
//! [`measure_loss`] searches for the highest rate at which a share of the datagrams arrives.

use std::sync::atomic::{AtomicBool, Ordering};

use bytegauge_model::slo::PROBE_MAX_NS;
use bytegauge_model::unit::{byte_rate, call_rate};
use bytegauge_model::{
    Arrivals, CallReport, Deaths, EndRole, ErrorPhase, FactorKey, LossShare, Nanos, Outcome, Probe, Slo,
};
use bytegauge_stats::knee::KneeSearch;
use bytegauge_traffic::call::DecodedHistogram;
use bytegauge_traffic::{EndPool, Setup};

use crate::trial::{self, TrialResult};

/// Share of the offered calls that must be completed within the window.
const COMPLETED_SHARE: f64 = 0.99;

/// Searches once. `None` if `stop` was set meanwhile.
pub(crate) fn measure(pool: &mut EndPool, setup: &Setup, slo: &Slo, stop: &AtomicBool) -> Option<TrialResult> {
    let closed = trial::measure(pool, setup, stop)?;
    if closed.outcome != Outcome::Measured {
        return Some(closed);
    }
    let ceiling = report(&closed).map_or(0.0, per_second);
    let mut probes: Vec<Probe> = report(&closed).map(|report| probe(report, None, slo)).into_iter().collect();
    let step = |offered| step(setup, FactorKey::call_rate, offered, slo.probe_ns(setup.window_ns, offered as f64));
    let longest_ns = PROBE_MAX_NS.max(setup.window_ns);
    let found = search(ceiling, longest_ns, stop, step, |offered, step| {
        let measured = trial::measure(pool, step, stop)?;
        let seen = report(&measured).map(|report| judged(report, offered, step, slo));
        let has_result = measured.outcome == Outcome::Measured || seen.as_ref().is_some_and(just_nothing);
        probes.extend(seen.clone());
        Some((measured, has_result.then(|| seen.is_some_and(|probe| probe.kept))))
    })?;
    let mut result = match found {
        Ok(measured) => measured,
        Err(Nothing { last, too_long_at }) => {
            let why = match too_long_at {
                Some(offered) => too_slow(slo, longest_ns, offered, ceiling),
                None => nothing_keeps(slo, &probes, ceiling),
            };
            TrialResult { outcome: Outcome::Failed(why), ..last.unwrap_or(closed) }
        }
    };
    if let Some(report) = result.ends.get_mut(EndRole::Client).and_then(|client| client.call.as_mut()) {
        report.search = probes;
    }
    Some(result)
}

/// No rate kept the objective: the last probe, and the rate at which one would have taken too long.
struct Nothing {
    last: Option<TrialResult>,
    too_long_at: Option<u64>,
}

/// Probes rates below `ceiling`, none for longer than `longest_ns`, until the highest is found that keeps an objective. `step` is the
/// trial at a rate; `probe` measures it and reports whether it kept the objective, or nothing if it failed. The result is the probe at
/// the highest rate that kept it, or one that failed. `None` if `stop` was set, or a probe was stopped.
fn search(
    ceiling: f64,
    longest_ns: u64,
    stop: &AtomicBool,
    step: impl Fn(u64) -> Setup,
    mut probe: impl FnMut(u64, &Setup) -> Option<(TrialResult, Option<bool>)>,
) -> Option<Result<TrialResult, Nothing>> {
    let mut search = KneeSearch::below(ceiling);
    let (mut best, mut last, mut too_long_at) = (None, None, None);
    while let Some(rate) = search.next_rate() {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let offered = (rate.round() as u64).max(1);
        let step = step(offered);
        if step.window_ns > longest_ns {
            too_long_at = Some(offered);
            break;
        }
        let (measured, kept) = probe(offered, &step)?;
        let Some(kept) = kept.filter(|_| measured.ends_are_sound) else { return Some(Ok(measured)) };
        search.record(rate, kept);
        *(if kept { &mut best } else { &mut last }) = Some(measured);
    }
    Some(best.ok_or(Nothing { last, too_long_at }))
}

/// The same path with a load offered at a rate, for as long as the objective needs. The first measurement has shown that the
/// engines run in their modes; at a low rate, where no two requests wait at once, none of them can.
fn step(setup: &Setup, key: FactorKey, offered: u64, window_ns: u64) -> Setup {
    let mut step = setup.clone();
    step.window_ns = window_ns;
    step.spec.put(key, offered);
    step.modes_are_shown = true;
    step
}

/// A probe of an offered rate, and whether it kept the objective.
fn judged(report: &CallReport, offered: u64, step: &Setup, slo: &Slo) -> Probe {
    let probe = probe(report, Some(offered), slo);
    // A call that failed counts as too slow.
    let all = probe.calls.max(1) as f64 + lost(report) as f64;
    let in_time = all - probe.late as f64 >= slo.share * all;
    let kept = probe.calls >= slo.calls_min() && in_time && keeps_up(&probe, step.arrivals(), slo);
    Probe { kept, ..probe }
}

/// Whether nearly all offered calls were completed; else the client, or the server, cannot keep up, and the percentile is
/// that of a growing queue. A call that was due in the window's last moments may be completed after it, within
/// its limit.
fn keeps_up(probe: &Probe, arrivals: Arrivals, slo: &Slo) -> bool {
    let due = probe.due_min(arrivals);
    probe.unanswered(arrivals, slo.limit_ns) == 0.0 || probe.calls as f64 >= COMPLETED_SHARE * due
}

/// The result of one probe, from the client's report.
fn probe(report: &CallReport, offered: Option<u64>, slo: &Slo) -> Probe {
    let times = report.total.as_ref().and_then(DecodedHistogram::decode);
    Probe {
        offered,
        window_ns: report.window_ns,
        calls: report.calls,
        late: times.as_ref().map_or(0, |times| times.longer_than(slo.limit_ns)) + lost(report),
        percentile_ns: times.filter(|times| times.count() >= slo.calls_min()).map(|times| times.at(slo.share)),
        kept: false,
    }
}

/// Calls that failed; a connection lost between two calls counts as none.
fn lost(report: &CallReport) -> u64 {
    report.errors.iter().filter(|error| error.phase != ErrorPhase::Idle).map(|error| error.count).sum()
}

/// Whether a probe had no result because every call was too slow for its window: the rate is lost, but there is
/// no error.
fn just_nothing(probe: &Probe) -> bool {
    probe.calls == 0 && probe.late == 0
}

fn report(measured: &TrialResult) -> Option<&CallReport> {
    measured.end(EndRole::Client)?.call.as_deref()
}

fn per_second(report: &CallReport) -> f64 {
    if report.window_ns > 0 { report.calls as f64 * 1e9 / report.window_ns as f64 } else { 0.0 }
}

fn too_slow(slo: &Slo, longest_ns: u64, offered: u64, ceiling: f64) -> String {
    format!(
        "{} needs {} calls, which take longer than {} at {}, the next rate to try (clients that wait for each reply reach \
         {}): use a lower percentile, or allow more time, in --slo",
        slo.percentile,
        slo.calls_min(),
        Nanos(longest_ns),
        call_rate(offered as f64),
        call_rate(ceiling)
    )
}

/// `p99 was 4 ms even at 250 calls/s (clients that wait for each reply reach 1 k calls/s)`.
fn nothing_keeps(slo: &Slo, probes: &[Probe], ceiling: f64) -> String {
    let open = || probes.iter().filter_map(|probe| Some((probe.offered?, probe.percentile_ns)));
    let lowest = open().map(|(offered, _)| offered).min().unwrap_or(0);
    // The quietest of the probes at the lowest rate gives the smallest useful limit.
    let there = open().filter(|(offered, _)| *offered == lowest).filter_map(|(_, ns)| ns).min();
    let what = match there.filter(|ns| *ns > slo.limit_ns) {
        Some(ns) => format!("{} was {}", slo.percentile, Nanos(ns)),
        None => "calls were unanswered".into(),
    };
    format!(
        "{what} even at {} (clients that wait for each reply reach {})",
        call_rate(lowest as f64),
        call_rate(ceiling)
    )
}

// The highest rate of datagrams at which at most a share of them is lost.
//
// The first measurement sends as fast as the sender can; if that loses too much, lower rates are probed on fresh sockets. The
// probe at the highest rate that loses no more is the result. Never adds the losses of two probes.

/// Searches once. `None` if `stop` was set meanwhile.
pub(crate) fn measure_loss(
    pool: &mut EndPool,
    setup: &Setup,
    limit: LossShare,
    stop: &AtomicBool,
) -> Option<TrialResult> {
    let fastest = trial::measure(pool, setup, stop)?;
    let Some((bytes_per_second, datagrams_per_second)) = sent(&fastest) else { return Some(fastest) };
    if fastest.outcome != Outcome::Measured || !fastest.ends_are_sound || keeps(&fastest, limit) {
        return Some(fastest);
    }
    let step = |offered| {
        let window_ns = limit.probe_ns(setup.window_ns, datagrams_per_second * offered as f64 / bytes_per_second);
        step(setup, FactorKey::rate, offered, window_ns)
    };
    let longest_ns = PROBE_MAX_NS.max(setup.window_ns);
    let found = search(bytes_per_second, longest_ns, stop, step, |_, step| {
        let measured = trial::measure(pool, step, stop)?;
        let kept = (measured.outcome == Outcome::Measured).then(|| keeps(&measured, limit));
        Some((measured, kept))
    })?;
    Some(match found {
        Ok(measured) => measured,
        Err(Nothing { last: None, too_long_at: Some(rate) }) => {
            let why = format!(
                "a share of {limit} cannot be seen within {} at {}: allow more in --max-loss",
                Nanos(longest_ns),
                byte_rate(rate as f64)
            );
            TrialResult { outcome: Outcome::Failed(why), ..fastest }
        }
        Err(Nothing { last, .. }) => {
            let last = last.unwrap_or(fastest);
            let at = sent(&last).map_or(0.0, |(bytes, _)| bytes);
            let why = format!(
                "even {} lose more than {limit} of the datagrams (as fast as possible, {} are sent): allow more in --max-loss, \
                 or use a larger --rcvbuf",
                byte_rate(at),
                byte_rate(bytes_per_second)
            );
            TrialResult { outcome: Outcome::Failed(why), ..last }
        }
    })
}

/// Bytes and datagrams that the source sent per second of its window.
fn sent(measured: &TrialResult) -> Option<(f64, f64)> {
    let source = measured.end(EndRole::Source).filter(|source| source.window_ns > 0)?;
    let seconds = source.window_ns as f64 / 1e9;
    Some((source.bytes as f64 / seconds, source.datagrams.as_ref()?.datagrams as f64 / seconds))
}

/// Whether no more than the share was lost.
fn keeps(measured: &TrialResult, limit: LossShare) -> bool {
    let counted = |role| measured.end(role)?.datagrams.as_deref();
    let Some((source, sink)) = counted(EndRole::Source).zip(counted(EndRole::Sink)) else { return false };
    is_within(Deaths::of(source, sink).lost, source.total, limit)
}

fn is_within(lost: u64, sent: u64, limit: LossShare) -> bool {
    u128::from(lost) * 1_000_000 <= u128::from(sent) * u128::from(limit.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slo() -> Slo {
        "p99=2ms".parse().unwrap()
    }

    fn check(calls: u64, offered: u64, arrivals: Arrivals, expected: bool) {
        let probe = Probe { offered: Some(offered), calls, window_ns: 1_000_000_000, ..Probe::default() };
        assert_eq!(keeps_up(&probe, arrivals, &slo()), expected, "{calls} of {offered}");
    }

    #[test]
    fn an_offered_rate_must_be_completed() {
        check(10_000, 10_000, Arrivals::Constant, true);
        check(9_900, 10_000, Arrivals::Constant, true);
        check(9_800, 10_000, Arrivals::Constant, false);
        check(19, 20, Arrivals::Constant, true);
        check(9_700, 10_000, Arrivals::Poisson, true);
        check(9_500, 10_000, Arrivals::Poisson, false);
    }

    #[test]
    fn an_impossible_limit_shows_the_reached_percentile() {
        let probe = |offered, percentile_ns| Probe { offered, percentile_ns, ..Probe::default() };
        let probes = [
            probe(None, Some(1)),
            probe(Some(500), Some(9)),
            probe(Some(250), Some(4_000_000)),
            probe(Some(250), None),
        ];
        let shown = |probes: &[Probe]| nothing_keeps(&slo(), probes, 1000.0);
        assert_eq!(
            shown(&probes),
            "p99 was 4 ms even at 250 calls/s (clients that wait for each reply reach 1 k calls/s)"
        );
        let in_time = [probe(Some(250), Some(1_000_000))];
        assert_eq!(
            shown(&in_time),
            "calls were unanswered even at 250 calls/s (clients that wait for each reply reach 1 k calls/s)"
        );
    }
}

#[cfg(test)]
mod loss_tests {
    use super::*;

    #[test]
    fn the_limit_itself_is_kept() {
        for (lost, sent, limit, expected) in
            [(0, 10, 0, true), (1, 1000, 1000, true), (2, 1000, 1000, false), (1, u64::MAX, 0, false)]
        {
            assert_eq!(is_within(lost, sent, LossShare(limit)), expected, "{lost} of {sent}");
        }
    }
}
