//! The calls of a cell in addition to their rate: failures and their causes, the threads of a server, competing clients.
//!
//! Sums over the trials behind the estimate; where every trial failed, over those. Errors are counted over a client's whole life, so they are shares of
//! the calls begun, not of the calls that the rate counts.

use std::collections::BTreeMap;

use bytegauge_bottleneck::call_errors as errors;
use bytegauge_bottleneck::path::{DelayedAcks, Objective};
use bytegauge_model::slo::Search;
use bytegauge_model::{CallError, CallReport, CellKind, EndRole, ErrorClass, ErrorPhase, Place, Probe, Spec, Trial};
use bytegauge_stats::call_percentiles::{outlasting, p99, together};
use bytegauge_stats::call_times::TimeDistribution;
use bytegauge_stats::knee::overall_rate;
use bytegauge_stats::quantile::{median, moments};
use bytegauge_stats::trial_counts::ratio;

use super::counted_trials::Settled;
use super::counters::call_datagrams;
use super::numbers::{
    CallView, CellOutcome, CellView, CompetingView, Counters, ErrorView, KneeView, ProbeView, WorkersView,
};

/// The time of a call in a closed loop: a client that waits for a stalled server does not call meanwhile.
pub const CLOSED: &str = "service time (closed loop)";
/// The time of a call in an open loop.
pub const OPEN: &str = "from the intended send (open loop)";

/// The calls of a cell; `None` where no end reported any.
pub fn calls(settled: &Settled) -> Option<CallView> {
    let levels = &settled.cell.factors;
    let reports: Vec<&CallReport> = settled.tried().iter().filter_map(|trial| trial.client()).collect();
    if reports.is_empty() {
        return None;
    }
    let sum = |read: fn(&CallReport) -> u64| reports.iter().map(|report| read(report)).fold(0, u64::saturating_add);
    let all = together(&reports);
    let errors = errors_of(&reports, settled);
    let failed = errors.iter().map(|error| error.count).fold(0, u64::saturating_add);
    let begun = sum(|report| report.begun);
    Some(CallView {
        timing: if levels.offered_rate().is_some() || levels.slo().is_some() { OPEN } else { CLOSED },
        offered_per_second: levels.call_rate().map(|rate| rate as f64),
        knee: knee(settled),
        calls: sum(|report| report.calls),
        begun,
        completed: sum(|report| report.completed),
        overdue: sum(|report| report.overdue),
        failed,
        failed_share: ratio(failed, begun.max(failed)),
        outlasting_share: outlasting(&all).filter(|_| !settled.trials.is_empty()),
        p99_all_ns: p99(&all),
        errors,
        workers: workers(settled),
        competing: competing(settled),
        delayed_acks: delayed_acks(settled),
        datagrams: call_datagrams(settled),
    })
}

/// The shortest time that TCP delays an acknowledgement on Linux: `TCP_DELACK_MIN`, a 25th of a second (net/tcp.h).
/// The timer's own grain makes some a little shorter.
const DELAYED_ACK_MIN_NS: u64 = 39_000_000;

/// Delayed acknowledgements, and the calls that are as long as their timer; `None` where none were counted, or no
/// write can wait for one.
fn delayed_acks(settled: &Settled) -> Option<DelayedAcks> {
    // Ends whose writes never follow each other before the peer replies wait for nothing but the peer.
    let levels = &settled.cell.factors;
    let pieces = levels.request_chunk().is_some() || levels.response_parts().is_some() || levels.depth() > Some(1);
    let acks: u64 = settled.trials.iter().filter_map(|trial| trial.machine.as_ref()?.delayed_acks.get()).sum();
    // Pauses within a reply are as long.
    let pauses = levels.response_gap().is_some_and(|ns| ns > 0);
    if acks == 0 || !pieces || pauses {
        return None;
    }
    let mut times = TimeDistribution::default();
    let totals = settled.trials.iter().filter_map(|trial| trial.client()?.total.as_ref());
    totals.filter_map(TimeDistribution::decode).for_each(|trial| times.add(&trial));
    let (slow_calls, slow_share, slow_time_share) = times.at_least(DELAYED_ACK_MIN_NS)?;
    Some(DelayedAcks { acks, slow_calls, slow_share, slow_time_share })
}

