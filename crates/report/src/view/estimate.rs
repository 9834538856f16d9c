//! One number for a set of trials: the median with its sign interval.
//!
//! Only confirmation trials have intervals; the median of screening trials is descriptive.
//!
//! Also the numbers of an iperf3 server.

use std::collections::BTreeMap;

use bytegauge_model::{CallReport, Counted, EndRole, Iperf3Report, Stage, Trial, Workload};
use bytegauge_stats::call_percentiles::percentiles;
use bytegauge_stats::quantile::{MedianEstimate, sign_interval};
use bytegauge_stats::trial_counts::windows_agree;
use bytegauge_stats::trial_metrics::{
    CPU_RUNS, EVENTS, MORE, MORE_OF_CALLS, MORE_OF_RINGS, MORE_OF_RUNS, OF_CALL_RELAYS, OF_STREAM_RELAYS, PRINTED,
    THROUGHPUT, TrialMetric,
};

use super::counted_trials::Settled;
use super::numbers::{CellView, Estimate};

fn estimate(metric: &TrialMetric, settled: &Settled, level: f64) -> Estimate {
    let values: Vec<f64> = settled.trials.iter().filter_map(|trial| (metric.of)(trial)).collect();
    of(metric.name, metric.unit, &sign_interval(&values, level), settled)
}

fn of(metric: &'static str, unit: &'static str, found: &MedianEstimate, settled: &Settled) -> Estimate {
    let confirmed = settled.is_confirmed();
    Estimate {
        metric,
        unit,
        median: found.median,
        lower: found.lower.filter(|_| confirmed),
        upper: found.upper.filter(|_| confirmed),
    }
}

/// The primary rate of a cell.
pub fn throughput(settled: &Settled, level: f64) -> Estimate {
    // A program is rated by what its runs were.
    let (name, unit) = settled.workload().row().unit.metric;
    let metric = match settled.measured.iter().find_map(|trial| trial.task()).map(|task| task.counted) {
        Some(Counted::CpuTime) => &CPU_RUNS,
        Some(Counted::Bytes) => &THROUGHPUT,
        Some(Counted::Printed) => &PRINTED,
        Some(Counted::Events) => &EVENTS,
        Some(Counted::Runs) | None => &TrialMetric { name, unit, of: Trial::rate },
    };
    estimate(metric, settled, level)
}

/// The other estimates, those that are known.
pub fn more(settled: &Settled, level: f64) -> BTreeMap<&'static str, Estimate> {
    let metrics = match settled.workload() {
        Workload::Stream => MORE,
        Workload::Call => MORE_OF_CALLS,
        Workload::Ring => MORE_OF_RINGS,
        _ => MORE_OF_RUNS,
    };
    let of_relay = if settled.workload() == Workload::Stream { OF_STREAM_RELAYS } else { OF_CALL_RELAYS };
    let of_peer = if settled.workload() == Workload::Stream { OF_IPERF3 } else { &[] };
    let all =
        metrics.iter().chain(of_relay).chain(of_peer).map(|metric| (metric.name, estimate(metric, settled, level)));
    let agree = windows_agree(&settled.cell.factors, &settled.trials);
    let reported = |name: &str| agree || !name.ends_with("cpu_ns_per_byte");
    let known = all.filter(|(name, estimate)| estimate.median.is_some() && reported(name));
    let calls: Vec<_> = settled.trials.iter().filter_map(|trial| timed(trial)).collect();
    let percentiles = percentiles(settled.workload(), &calls, level).into_iter();
    known.chain(percentiles.map(|(name, found)| (name, of(name, "ns", &found, settled)))).collect()
}

/// The calls of the client, or the urgent messages of a stream's reader.
fn timed(trial: &Trial) -> Option<&CallReport> {
    let role = if trial.workload == Workload::Stream { EndRole::Sink } else { EndRole::Client };
    trial.end(role)?.call.as_deref()
}

/// All bytes, or calls, over all time. For runs of a program, which all do the same work, the number of runs over their sum in what
/// is compared: a time that the program prints is not that of its run.
pub fn total_rate(settled: &Settled) -> Option<f64> {
    if settled.measured.iter().any(|trial| trial.task().is_some()) {
        let rates: Vec<f64> = settled.trials.iter().filter_map(|trial| trial.rate()).collect();
        let time: f64 = rates.iter().map(|rate| 1.0 / rate).sum();
        return (time > 0.0).then(|| rates.len() as f64 / time);
    }
    let counted = settled.trials.iter().filter(|trial| trial.rate().is_some());
    let (units, ns) = counted.fold((0.0, 0.0), |(units, ns), t| (units + t.units() as f64, ns + t.wall_ns as f64));
    (ns > 0.0 && units > 0.0).then(|| units * 1e9 / ns)
}

/// Fewer trials give no rate over all trials.
const TRIALS_MIN: usize = 6;

/// The rate of all confirmed trials together, slow ones in full, where it is further from the median than the margin.
pub fn rate_of_all(cell: &CellView, margin: f64) -> Option<f64> {
    let all = cell.total_rate.filter(|_| cell.trials >= TRIALS_MIN && cell.stage == Some(Stage::Confirm))?;
    let median = cell.estimate.median?;
    (all.max(median) > all.min(median) * (1.0 + margin)).then_some(all)
}

// Results that an iperf3 server counted itself, next to the rates that were measured here. Numbers of a whole test: they include the
// warm-up, and are no numbers of the window alone.

pub const IPERF3_RATE: &str = "iperf3_server_bytes_per_second";
pub const IPERF3_LOST: &str = "iperf3_server_lost_share";

/// The server's numbers, by trial.
const OF_IPERF3: &[TrialMetric] = &[
    TrialMetric { name: IPERF3_RATE, unit: "bytes/s", of: |trial| per_second(server(trial)?) },
    TrialMetric { name: IPERF3_LOST, unit: "share", of: |trial| lost_share(server(trial)?) },
];

fn server(trial: &Trial) -> Option<&Iperf3Report> {
    [EndRole::Source, EndRole::Sink].into_iter().find_map(|role| trial.end(role)?.iperf3.as_deref())
}

fn per_second(report: &Iperf3Report) -> Option<f64> {
    (report.duration_ns > 0).then(|| report.bytes as f64 / (report.duration_ns as f64 / 1e9))
}

fn lost_share(report: &Iperf3Report) -> Option<f64> {
    report.lost.is_some().then(|| 1.0 - report.delivered_share())
}
