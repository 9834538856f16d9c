//! The counts of a ring in addition to its rate, and facts that contradict a cell of it.

use std::collections::BTreeMap;

use bytegauge_model::{CellKind, EndRole, Level, RingReport, Spec, Stage, Trial};
use bytegauge_stats::trial_counts::ratio;

use super::counted_trials::Settled;
use super::document::{CellView, Factors, GroupView, RingView};

/// The ring of a cell; `None` where none ran.
pub fn ring(settled: &Settled) -> Option<RingView> {
    let reports: Vec<&RingReport> = settled.trials.iter().filter_map(|trial| trial.ring()).collect();
    let first = reports.first()?;
    let sum = |read: fn(&RingReport) -> u64| reports.iter().map(|report| read(report)).fold(0, u64::saturating_add);
    let completed = settled.trials.iter().map(|trial| trial.calls).fold(0, u64::saturating_add);
    Some(RingView {
        submitted: sum(|report| report.submitted),
        completed,
        checked: sum(|report| report.checked),
        left: sum(|report| report.left),
        enters: sum(|report| report.enters),
        nops_per_enter: ratio(completed, sum(|report| report.enters)).filter(|n| *n > 0.0),
        overflowed_after_rounds: first.overflowed_after_rounds,
        completion_entries: first.completion_entries,
        kernel_thread_cpus: kernel_thread_cpus(&settled.trials),
    })
}

/// The kernel's thread lives as long as its ring: its CPU time is divided by completions.
fn kernel_thread_cpus(trials: &[&Trial]) -> Option<f64> {
    let part = |trial: &&Trial| {
        let (end, ring) = (trial.end(EndRole::Ring)?, trial.ring()?);
        let ns = end.engine.as_ref()?.kernel_threads_ns? as f64;
        Some((ns * end.calls as f64 / ring.total_completed.max(1) as f64, end.window_ns as f64))
    };
    let parts = trials.iter().filter_map(part);
    let (busy_ns, window_ns) = parts.fold((0.0, 0.0), |sums, (busy, window)| (sums.0 + busy, sums.1 + window));
    (busy_ns > 0.0 && window_ns > 0.0).then(|| busy_ns / window_ns)
}

/// Why a cell is shown and not compared: a loop that takes no completion measures something else.
pub fn artefact(settled: &Settled, ring: Option<&RingView>) -> Option<String> {
    if settled.cell.kind != CellKind::Artefact {
        return None;
    }
    let rounds = ring?.overflowed_after_rounds?;
    Some(format!(
        "an artefact, not compared: its loop never takes a completion; after {rounds} rounds the completion queue has \
         overflowed, and what it counts are submissions"
    ))
}

/// For each cell of a group the cheapest operation among the cells with the same ring and set-up, whatever their
/// size, ns: the remaining time when many operations share a system call.
pub fn cheapest_siblings(cells: &[(&Settled, Option<f64>)]) -> Vec<Option<f64>> {
    let ring = |levels: &Spec| ["implementation", "setup"].map(|name| levels.get(name).clone());
    let mut cheapest: BTreeMap<[Level; 2], f64> = BTreeMap::new();
    for (settled, rate) in cells {
        if let Some(rate) = rate.filter(|rate| *rate > 0.0) {
            let ns = cheapest.entry(ring(&settled.cell.factors)).or_insert(f64::INFINITY);
            *ns = ns.min(1e9 / rate);
        }
    }
    cells.iter().map(|(settled, _)| cheapest.get(&ring(&settled.cell.factors)).copied()).collect()
}

/// Groups in which less was reached with less to do: the ceiling leaves out what `checked` does for every operation, so that
/// it is below it only where something else took the time meanwhile.
pub fn upside_down(groups: &[GroupView], cells: &[CellView]) -> Vec<String> {
    let best = |group: &GroupView| {
        let own = cells.iter().filter(|cell| {
            cell.group == group.id && cell.kind == CellKind::Candidate && cell.stage == Some(Stage::Confirm)
        });
        own.filter_map(|cell| cell.estimate.median).reduce(f64::max)
    };
    let known: Vec<_> =
        groups.iter().filter_map(|group| Some((group.id.to_string(), &group.factors, best(group)?))).collect();
    below(&known)
}

fn below(groups: &[(String, &Factors, f64)]) -> Vec<String> {
    let apart = |factors: &Factors| {
        let mut rest = factors.clone();
        let mode = rest.remove("mode");
        (mode.and_then(|mode| mode.as_str().map(str::to_owned)), rest)
    };
    let is = |factors: &Factors, wanted: &str| apart(factors).0.as_deref() == Some(wanted);
    let mut reported = Vec::new();
    for (id, factors, ceiling) in groups.iter().filter(|(_, factors, _)| is(factors, "ceiling")) {
        let siblings = groups.iter().filter(|(_, other, _)| is(other, "checked") && apart(other).1 == apart(factors).1);
        for (other, _, _) in siblings.filter(|(_, _, checked)| checked > ceiling) {
            reported.push(format!(
                "{id}: its ceiling is below {other}, where each operation does more: other work of the machine decides both \
                 apart, not the mode; the true ceiling is at least that of {other}"
            ));
        }
    }
    reported
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_ceiling_below_more_work_is_a_note() {
        let factors = |mode: &str, data: &str| -> Factors {
            [("mode", mode), ("user_data", data)].map(|(name, level)| (name.to_owned(), json!(level))).into()
        };
        let (ceiling, checked, other) =
            (factors("ceiling", "none"), factors("checked", "none"), factors("checked", "box"));
        let reported =
            |at: f64| below(&[("g1".into(), &ceiling, at), ("g2".into(), &checked, 2e7), ("g3".into(), &other, 9e7)]);
        assert!(reported(3e7).is_empty());
        let [only] = &reported(1e7)[..] else { panic!("{:?}", reported(1e7)) };
        assert!(only.starts_with("g1: its ceiling is below g2"), "{only}");
    }
}