/// The same where it can have been Nagle's algorithm that made a client wait: it was on at an end, a closed loop tells how
/// long a call took, and as many acknowledgements were delayed as there were slow calls, give or take half of them.
pub fn waiting(call: &CallView, counters: &Counters) -> Option<DelayedAcks> {
    let nodelay = counters.options.get("nodelay")?;
    let nagle = [&nodelay.source, &nodelay.sink].contains(&&serde_json::Value::Bool(false));
    let closed = call.timing == CLOSED && call.knee.is_none();
    call.delayed_acks.filter(|seen| nagle && closed && 2 * seen.acks >= seen.slow_calls)
}

/// Mean and standard deviation of a sample; the latter needs two values.
pub fn mean_and_sd(values: &[f64]) -> (Option<f64>, Option<f64>) {
    let (mean, variance) = moments(values);
    ((!values.is_empty()).then_some(mean), (values.len() > 1).then(|| variance.sqrt()))
}

/// Errors of one class and phase together, the most frequent first.
fn errors_of(reports: &[&CallReport], settled: &Settled) -> Vec<ErrorView> {
    let mut sums: BTreeMap<(ErrorClass, ErrorPhase), CallError> = BTreeMap::new();
    for error in reports.iter().flat_map(|report| &report.errors) {
        sums.entry((error.class, error.phase)).and_modify(|sum| sum.add(error)).or_insert(*error);
    }
    let overflows = listen_overflows(settled);
    let explained = |error: CallError| {
        let CallError { class, phase, count, request_bytes_lost, reply_bytes_missing } = error;
        let explanation = errors::explain(&error, &settled.cell.factors, overflows);
        ErrorView { class, phase, count, request_bytes_lost, reply_bytes_missing, explanation }
    };
    let mut views: Vec<ErrorView> = sums.into_values().map(explained).collect();
    views.sort_by_key(|view| std::cmp::Reverse(view.count));
    views
}

/// How evenly the threads of the server shared the calls. A server reports a row for each thread, before those of sampled connections.
fn workers(settled: &Settled) -> Option<WorkersView> {
    let threads = settled.cell.factors.server_threads().filter(|threads| *threads > 1)?;
    let of_trial = |trial: &&Trial| {
        let server = trial.end(EndRole::Server)?;
        let calls = || server.flows.iter().take(threads as usize).map(|row| row.calls);
        Some((ratio(calls().min()?, server.calls)?, ratio(calls().max()?, server.calls)?))
    };
    let (least, most): (Vec<f64>, Vec<f64>) = settled.trials.iter().filter_map(of_trial).unzip();
    // A few connections cannot be shared evenly.
    let flows = settled.cell.factors.flows().filter(|_| settled.cell.factors.connect_per_call() != Some(true));
    let fair_share = flows.map_or(1.0 / threads as f64, |flows| flows.div_ceil(threads) as f64 / flows.max(1) as f64);
    Some(WorkersView { threads, fair_share, least_share: median(&least)?, most_share: median(&most)? })
}

fn competing(settled: &Settled) -> Option<CompetingView> {
    let trials = settled.trials.iter();
    let reports: Vec<&CallReport> =
        trials.filter_map(|trial| trial.end(EndRole::Competitor)?.call.as_deref()).collect();
    let rates = reports.iter().filter_map(|report| Some(ratio(report.calls, report.window_ns)? * 1e9));
    let calls_per_second = median(&rates.collect::<Vec<_>>());
    let errors = errors_of(&reports, settled);
    let failed = errors.iter().map(|error| error.count).fold(0, u64::saturating_add);
    (!reports.is_empty()).then_some(CompetingView { calls_per_second, failed, errors })
}

