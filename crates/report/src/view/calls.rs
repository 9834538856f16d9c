//! The calls of a cell in addition to their rate: failures and their causes, the work of engines, competing clients.
//!
//! Sums over the trials behind the estimate; where every trial failed, over those. Errors are counted over a client's whole life, so they are shares of
//! the calls begun, not of the calls that the rate counts.

use std::collections::BTreeMap;

use bytegauge_bottleneck::call_errors as errors;
use bytegauge_bottleneck::call_errors::Circumstances;
use bytegauge_model::{
    CallDatagrams, CallError, CallReport, CellKind, EndReport, EndRole, EngineReport, ErrorClass, ErrorPhase, Place,
    Spec, Trial, UdpUse,
};
use bytegauge_stats::call_percentiles::{outlasting, p99, together};
use bytegauge_stats::call_times::TimeDistribution;
use bytegauge_stats::quantile::{median, sign_interval};
use bytegauge_stats::trial_counts::ratio;

use super::counted_trials::Settled;
use super::counters::namespace;
use super::knee::knee;
use super::numbers::{
    CallDatagramView, CallView, CellView, CompetingView, Counters, DelayedAcksView, EngineView, ErrorView, LateFinding,
    LatenessView, WorkersView,
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
    let (mean, sd) = mean_and_sd(&settled.trials.iter().filter_map(|trial| trial.rate()).collect::<Vec<_>>());
    Some(CallView {
        timing: if levels.offered_rate().is_some() || levels.slo().is_some() { OPEN } else { CLOSED },
        offered_per_second: levels.call_rate().map(|rate| rate as f64),
        knee: knee(settled),
        mean_per_second: mean,
        sd_per_second: sd,
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
        datagrams: datagrams(settled),
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
    let pieces = levels.request_chunk().is_some() || levels.response_chunk().is_some() || levels.depth() > Some(1);
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
        calls_per_second: sign_interval(&rates, 0.95).median,
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

/// Trials that are late at a percentile, if there are any.
fn finding(settled: &Settled, share: f64, percentile: &'static str) -> Option<LateFinding> {
    let levels = &settled.cell.factors;
    let is_open = levels.offered_rate().is_some() || levels.slo().is_some();
    let pause_ns = levels.think_time().map(|ns| ns as f64);
    // Late and reported, trial by trial.
    let pairs: Vec<(f64, f64)> = settled
        .trials
        .iter()
        .filter_map(|trial| {
            let call = trial.client()?;
            let late = TimeDistribution::decode(call.late.as_ref()?)
                .filter(|times| times.reaches(share))?
                .percentile(share)?;
            let reported =
                if is_open { TimeDistribution::decode(call.total.as_ref()?)?.percentile(share)? } else { pause_ns? };
            Some((late, reported))
        })
        .collect();
    let trials = pairs.iter().filter(|(late, reported)| *late > LARGE * reported).count();
    let of = pairs.len();
    let (late, reported): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
    let median = |values: Vec<f64>| sign_interval(&values, 0.95).median;
    let (late_ns, of_ns) = (median(late)?, median(reported)?);
    (trials > 0).then_some(LateFinding { percentile, late_ns, of_ns, trials, of })
}

/// The cell with the largest share of lateness, and that lateness. `most`: only cells in which most trials are late.
pub fn latest(cells: &[CellView], most: bool) -> Option<(&CellView, LateFinding)> {
    let found = |cell: &CellView| {
        let finding = cell.call.as_ref()?.lateness.as_ref()?.finding;
        finding.filter(|found| cell.kind == CellKind::Candidate && (!most || 2 * found.trials > found.of))
    };
    let part = |found: &LateFinding| found.late_ns / found.of_ns;
    let all = cells.iter().filter_map(|cell| Some((cell, found(cell)?)));
    all.max_by(|(_, a), (_, b)| part(a).total_cmp(&part(b)))
}

// The datagrams of calls: which were lost and where.
//
// Only replies are rated here; the datagrams sent for them only explain losses.

/// The datagrams of a cell; `None` if its calls had connections.
fn datagrams(settled: &Settled) -> Option<CallDatagramView> {
    let trials = &settled.trials;
    let of_client = |trial: &Trial| trial.client()?.datagrams;
    let of_server = |trial: &Trial| trial.end(EndRole::Server)?.call.as_ref()?.datagrams;
    let of_rival = |trial: &Trial| trial.end(EndRole::Competitor)?.call.as_ref()?.datagrams;
    let sum = |of: &dyn Fn(&Trial) -> Option<CallDatagrams>| {
        trials.iter().filter_map(|trial| of(trial)).reduce(|a, b| a.plus(&b))
    };
    let client = [sum(&of_client), sum(&of_rival)].into_iter().flatten().reduce(|a, b| a.plus(&b))?;
    let server = sum(&of_server);
    let response = settled.cell.factors.response().or_else(|| settled.cell.factors.request());
    let rates: Vec<f64> = trials.iter().filter_map(|trial| trial.rate()).collect();
    let rate = median(&rates);
    Some(CallDatagramView {
        reply_bytes_per_second: rate.zip(response).map(|(rate, bytes)| rate * bytes as f64),
        requests_sent: client.sent,
        requests_dropped: server.map(|server| server.dropped),
        requests_truncated: server.map(|server| server.truncated),
        requests_lost_elsewhere: server.map(|server| lost(client.sent, server.received, server.dropped)),
        replies_unsent: server.map(|server| server.unsent),
        replies_dropped: client.dropped,
        replies_lost_elsewhere: server.map(|server| lost(server.sent, client.received, client.dropped)),
        late: client.late,
        duplicated: client.duplicated,
        overtaken: client.overtaken,
        strange: client.strange,
        namespace: namespace(trials),
    })
}

/// A place of losses that no socket counts.
pub const BACKLOG: &str =
    "packets of any process were dropped by a CPU's full backlog (net.core.netdev_max_backlog holds more)";

/// Datagrams that were sent, did not arrive, and are in no count of drops.
fn lost(sent: u64, came: u64, dropped: u64) -> u64 {
    sent.saturating_sub(came).saturating_sub(dropped)
}

/// Where datagrams were lost, and other events, as text; `None` if all arrived once and in order.
pub fn deaths(seen: &CallDatagramView) -> Option<String> {
    let some = |count: u64, what: &str| (count > 0).then(|| format!("{count} {what}"));
    let known = |count: Option<u64>, what: &str| some(count.unwrap_or(0), what);
    let parts = [
        known(seen.requests_dropped, "requests found the server's receive buffer full (a larger --rcvbuf holds more)"),
        known(seen.requests_lost_elsewhere, "requests were lost at an unknown place"),
        known(seen.requests_truncated, "requests were cut off by the server's buffer (MSG_TRUNC)"),
        known(seen.replies_unsent, "replies could not be sent"),
        some(seen.replies_dropped, "replies found a client's receive buffer full"),
        known(seen.replies_lost_elsewhere, "replies were lost at an unknown place"),
        some(seen.late, "replies came after their calls had been given up (a longer --timeout waits for them)"),
        some(seen.duplicated, "replies came twice"),
        some(seen.overtaken, "replies were overtaken by later ones"),
        some(seen.strange, "datagrams answered no call"),
    ];
    let is_lost = [seen.requests_lost_elsewhere, seen.replies_lost_elsewhere].iter().any(|lost| lost.unwrap_or(0) > 0);
    let backlog = seen.namespace.and_then(|udp| udp.backlog_drops).filter(|_| is_lost).unwrap_or(0);
    let of_all = |read: fn(&UdpUse) -> u64, what: &str| some(seen.namespace.as_ref().map_or(0, read), what);
    let elsewhere = [
        some(backlog, BACKLOG),
        of_all(|udp| udp.memory_errors, "datagrams of any process found UDP's memory used up (net.ipv4.udp_mem)"),
        of_all(|udp| udp.checksum_errors, "datagrams of any process had a wrong checksum"),
    ];
    let parts: Vec<String> = parts.into_iter().chain(elsewhere).flatten().collect();
    (!parts.is_empty()).then(|| format!("of {} requests and their replies {}", seen.requests_sent, parts.join(", ")))
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
    reported.saturating_add(sum(is_silence).min(listen_overflows.unwrap_or(0)))
}

fn is_silence(error: &ErrorView) -> bool {
    error.class == ErrorClass::TimedOut && error.phase == ErrorPhase::Connect
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_named_with_their_place() {
        assert_eq!(deaths(&CallDatagramView { requests_sent: 9, ..Default::default() }), None);
        let seen = CallDatagramView {
            requests_sent: 100,
            requests_dropped: Some(7),
            requests_lost_elsewhere: Some(lost(100, 90, 7)),
            late: 2,
            ..CallDatagramView::default()
        };
        let text = deaths(&seen).unwrap();
        assert!(
            text.starts_with("of 100 requests and their replies 7 requests found the server's receive buffer full")
        );
        let machine = UdpUse { backlog_drops: Some(3), ..UdpUse::default() };
        let text = deaths(&CallDatagramView { namespace: Some(machine), ..seen }).unwrap();
        assert!(text.contains("3 packets of any process were dropped by a CPU's full backlog"), "{text}");
        // If all arrived, the backlog dropped packets of other processes.
        let whole = CallDatagramView { requests_sent: 9, namespace: Some(machine), ..CallDatagramView::default() };
        assert_eq!(deaths(&whole), None);
        assert!(
            text.contains("3 requests were lost at an unknown place") && text.contains("2 replies came after"),
            "{text}"
        );
    }

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
