//! The highest rate at which calls keep a latency objective: the cell's knees over the trials, and the rates beyond them.
//!
//! Each trial is a search of its own, and the cell's rate is the median over them: about half of the searches fail there, so it is
//! not the rate to plan with. This module has the other results of the searches, with the rate that keeps the objective over all of
//! them together at most.

use bytegauge_bottleneck::call::Objective;
use bytegauge_model::slo::Search;
use bytegauge_model::{CellKind, Probe, Trial};
use bytegauge_stats::knee::overall_rate;
use bytegauge_stats::quantile::median;

use super::counted_trials::Settled;
use super::numbers::{CellOutcome, CellView, KneeView, ProbeView};

/// The knee of a cell; `None` without a search.
pub fn knee(settled: &Settled) -> Option<KneeView> {
    let slo = settled.cell.factors.slo()?;
    let searches: Vec<&[Probe]> = settled.tried().iter().filter_map(|trial| search(trial)).collect();
    let found: Vec<Search> = searches.iter().filter_map(|probes| Search::of(probes)).collect();
    let middle = |read: &dyn Fn(&Search) -> Option<f64>| {
        median(&found.iter().filter_map(read).filter(|value| value.is_finite()).collect::<Vec<_>>())
    };
    let rate = median(&settled.trials.iter().filter_map(|trial| trial.rate()).collect::<Vec<_>>());
    let closed = middle(&|search| Some(search.closed.completed_per_second()));
    // Medians of different searches may be out of order: a failure below the rate is ignored.
    let beyond =
        middle(&|search| Some(search.beyond?.offered? as f64)).filter(|lost| rate.is_none_or(|kept| *lost > kept));
    let arrivals = settled.cell.factors.arrivals().unwrap_or_default();
    Some(KneeView {
        slo: slo.to_string(),
        percentile: slo.percentile,
        limit_ns: slo.limit_ns,
        overall_per_second: overall_rate(all_searches(settled), &slo, arrivals),
        searches: all_searches(settled).count(),
        at_knee_ns: middle(&|search| Some(search.knee.percentile_ns? as f64)),
        beyond_per_second: beyond,
        at_beyond_ns: middle(&|search| Some(search.beyond?.percentile_ns? as f64)).filter(|_| beyond.is_some()),
        closed_per_second: closed,
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
    let lowest = knee.probes.iter().filter_map(|probe| probe.percentile_ns).min().filter(|ns| *ns > knee.limit_ns);
    Some((lowest.filter(|_| is_missed && cell.kind == CellKind::Candidate)?, knee))
}

/// The least of several options.
pub fn lowest_missed<'a>(cells: impl Iterator<Item = &'a CellView>) -> Option<(u64, &'a KneeView)> {
    cells.filter_map(missed).min_by_key(|(ns, _)| *ns)
}

/// The input of the rules about limits.
pub fn objective(knee: &KneeView) -> Option<Objective> {
    Some(Objective {
        percentile: knee.percentile,
        limit_ns: knee.limit_ns,
        at_knee_ns: knee.at_knee_ns?,
        beyond_per_second: knee.beyond_per_second?,
        at_beyond_ns: knee.at_beyond_ns,
        closed_per_second: knee.closed_per_second?,
    })
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
