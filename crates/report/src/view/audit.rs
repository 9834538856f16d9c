//! The results of long trials: of each group by itself, and of all groups of a session together.
//!
//! They can withdraw a proof, or split it by the age of connections, but never make one. If the plan asks for fresh connections,
//! longer ones are another case: then the proof remains, and the other result is reported with it.

use bytegauge_model::{AnalysedGroup, ConnectionAge};
use bytegauge_stats::audit::{Audit, AuditFinding, LEVEL, audit, together};
use bytegauge_stats::quantile::median;
use serde_json::Value;

use super::compare::{GroupAnalysis, groups};
use super::counted_trials::Settled;
use super::groups::Conditions;
use super::input::{CompareInput, Settings};
use super::numbers::difference::share;
use super::numbers::{AuditRival, AuditSummary, AuditView};
use crate::SessionData;

impl AuditSummary {
    /// For all groups whose choice was measured in them; `None` without any. Windows end with a lap, so the plan has the exact
    /// length.
    pub fn of(groups: &[GroupAnalysis], settled: &[Settled], plan: &Value, margin: f64) -> Option<AuditSummary> {
        let means: Vec<f64> = groups.iter().filter_map(|group| mean_against_runner_up(group, margin)).collect();
        let finding = together(&means, LEVEL, margin.ln_1p());
        let windows = settled.iter().flat_map(|cell| &cell.audited).map(|trial| trial.wall_ns as f64);
        let planned_ns = plan.get("design").and_then(|design| design.get("audit_ns")?.as_u64());
        (!means.is_empty()).then(|| AuditSummary {
            window_ns: planned_ns.unwrap_or(median(&windows.collect::<Vec<_>>()).unwrap_or(0.0) as u64),
            finding,
        })
    }
}

/// The long trials of a group's choice; `None` without any.
fn of_choice(group: &GroupAnalysis, margin: f64) -> Option<Audit> {
    let choice = group.alone.cell?;
    audit(&group.audit, choice, LEVEL, margin.ln_1p(), |rival| ahead(group, choice, rival))
}

/// How much faster than an open choice a rival already was in its confirmation, in ln: such a choice is named for its bound, so
/// that this is no contradiction. 0 for a proven one.
fn ahead(group: &GroupAnalysis, choice: usize, rival: usize) -> f64 {
    let excess = |cell: usize| group.verdict.excess.get(cell).copied().flatten();
    let known = excess(choice).zip(excess(rival)).map_or(0.0, |(choice, rival)| (choice - rival).max(0.0));
    if group.alone.proven_cells.contains(&choice) { 0.0 } else { known }
}

/// How much slower the choice is than the best of its rivals in long trials, beyond the confirmation, in ln.
fn mean_against_runner_up(group: &GroupAnalysis, margin: f64) -> Option<f64> {
    let audit = of_choice(group, margin)?;
    let excess = |cell: usize| group.verdict.excess.get(cell).copied().flatten().unwrap_or(f64::INFINITY);
    let best = audit.rivals.iter().min_by(|a, b| excess(a.cell).total_cmp(&excess(b.cell)))?;
    Some(best.mean - ahead(group, group.alone.cell?, best.cell))
}

/// Whether long trials contradict the choice, so that its confirmation is no result. If the plan asks for fresh connections,
/// longer ones are another case.
pub fn is_withdrawn(group: &GroupAnalysis, conditions: &Conditions) -> bool {
    let all = conditions.audit.is_some_and(|all| all.finding == AuditFinding::Contradicts);
    let is_steady = group.row.group.factors.connection_age() == Some(ConnectionAge::Steady);
    let contradicts = |audit: Audit| audit.finding == AuditFinding::Contradicts || all;
    is_steady && of_choice(group, conditions.margin).is_some_and(contradicts)
}

/// The printed results of a group's long trials.
pub fn view(group: &GroupAnalysis, conditions: &Conditions) -> Option<AuditView> {
    let audit = of_choice(group, conditions.margin)?;
    let id = |choice: usize| conditions.id(group, Some(choice));
    let rivals = audit.rivals.iter().filter_map(|rival| {
        Some(AuditRival {
            cell: id(rival.cell)?,
            blocks: rival.blocks,
            slower_lower: rival.lower.and_then(share),
            slower_upper: rival.upper.and_then(share),
        })
    });
    let contradicted = audit.finding == AuditFinding::Contradicts;
    Some(AuditView {
        choice: id(group.alone.cell?)?,
        rivals: rivals.collect(),
        finding: audit.finding,
        bound: audit.bound().and_then(share),
        better: audit.strongest().filter(|_| contradicted).and_then(|rival| id(rival.cell)),
    })
}

/// The choices of a session so far, each with its rivals for long trials: the runner-up, and the smallest confirmed option.
#[must_use]
pub fn analysed_groups(session: &SessionData, settings: &Settings) -> Vec<AnalysedGroup> {
    let input = CompareInput::of(session, settings);
    groups(session, &input).iter().filter_map(|group| subject(group, &input.settled)).collect()
}

fn subject(group: &GroupAnalysis, settled: &[Settled]) -> Option<AnalysedGroup> {
    let verdict = &group.verdict;
    let choice = group.alone.cell?;
    let others = || verdict.present.iter().copied().filter(|&cell| cell != choice);
    let by = |of: &dyn Fn(usize) -> Option<f64>| {
        let known = others().filter_map(|cell| Some((cell, of(cell)?)));
        known.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(cell, _)| cell)
    };
    let runner_up = by(&|cell| verdict.excess[cell]);
    let smallest = by(&|cell| group.input.cells[cell].footprint_bytes);
    let mut wanted: Vec<usize> = Vec::new();
    for cell in [Some(choice), runner_up, smallest].into_iter().flatten() {
        if verdict.present.contains(&cell) && !wanted.contains(&cell) {
            wanted.push(cell);
        }
    }
    let cells = wanted.into_iter().filter_map(|cell| Some(settled[group.cell(Some(cell))?].cell.id.clone()));
    Some(AnalysedGroup { group: group.row.group.id.clone(), cells: cells.collect(), proven: group.alone.proven })
}
