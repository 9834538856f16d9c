//! How late clients began their calls: the part of an open loop's latency, or of a pause, that the harness itself adds.
//!
//! A trial is late if its lateness at a percentile exceeds a tenth of the reported value: the latency of an open loop, or the
//! pause of a closed one. The median and the 99th percentile are checked, each if ten calls are beyond it.

use bytegauge_model::unit::counted;
use bytegauge_model::{CellKind, Nanos, Trial};
use bytegauge_stats::call_times::TimeDistribution;
use bytegauge_stats::interval::sign_interval;

use super::counted_trials::Settled;
use super::document::{CellView, LateFinding, LatenessView};

/// Lateness above this share of the reported value is a finding.
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
        max_ns: all.percentile(1.0)?,
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
    (trials > 0).then_some(LateFinding { percentile, late_ns, of_ns, pauses: !is_open, trials, of })
}

/// The cell with the largest share of lateness, and `9.1 µs of the p99 are the delay of the load generator, in 12 of 12 trials of epoll`.
/// `most`: only cells in which most trials are late.
pub fn sentence(cells: &[CellView], most: bool) -> Option<(&CellView, String)> {
    let found = |cell: &CellView| {
        let finding = cell.call.as_ref()?.lateness.as_ref()?.finding;
        finding.filter(|found| cell.kind == CellKind::Candidate && (!most || 2 * found.trials > found.of))
    };
    let part = |found: &LateFinding| found.late_ns / found.of_ns;
    let all = cells.iter().filter_map(|cell| Some((cell, found(cell)?)));
    let (cell, LateFinding { percentile, late_ns, of_ns, pauses, trials, of }) =
        all.max_by(|(_, a), (_, b)| part(a).total_cmp(&part(b)))?;
    // The table's percentile is over all trials, that of the finding over those with enough calls: one number is enough.
    let (whole, so) = match pauses {
        true => (format!("each pause of {}", Nanos(of_ns as u64)), ""),
        false => (format!("the {percentile}"), "; the server's own time is shorter"),
    };
    let (late, of, label) = (Nanos(late_ns as u64), counted(of, "trial"), &cell.label);
    Some((cell, format!("{late} of {whole} are the delay of the load generator, in {trials} of {of} of {label}{so}")))
}
