//! Checks that the numbers of a cell are consistent, before they are used.
//!
//! A rate implies how many bytes a call moved on average, CPU time implies how many CPUs were busy, and flows share one wall
//! clock. If they contradict each other, it is unknown which is wrong, so the cell fails with the contradiction as its reason.
//! Every bound is arithmetic, not a matter of plausibility: the tolerances are those of clocks.

use bytegauge_model::unit::{byte_rate, significant};
use bytegauge_model::{EndCounts, Engine, Spec, Trial, Workload};
use bytegauge_stats::quantile::median;
use bytegauge_stats::trial_counts::{sink_sums, source_sums};

use super::bottleneck_inputs::link_rate;

/// The window of the rate and those of the ends are read by different threads: within a lap of about 1 ms, in trials of some
/// milliseconds.
const WINDOW: f64 = 0.25;
/// CPU clocks and windows are read one after the other.
const CPU: f64 = 0.1;
/// Tolerance of both in nanoseconds: some calls of the clock and a tick.
const CPU_SLACK_NS: f64 = 10e6;

/// Calls at the edges of windows.
const EDGES: f64 = 64.0;

/// Data held back before a window may be read within it, and data held back at its end is not; over several trials the difference
/// is small.
const LINK: f64 = 0.05;
/// Number of trials that distinguishes this from chance.
const LINK_TRIALS: usize = 4;

/// The contradiction in a cell's trials on a machine with this number of CPUs; `None` without one.
pub fn contradiction(levels: &Spec, trials: &[&Trial], cpus: Option<u64>) -> Option<String> {
    let ends = [source_sums(trials), sink_sums(trials)];
    let of_stream = levels.workload() == Workload::Stream;
    if of_stream && let Some(reason) = short_calls(&ends) {
        return Some(reason);
    }
    let plain = of_stream && !levels.transport().is_some_and(bytegauge_model::Transport::is_datagram);
    // A completion of a ring may use several buffers.
    let ring = matches!(levels.engine(), Some(Engine::Uring(_)));
    if plain
        && !ring
        && let Some(reason) = rate_of_sizes(levels, trials)
    {
        return Some(reason);
    }
    if let Some(reason) = over_link(levels, trials) {
        return Some(reason);
    }
    let rate = ends[1].as_ref().filter(|_| plain).and_then(|sink| rate_of_calls(trials, sink));
    // Two ends on two hosts have the CPUs of both.
    let cpus = cpus.filter(|_| !levels.spans_hosts());
    rate.or_else(|| cpu(trials, &ends, cpus?))
}

/// A call moves at most its buffer size, so the rate is at most that of the reads times their size. Medians keep the order that
/// every correct trial has.
fn rate_of_sizes(levels: &Spec, trials: &[&Trial]) -> Option<String> {
    let size = levels.read_size().filter(|size| *size > 0)? as f64;
    let middle = |of: &dyn Fn(&Trial) -> Option<f64>| {
        median(&trials.iter().filter_map(|trial| of(trial)).filter(|value| value.is_finite()).collect::<Vec<_>>())
    };
    let rate = middle(&|trial| trial.rate())?;
    let reads = middle(&|trial| {
        let sink = trial.sink_side().filter(|sink| sink.calls > 0 && sink.window_ns > 0)?;
        Some(sink.calls as f64 * 1e9 / sink.window_ns as f64)
    })?;
    let times = rate / (reads * size);
    (times > 1.0 + WINDOW)
        .then(|| format!("its rate is {} what its reads of {size} bytes can carry", times_text(times)))
}

/// No rate exceeds that of the link.
fn over_link(levels: &Spec, trials: &[&Trial]) -> Option<String> {
    let carries = link_rate(levels).filter(|_| levels.workload() == Workload::Stream)?;
    let rates: Vec<f64> = trials.iter().filter_map(|trial| trial.rate()).collect();
    let rate = median(&rates).filter(|rate| rates.len() >= LINK_TRIALS && *rate > carries * (1.0 + LINK))?;
    Some(format!(
        "{} went over a link that carries {} of data at most: much of it came before the window; use a longer --trial-time",
        byte_rate(rate),
        byte_rate(carries)
    ))
}

/// A call is short or it is not. Both are counted at a window's edges, where each flow's are shared out by time.
fn short_calls(ends: &[Option<EndCounts>]) -> Option<String> {
    let beyond = |end: &&EndCounts| end.short_calls as f64 > end.calls as f64 * (1.0 + WINDOW) + EDGES;
    let end = ends.iter().flatten().find(beyond)?;
    Some(format!("of {} calls {} moved less than they might", end.calls, end.short_calls))
}

/// The rate must be that of the calls: bytes of all flows over the window that they share.
fn rate_of_calls(trials: &[&Trial], sink: &EndCounts) -> Option<String> {
    let (bytes, wall_ns) =
        trials.iter().fold((0.0, 0.0), |(bytes, ns), trial| (bytes + trial.bytes as f64, ns + trial.wall_ns as f64));
    if sink.bytes == 0 || sink.window_ns == 0 || wall_ns <= 0.0 {
        return None;
    }
    let by_calls = sink.bytes as f64 / sink.window_ns as f64;
    let times = bytes / wall_ns / by_calls;
    (times > 1.0 + WINDOW).then(|| format!("its rate is {} what its reads carried in their window", times_text(times)))
}

/// CPU time cannot exceed that of all CPUs.
fn cpu(trials: &[&Trial], ends: &[Option<EndCounts>], cpus: u64) -> Option<String> {
    let used: f64 = ends.iter().flatten().map(|sums| sums.cpu_ns as f64).sum();
    let window = ends.iter().flatten().map(|sums| sums.window_ns as f64).fold(0.0, f64::max);
    let most = window * cpus as f64 * (1.0 + CPU) + CPU_SLACK_NS * trials.len() as f64;
    (window > 0.0 && used > most).then(|| {
        format!("its ends used {} CPUs of the {cpus} that there are", significant((used / window).min(1e9), 3))
    })
}

/// A factor as text; a very large one is just "far more".
fn times_text(times: f64) -> String {
    if times < 1e6 { format!("{} times", significant(times, 3)) } else { "more than a million times".into() }
}
