//! The calls of a cell in addition to their rate: failures and their causes, the threads of a server, competing clients.
//!
//! Sums over the trials behind the estimate; where every trial failed, over those. Errors are counted over a client's whole life, so they are shares of
//! the calls begun, not of the calls that the rate counts.

use std::collections::BTreeMap;

use bytegauge_bottleneck::call_errors as errors;
use bytegauge_bottleneck::call_errors::Circumstances;
use bytegauge_model::{CallError, CallReport, EndRole, ErrorClass, ErrorPhase, Trial};
use bytegauge_stats::call_percentiles::{outlasting, p99, together};
use bytegauge_stats::call_times::TimeDistribution;
use bytegauge_stats::quantile::median;
use bytegauge_stats::trial_counts::ratio;

use super::counted_trials::Settled;
use super::counters::call_datagrams;
use super::knee::knee;
use super::listener_queue::listen_overflows;
use super::numbers::{CallView, CompetingView, Counters, DelayedAcksView, ErrorView, WorkersView};

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
