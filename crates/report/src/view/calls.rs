//! The calls of a cell in addition to their rate: failures and their causes, the work of engines, competing clients.
//!
//! Sums over the trials behind the estimate; where every trial failed, over those. Errors are counted over a client's whole life, so they are shares of
//! the calls begun, not of the calls that the rate counts.

use std::collections::BTreeMap;

use bytegauge_bottleneck::call_errors as errors;
use bytegauge_bottleneck::call_errors::Circumstances;
use bytegauge_model::{
    CallError, CallReport, CellKind, EndReport, EndRole, EngineReport, ErrorClass, ErrorPhase, Trial,
};
use bytegauge_stats::call_percentiles::{outlasting, p99, together};
use bytegauge_stats::call_times::TimeDistribution;
use bytegauge_stats::quantile::median;
use bytegauge_stats::trial_counts::ratio;

use super::counted_trials::Settled;
use super::counters::call_datagrams;
use super::knee::knee;
use super::listener_queue::listen_overflows;
use super::numbers::{
    CallView, CellView, CompetingView, Counters, DelayedAcksView, EngineView, ErrorView, LateFinding, LatenessView,
    WorkersView,
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
        lateness: lateness(settled),
        errors,
        server_engine: server_engine(settled),
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
fn delayed_acks(settled: &Settled) -> Option<DelayedAcksView> {
    // Ends whose writes never follow each other before the peer replies wait for nothing but the peer.
    let levels = &settled.cell.factors;
    let pieces = levels.request_chunk().is_some() || levels.response_parts().is_some() || levels.depth() > Some(1);
    let acks: u64 = settled.trials.iter().filter_map(|trial| trial.machine.as_ref()?.delayed_acks.get()).sum();
    if acks == 0 || !pieces {
        return None;
    }
    let mut times = TimeDistribution::default();
    let totals = settled.trials.iter().filter_map(|trial| trial.client()?.total.as_ref());
    totals.filter_map(TimeDistribution::decode).for_each(|trial| times.add(&trial));
    let (slow_calls, slow_share, slow_time_share) = times.at_least(DELAYED_ACK_MIN_NS)?;
    Some(DelayedAcksView { acks, slow_calls, slow_share, slow_time_share })
}

/// The same where it can have been Nagle's algorithm that made a client wait: it was on at an end, a closed loop tells how
/// long a call took, and as many acknowledgements were delayed as there were slow calls, give or take half of them.
pub fn waiting(call: &CallView, counters: &Counters) -> Option<DelayedAcksView> {
    let nodelay = counters.options.get("nodelay")?;
    let nagle = [&nodelay.source, &nodelay.sink].contains(&&serde_json::Value::Bool(false));
    let closed = call.timing == CLOSED && call.knee.is_none();
    call.delayed_acks.filter(|seen| nagle && closed && 2 * seen.acks >= seen.slow_calls)
}

/// Mean and standard deviation of a sample; the latter needs two values.
pub fn mean_and_sd(values: &[f64]) -> (Option<f64>, Option<f64>) {
    let n = values.len() as f64;
    if values.is_empty() {
        return (None, None);
    }
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (Some(mean), (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt()))
}

/// Errors of one class and phase together, the most frequent first.
fn errors_of(reports: &[&CallReport], settled: &Settled) -> Vec<ErrorView> {
    let mut sums: BTreeMap<(ErrorClass, ErrorPhase), CallError> = BTreeMap::new();
    for error in reports.iter().flat_map(|report| &report.errors) {
        sums.entry((error.class, error.phase)).and_modify(|sum| sum.add(error)).or_insert(*error);
    }
    let circumstances = Circumstances::of(&settled.cell.factors, listen_overflows(settled));
    let explained = |error: CallError| {
        let CallError { class, phase, count, request_bytes_lost, reply_bytes_missing } = error;
        let explanation = errors::explain(&error, &circumstances);
        ErrorView { class, phase, count, request_bytes_lost, reply_bytes_missing, explanation }
    };
    let mut views: Vec<ErrorView> = sums.into_values().map(explained).collect();
    views.sort_by_key(|view| std::cmp::Reverse(view.count));
    views
}

/// The work of the server's engine over the trials: the evidence that a requested mode ran.
fn server_engine(settled: &Settled) -> Option<EngineView> {
    let ends: Vec<&EndReport> = settled.trials.iter().filter_map(|trial| trial.end(EndRole::Server)).collect();
    let reports: Vec<&EngineReport> = ends.iter().filter_map(|end| end.engine.as_deref()).collect();
    if reports.is_empty() {
        return None;
    }
    let sum = |read: fn(&EngineReport) -> u64| reports.iter().map(|report| read(report)).fold(0, u64::saturating_add);
    let most = |read: fn(&EngineReport) -> u64| reports.iter().map(|report| read(report)).max().unwrap_or(0);
    let completions = sum(|report| report.completions);
    let zero_copy = sum(|report| report.zero_copy);
    let buffer_bytes = most(|report| report.buffer_bytes);
    let kernel_ns: Option<u64> = reports.iter().map(|report| report.kernel_threads_ns).sum();
    let life_ns: u64 = ends.iter().map(|end| life_ns(end)).fold(0, u64::saturating_add);
    Some(EngineView {
        accepted_at_once: most(|report| report.accepted_at_once),
        datagrams_at_once: most(|report| report.received_at_once.max(report.sent_at_once)),
        multishot_share: ratio(sum(|report| report.multishot), completions),
        bundled_share: ratio(sum(|report| report.bundled), completions),
        out_of_buffers: sum(|report| report.out_of_buffers),
        zero_copy_sends: zero_copy,
        zero_copy_copied_share: ratio(sum(|report| report.zero_copy_copied), zero_copy),
        kernel_threads_cpus: kernel_ns.and_then(|ns| ratio(ns, life_ns)),
        buffer_bytes: (buffer_bytes > 0).then_some(buffer_bytes),
        copied_bytes: (buffer_bytes > 0).then(|| sum(|report| report.copied_bytes)),
    })
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

/// How long an end was at work: its window, stretched by the bytes that it moved outside it.
fn life_ns(end: &EndReport) -> u64 {
    (end.window_ns as f64 / end.window_share().max(f64::MIN_POSITIVE)).min(u64::MAX as f64) as u64
}

fn competing(settled: &Settled) -> Option<CompetingView> {
    let trials = settled.trials.iter();
    let reports: Vec<&CallReport> =
        trials.filter_map(|trial| trial.end(EndRole::Competitor)?.call.as_deref()).collect();
    if reports.is_empty() {
        return None;
    }
    let rates: Vec<f64> =
        reports.iter().filter_map(|report| ratio(report.calls, report.window_ns)).map(|rate| rate * 1e9).collect();
    let errors = errors_of(&reports, settled);
    Some(CompetingView {
        calls_per_second: median(&rates),
        failed: errors.iter().map(|error| error.count).fold(0, u64::saturating_add),
        errors,
    })
}

/// Lateness of the clients above this share of the reported value, the latency of an open loop or the pause of a closed one, is a
/// finding. The median and the 99th percentile are checked, each if ten calls are beyond it.
const LARGE: f64 = 0.1;

/// The checked percentiles, with their names.
const LOOKED_AT: [(f64, &str); 2] = [(0.5, "p50"), (0.99, "p99")];

/// The lateness of a cell over its trials; `None` if calls have no intended times.
pub fn lateness(settled: &Settled) -> Option<LatenessView> {
    let late = |trial: &Trial| TimeDistribution::decode(trial.client()?.late.as_ref()?);
    let mut all = TimeDistribution::default();
    settled.trials.iter().filter_map(|trial| late(trial)).for_each(|times| all.add(&times));
    Some(LatenessView {
        p50_ns: all.percentile(0.5)?,
        p99_ns: all.percentile(0.99)?,
        finding: LOOKED_AT.iter().filter_map(|(share, name)| finding(settled, *share, name)).max_by(|a, b| {
            let part = |found: &LateFinding| found.late_ns / found.of_ns;
            part(a).total_cmp(&part(b))
        }),
    })
}

/// The lateness at a percentile where it is much of the reported value; medians over the trials.
fn finding(settled: &Settled, share: f64, percentile: &'static str) -> Option<LateFinding> {
    let levels = &settled.cell.factors;
    let is_open = levels.offered_rate().is_some() || levels.slo().is_some();
    let at = |times: TimeDistribution| times.percentile(share);
    let of_trial = |trial: &&Trial| {
        let call = trial.client()?;
        let late = TimeDistribution::decode(call.late.as_ref()?).filter(|times| times.reaches(share)).and_then(at)?;
        let reported = match is_open {
            true => TimeDistribution::decode(call.total.as_ref()?).and_then(at)?,
            false => levels.think_time()? as f64,
        };
        Some((late, reported))
    };
    let (late, reported): (Vec<f64>, Vec<f64>) = settled.trials.iter().filter_map(of_trial).unzip();
    let (late_ns, of_ns) = (median(&late)?, median(&reported)?);
    (late_ns > LARGE * of_ns).then_some(LateFinding { percentile, late_ns, of_ns })
}

/// The cell with the largest share of lateness, and that lateness.
pub fn latest(cells: &[CellView]) -> Option<(&CellView, LateFinding)> {
    let part = |found: &LateFinding| found.late_ns / found.of_ns;
    let candidates = cells.iter().filter(|cell| cell.kind == CellKind::Candidate);
    let all = candidates.filter_map(|cell| Some((cell, cell.call.as_ref()?.lateness.as_ref()?.finding?)));
    all.max_by(|(_, a), (_, b)| part(a).total_cmp(&part(b)))
}
