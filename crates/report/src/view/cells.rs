//! One cell: its estimate, counters, CPU time, limit and what may spoil its number.

use bytegauge_bottleneck::{CellLimit, UNKNOWN, path, ring, task, without_numbers};
use bytegauge_model::cell::footprint;
use bytegauge_model::{CellKind, EndRole, Role, SessionStatus, Spec, Trial, Workload};
use bytegauge_stats::block_dependence::drifts;
use bytegauge_stats::modes::modes;
use bytegauge_store::CellRow;

use super::bottleneck_inputs::{Known, gather, gather_of_rings};
use super::calls::{calls, mean_and_sd};
use super::compare::GroupAnalysis;
use super::cost::Floors;
use super::counted_trials::Settled;
use super::counters::{artefact, cheapest_siblings, counters, cpu, datagrams, harm, ring};
use super::environment::cpus;
use super::estimate::{more, throughput, total_rate};
use super::moves_nothing;
use super::numbers::difference::share;
use super::numbers::{CallView, CellOutcome, CellView, Estimate, RelayProgramView, RingView, StalledView};
use crate::SessionData;
use crate::words::option_label;

/// The common input of all cells of a session.
pub struct Context<'a> {
    /// The session.
    pub data: &'a SessionData,
    /// The harness's cost.
    pub floors: &'a Floors,
    /// Every factor that the plan varies.
    pub varied: &'a [String],
    /// Confidence level.
    pub level: f64,
}

/// Every cell, in the order of the plan.
pub fn cells(settled: &[Settled], groups: &[GroupAnalysis], context: &Context) -> Vec<CellView> {
    let rates = rates(settled, context.level);
    let mut cheapest: Vec<Option<f64>> = vec![None; settled.len()];
    for group in groups {
        let rated: Vec<_> = group.candidates.iter().map(|&at| (&settled[at], rates[at].median)).collect();
        group.candidates.iter().zip(cheapest_siblings(&rated)).for_each(|(&at, nop_ns)| cheapest[at] = nop_ns);
    }
    let rows = settled.iter().zip(&context.data.cells).zip(rates).zip(cheapest);
    let mut cells: Vec<CellView> =
        rows.map(|(((cell, row), rate), cheapest)| view(cell, row, rate, cheapest, context)).collect();
    for group in groups {
        group.harm.iter().for_each(|(at, kinds)| cells[*at].harmful.clone_from(kinds));
        for (choice, &at) in group.cells.iter().enumerate() {
            let end = |ends: &[Option<f64>]| ends.get(choice).copied().flatten().and_then(share);
            cells[at].behind = group.behind(choice);
            // A single option is compared with no other: a bound of 0 would read as the best.
            if group.cells.len() > 1 {
                cells[at].above_best_lower = end(&group.verdict.lower);
                cells[at].above_best_upper = end(&group.verdict.upper);
            }
        }
    }
    cells
}

/// The rate of each cell. A program's run that ended tells the metric: a cell that failed has the unit of the others.
fn rates(settled: &[Settled], level: f64) -> Vec<Estimate> {
    let mut rates: Vec<Estimate> = settled.iter().map(|cell| throughput(cell, level)).collect();
    let is_program = |cell: &Settled| cell.workload() == Workload::Tune;
    let known = settled.iter().zip(&rates).find(|(cell, rate)| is_program(cell) && rate.median.is_some());
    if let Some((metric, unit)) = known.map(|(_, rate)| (rate.metric, rate.unit)) {
        let failed = settled.iter().zip(&mut rates).filter(|(cell, rate)| is_program(cell) && rate.median.is_none());
        failed.for_each(|(_, rate)| (rate.metric, rate.unit) = (metric, unit));
    }
    rates
}

/// Why a cell failed, with what explains most of the errors of its calls.
fn explained(reason: String, outcome: CellOutcome, call: Option<&CallView>) -> String {
    match call.and_then(|call| call.errors.first()) {
        Some(error) if outcome == CellOutcome::Failed && !error.explanation.is_empty() => {
            format!("{reason}: {}", error.explanation)
        }
        _ => reason,
    }
}