// Connections for which the server's backlog had no room: how many they were, and how that is known.
//
// With a Unix socket connect(2) reports it. A TCP client meets silence, as with a filter or a dead host, so only the counters that
// the kernel counted meanwhile tells them apart. Never takes a refusal or a reset for a full backlog.

/// Times that a listener's queue was full during the trials of a cell: by the counts of the server's own listeners, or for
/// another server on this machine by that of the whole network namespace. `None` where neither was counted.
pub fn listen_overflows(settled: &Settled) -> Option<u64> {
    let counts = settled.trials.iter().filter_map(|trial| overflows(&settled.cell.factors, trial));
    counts.reduce(u64::saturating_add)
}

fn overflows(levels: &Spec, trial: &Trial) -> Option<u64> {
    let own = trial.end(EndRole::Server).and_then(|server| server.call.as_ref()?.listen_drops);
    own.or_else(|| trial.machine.as_ref()?.listen_overflows.get().filter(|_| listens_here(levels)))
}

fn listens_here(levels: &Spec) -> bool {
    match levels.connect() {
        None => true,
        Some(Place::Ip(address)) => address.ip().is_loopback(),
        Some(Place::Named { .. } | Place::Path(_) | Place::Iperf3(_)) => false,
    }
}

/// Calls that failed because the backlog had no room. Every one of TCP needs an overflow of its own.
pub fn not_accepted(errors: &[ErrorView], listen_overflows: Option<u64>) -> u64 {
    let sum = |is: fn(&ErrorView) -> bool| {
        errors.iter().filter(|error| is(error)).map(|error| error.count).fold(0, u64::saturating_add)
    };
    let reported = sum(|error| error.class == ErrorClass::BacklogFull);
    let silent = sum(|error| error.class == ErrorClass::TimedOut && error.phase == ErrorPhase::Connect);
    reported.saturating_add(silent.min(listen_overflows.unwrap_or(0)))
}

// The highest rate at which calls keep a latency objective: the cell's knees over the trials, and the rates beyond them.
//
// Each trial is a search of its own, and the cell's rate is the median over them: about half of the searches fail there, so it is
// not the rate to plan with. What follows are the other results of the searches, with the rate that keeps the objective over all of
// them together at most.

/// The knee of a cell; `None` without a search.
fn knee(settled: &Settled) -> Option<KneeView> {
    let slo = settled.cell.factors.slo()?;
    let searches: Vec<&[Probe]> = settled.tried().iter().filter_map(|trial| search(trial)).collect();
    let found: Vec<Search> = searches.iter().filter_map(|probes| Search::of(probes)).collect();
    let middle = |read: &dyn Fn(&Search) -> Option<f64>| {
        median(&found.iter().filter_map(read).filter(|value| value.is_finite()).collect::<Vec<_>>())
    };
    let rate = median(&settled.trials.iter().filter_map(|trial| trial.rate()).collect::<Vec<_>>());
    // Medians of different searches may be out of order: a failure below the rate is ignored.
    let beyond =
        middle(&|search| Some(search.beyond?.offered? as f64)).filter(|lost| rate.is_none_or(|kept| *lost > kept));
    let arrivals = settled.cell.factors.arrivals().unwrap_or_default();
    Some(KneeView {
        slo: slo.to_string(),
        overall_per_second: overall_rate(all_searches(settled), &slo, arrivals),
        searches: all_searches(settled).count(),
        objective: Objective {
            percentile: slo.percentile,
            limit_ns: slo.limit_ns,
            at_knee_ns: middle(&|search| Some(search.knee.percentile_ns? as f64)),
            beyond_per_second: beyond,
            at_beyond_ns: middle(&|search| Some(search.beyond?.percentile_ns? as f64)).filter(|_| beyond.is_some()),
            closed_per_second: middle(&|search| Some(search.closed.completed_per_second())),
        },
        probes: kept_probes(&searches),
    })
}

/// All searches of a cell, those that found no rate included.
fn all_searches<'a>(settled: &Settled<'a>) -> impl Iterator<Item = &'a [Probe]> {
    settled.measured.iter().chain(&settled.failed).filter_map(|trial| search(trial))
}

/// The lowest percentile of an option that kept its objective at no rate, nanoseconds, and its searches. `None` where it was within
/// the limit: then calls were unanswered.
pub fn missed(cell: &CellView) -> Option<(u64, &KneeView)> {
    let knee = cell.call.as_ref()?.knee.as_ref()?;
    // A search that kept a rate broke off for another reason.
    let is_missed = cell.outcome == CellOutcome::Failed && knee.probes.iter().all(|probe| !probe.kept);
    let lowest =
        knee.probes.iter().filter_map(|probe| probe.percentile_ns).min().filter(|ns| *ns > knee.objective.limit_ns);
    Some((lowest.filter(|_| is_missed && cell.kind == CellKind::Candidate)?, knee))
}

/// The least of several options.
pub fn lowest_missed<'a>(cells: impl Iterator<Item = &'a CellView>) -> Option<(u64, &'a KneeView)> {
    cells.filter_map(missed).min_by_key(|(ns, _)| *ns)
}

fn search(trial: &Trial) -> Option<&[Probe]> {
    let probes = &trial.client()?.search;
    (!probes.is_empty()).then_some(probes)
}

/// Most probes in a figure.
const PROBES_MAX: usize = 150;

/// The probes of whole searches, as many as can be drawn, by their rates.
fn kept_probes(searches: &[&[Probe]]) -> Vec<ProbeView> {
    let mut kept: Vec<ProbeView> = Vec::new();
    for (search, probes) in searches.iter().enumerate() {
        if kept.len() + probes.len() > PROBES_MAX {
            break;
        }
        kept.extend(probes.iter().filter_map(|probe| {
            let (offered_per_second, percentile_ns, kept) = (probe.offered?, probe.percentile_ns, probe.kept);
            Some(ProbeView { search, offered_per_second, percentile_ns, kept })
        }));
    }
    kept.sort_by_key(|probe| (probe.offered_per_second, probe.search));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(class: ErrorClass, phase: ErrorPhase, count: u64) -> ErrorView {
        ErrorView { class, phase, count, request_bytes_lost: 0, reply_bytes_missing: 0, explanation: String::new() }
    }

    #[test]
    fn only_datagrams_without_room_are_counted() {
        let check = |class, phase, overflows, expected| {
            assert_eq!(
                not_accepted(&[view(class, phase, 10)], overflows),
                expected,
                "{class:?} {phase:?} {overflows:?}"
            );
        };
        check(ErrorClass::BacklogFull, ErrorPhase::Connect, None, 10);
        check(ErrorClass::TimedOut, ErrorPhase::Connect, Some(30), 10);
        check(ErrorClass::TimedOut, ErrorPhase::Connect, Some(4), 4);
        check(ErrorClass::TimedOut, ErrorPhase::Connect, Some(0), 0);
        check(ErrorClass::TimedOut, ErrorPhase::Connect, None, 0);
        check(ErrorClass::TimedOut, ErrorPhase::FirstByte, Some(30), 0);
        check(ErrorClass::Refused, ErrorPhase::Connect, Some(30), 0);
        check(ErrorClass::Reset, ErrorPhase::Connect, Some(30), 0);
    }

    #[test]
    fn a_server_elsewhere_counts_for_itself() {
        let at = |place: &str| listens_here(&Spec::from([("connect", place.into())]));
        assert!(listens_here(&Spec::default()) && at("127.0.0.1:7000") && at("[::1]:7000"));
        assert!(!at("192.0.2.7:7000") && !at("far.example:7000"));
    }
}