/// A cell without what follows from the comparison of its group.
fn view(
    settled: &Settled,
    row: &CellRow,
    estimate: Estimate,
    cheapest_nop_ns: Option<f64>,
    context: &Context,
) -> CellView {
    let levels = &settled.cell.factors;
    let record = &context.data.record;
    let goes_on = !record.imported && record.status != SessionStatus::Complete;
    let (outcome, reason) = settled.outcome(row.outcome.as_ref(), goes_on);
    let counters = counters(levels, &settled.trials);
    let cpu = cpu(levels, &settled.trials);
    let (call, ring) = (calls(settled), ring(settled));
    let rates: Vec<f64> = settled.trials.iter().filter_map(|trial| trial.rate()).collect();
    let (mean, sd) = mean_and_sd(&rates);
    // Screening trials are too few and from different minutes, and a rate that rises or falls has no speeds of its own.
    let modes = if settled.is_confirmed() && !drifts(&rates) { modes(&rates).unwrap_or_default() } else { Vec::new() };
    let known = Known {
        settled,
        rate: estimate.median,
        counters: &counters,
        cpu: &cpu,
        cpus: cpus(&record.machine),
        // A floor's share of itself tells nothing.
        floor_ns: context.floors.of_group(&settled.cell.group).filter(|_| settled.cell.kind != CellKind::Floor),
        cheapest_nop_ns,
    };
    let limit = limit(&known, call.as_ref(), ring.as_ref());
    let reason = artefact(settled, ring.as_ref()).or(reason).map(|reason| explained(reason, outcome, call.as_ref()));
    let was_stolen_from = |trial: &&&Trial| trial.machine.as_ref().is_some_and(|machine| machine.steal_ns > 0);
    CellView {
        id: settled.cell.id.clone(),
        group: settled.cell.group.clone(),
        kind: settled.cell.kind,
        twin_of: settled.cell.twin_of.clone(),
        label: label(levels, context.varied),
        stage: settled.stage,
        factors: levels.clone(),
        outcome,
        reason,
        trials: settled.trials.len(),
        stolen_trials: settled.trials.iter().filter(was_stolen_from).count(),
        failed_trials: settled.failed.len(),
        failure: settled.failed.last().and_then(|trial| trial.outcome.reason()).map(str::to_owned),
        behind: None,
        harm: harm(settled),
        harmful: Vec::new(),
        stalls: settled.stalls(),
        stalled: (settled.stalled > 0).then_some(StalledView { trials: settled.stalled, of: settled.tried }),
        modes,
        more: more(settled, context.level),
        footprint: footprint(levels, &settled.trials, context.varied),
        above_best_lower: None,
        above_best_upper: None,
        limit,
        estimate,
        total_rate: total_rate(settled),
        mean,
        sd,
        counters,
        cpu,
        call,
        datagrams: datagrams(settled),
        ring,
        relay_program: relay_program(&settled.trials),
    }
}

/// The limit of a cell.
fn limit(known: &Known, call: Option<&CallView>, ring: Option<&RingView>) -> CellLimit {
    let (settled, is_measured) = (known.settled, known.rate.is_some());
    match ring {
        // A loop that takes no completion has no rate.
        Some(ring) if !is_measured && ring.submitted > 0 => {
            without_numbers(UNKNOWN, "no completion was taken, so there is no rate that anything could limit")
        }
        _ if !is_measured => without_numbers(UNKNOWN, "nothing was measured"),
        _ if call.is_some() && settled.cell.kind == CellKind::Floor => {
            without_numbers("the harness", "there is no server: this is the client's own bookkeeping")
        }
        Some(ring) => ring::find(&gather_of_rings(known, ring)),
        None if settled.workload() == Workload::Tune => task::find(&settled.trials, known.cpus),
        None => path::find(&gather(known, call)),
    }
}

fn relay_program(trials: &[&Trial]) -> Option<RelayProgramView> {
    let all = || trials.iter().filter_map(|trial| trial.end(EndRole::Relay)?.relay_program.as_deref());
    Some(RelayProgramView {
        version: all().next()?.version.clone(),
        left_behind: all().map(|known| known.left_behind).max().unwrap_or(0),
        stopped_by_force: all().any(|known| known.stopped_by_force),
        charged: all().find_map(|known| known.charged.clone()),
    })
}

/// The choices that vary in the session, as tables name an option; else its engine and sizes.
fn label(levels: &Spec, varied: &[String]) -> String {
    let is_choice = |name: &&String| levels.role_of(name) == Role::Choice;
    let varied: Vec<String> = varied.iter().filter(is_choice).cloned().collect();
    let label = match option_label(&varied, levels) {
        empty if empty.is_empty() => {
            option_label(&["server_engine", "read_size", "write_size"].map(str::to_owned), levels)
        }
        label => label,
    };
    if moves_nothing(levels) { format!("{label} (moves nothing)").trim_start().to_owned() } else { label }
}
