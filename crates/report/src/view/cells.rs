//! One cell: its estimate, counters, CPU time, limit and what may spoil its number.

use std::collections::{BTreeSet, HashMap};

use bytegauge_bottleneck::{CellLimit, Doubt, call, ring, stream, task};
use bytegauge_model::cell::footprint;
use bytegauge_model::trial::IDLE_LOOP;
use bytegauge_model::unit::significant;
use bytegauge_model::{CellId, CellKind, EndRole, Outcome, SessionStatus, Spec, Trial, Workload};
use bytegauge_stats::block_dependence::drift;
use bytegauge_stats::group::GroupVerdict;
use bytegauge_stats::modes::modes;
use bytegauge_store::CellRow;

use super::bottleneck_inputs::{Known, gather, gather_of_calls, gather_of_rings, larger_buffers};
use super::calls::{calls, mean_and_sd};
use super::compare::GroupAnalysis;
use super::counted_trials::Settled;
use super::counters::{artefact, cheapest_siblings, counters, cpu, datagrams, ring};
use super::environment::{cpus, irq_accounting};
use super::estimate::{more, throughput, total_rate};
use super::floor::Floors;
use super::harm::harm;
use super::levels::moves_nothing;
use super::numbers::difference::share;
use super::numbers::{
    CallView, CellOutcome, CellView, Counters, CpuView, Estimate, HarmKind, LimitDoubt, LimitView, ModeView,
    RelayProgramView, RingView, StalledView,
};
use crate::{SessionData, phrase};

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
    let mut larger: HashMap<usize, (&'static str, f64)> = HashMap::new();
    let mut cheapest_nops: HashMap<usize, f64> = HashMap::new();
    let mut behind: HashMap<usize, f64> = HashMap::new();
    let mut harmful: HashMap<usize, Vec<HarmKind>> = HashMap::new();
    let mut above: HashMap<&CellId, (Option<f64>, Option<f64>)> = HashMap::new();
    for group in groups {
        let rated: Vec<_> = group.candidates.iter().map(|&at| (&settled[at], rates[at].median)).collect();
        let gains = group.candidates.iter().zip(larger_buffers(&rated));
        larger.extend(gains.filter_map(|(&at, gain)| Some((at, gain?))));
        let cheapest = group.candidates.iter().zip(cheapest_siblings(&rated));
        cheapest_nops.extend(cheapest.filter_map(|(&at, ns)| Some((at, ns?))));
        let choices = group.cells.iter().enumerate();
        harmful.extend(group.harm.iter().map(|(at, kinds)| (*at, kinds.clone())));
        behind.extend(choices.filter_map(|(choice, at)| Some((*at, group.behind(choice)?))));
        // A single option is compared with no other: a bound of 0 would read as the best.
        let compared = Some(&group.verdict).filter(|_| group.cells.len() > 1);
        let bounds = |verdict: &GroupVerdict| {
            let ends = verdict.lower.iter().zip(&verdict.upper);
            let ends = ends.map(|(lower, upper)| (lower.and_then(share), upper.and_then(share)));
            group.cells.iter().map(|at| &settled[*at].cell.id).zip(ends).collect::<Vec<_>>()
        };
        above.extend(compared.into_iter().flat_map(bounds));
    }
    let rows = settled.iter().zip(&context.data.cells).zip(rates).enumerate();
    rows.map(|(at, ((cell, row), rate))| {
        let (above_best_lower, above_best_upper) = above.get(&cell.cell.id).copied().unwrap_or_default();
        let siblings =
            Siblings { larger_buffer: larger.get(&at).copied(), cheapest_nop_ns: cheapest_nops.get(&at).copied() };
        let behind = behind.get(&at).copied();
        let view = view(cell, row, rate, &siblings, context);
        let harmful = harmful.remove(&at).unwrap_or_default();
        CellView { above_best_lower, above_best_upper, behind, harmful, ..view }
    })
    .collect()
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

/// Facts about a cell that follow from the other cells of its group.
struct Siblings {
    larger_buffer: Option<(&'static str, f64)>,
    cheapest_nop_ns: Option<f64>,
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

fn view(settled: &Settled, row: &CellRow, estimate: Estimate, siblings: &Siblings, context: &Context) -> CellView {
    let levels = &settled.cell.factors;
    let record = &context.data.record;
    let goes_on = !record.imported && record.status != SessionStatus::Complete;
    let (outcome, reason) = settled.outcome(row.outcome.as_ref(), goes_on);
    let seen = CellCounts::of(settled, context);
    let total_rate = total_rate(settled);
    let rates: Vec<f64> = settled.trials.iter().filter_map(|trial| trial.rate()).collect();
    let (mean, sd) = mean_and_sd(&rates);
    let drift = drift(&rates).filter(|_| settled.is_confirmed());
    let limit = seen.limit(settled, estimate.median, siblings, context);
    let limit = with_other_rate(in_doubt(limit, settled, siblings, context), &estimate, total_rate);
    let CellCounts { counters, cpu, call, ring } = seen;
    let reason = artefact(settled, ring.as_ref()).or(reason).map(|reason| explained(reason, outcome, call.as_ref()));
    // Old trials of the null engine are tagged like those of engines that move bytes.
    let idle_floor = moves_nothing(levels) && settled.trouble(row.outcome.as_ref()).is_some_and(Outcome::moved_nothing);
    let reason = reason.map(|reason| if idle_floor { IDLE_LOOP.to_owned() } else { reason });
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
        stolen_trials: settled.trials.iter().filter(|trial| was_stolen_from(trial)).count(),
        failed_trials: settled.failed.len(),
        failure: settled.failed.last().and_then(|trial| trial.outcome.reason()).map(str::to_owned),
        behind: None,
        harm: harm(settled),
        harmful: Vec::new(),
        stalls: settled.stalls(),
        stalled: (settled.stalled > 0).then_some(StalledView { trials: settled.stalled, of: settled.tried }),
        modes: if settled.is_confirmed() { modes_of(&rates, drift.is_some()) } else { Vec::new() },
        drift,
        more: more(settled, context.level),
        footprint: footprint(levels, &settled.trials, context.varied),
        above_best_lower: None,
        above_best_upper: None,
        estimate,
        total_rate,
        mean,
        sd,
        counters,
        cpu,
        limit,
        call,
        datagrams: datagrams(settled),
        ring,
        relay_program: relay_program(&settled.trials),
    }
}

/// The counts of a cell.
struct CellCounts {
    counters: Counters,
    cpu: CpuView,
    call: Option<CallView>,
    ring: Option<RingView>,
}

impl CellCounts {
    fn of(settled: &Settled, context: &Context) -> CellCounts {
        let levels = &settled.cell.factors;
        let accounting = irq_accounting(&context.data.record.machine);
        CellCounts {
            counters: counters(levels, &settled.trials),
            cpu: cpu(levels, &settled.trials, accounting),
            call: calls(settled),
            ring: ring(settled),
        }
    }

    /// Its limit at a rate.
    fn limit(&self, settled: &Settled, rate: Option<f64>, siblings: &Siblings, context: &Context) -> CellLimit {
        let known = Known {
            settled,
            rate,
            counters: &self.counters,
            cpu: &self.cpu,
            cpus: cpus(&context.data.record.machine),
            // A floor's share of itself tells nothing.
            floor_ns: context.floors.of_group(&settled.cell.group).filter(|_| settled.cell.kind != CellKind::Floor),
            larger_buffer: siblings.larger_buffer,
            cheapest_nop_ns: siblings.cheapest_nop_ns,
        };
        match (rate, &self.call, &self.ring) {
            (Some(_), Some(_), _) if settled.cell.kind == CellKind::Floor => bytegauge_bottleneck::of_floor(),
            (Some(_), Some(call), _) => call::find(&gather_of_calls(&known, call)),
            (Some(_), None, Some(ring)) => ring::find(&gather_of_rings(&known, ring)),
            (Some(_), None, None) if settled.workload() == Workload::Tune => task::find(&settled.trials, known.cpus),
            (Some(_), None, None) => stream::find(&gather(&known)),
            (None, _, Some(ring)) if ring.submitted > 0 => ring::of_artefact(),
            (None, ..) => bytegauge_bottleneck::not_measured(),
        }
    }
}

/// A limit for readers, with the limits of single trials. Those of screening are too few.
fn in_doubt(limit: CellLimit, settled: &Settled, siblings: &Siblings, context: &Context) -> LimitView {
    let CellLimit { name, sentence: brief, evidence } = limit;
    let is_candidate = settled.is_confirmed() && settled.cell.kind == CellKind::Candidate;
    let doubt = is_candidate.then(|| {
        let alone = settled.trials.iter().map(|trial| (settled.by(trial), trial.rate()));
        let names: Vec<_> =
            alone.map(|(one, rate)| CellCounts::of(&one, context).limit(&one, rate, siblings, context).name).collect();
        bytegauge_bottleneck::doubt(name, &names)
    });
    let doubt = doubt.flatten();
    let title = phrase::limit_title(name, doubt.as_ref());
    let leading = bytegauge_bottleneck::leading(name, doubt.as_ref());
    let doubt = doubt.map(|doubt| {
        let Doubt { trials, agree, other, show_other } = doubt;
        LimitDoubt { trials, agree, other, show_other, text: phrase::limit_doubt(name, &doubt) }
    });
    let sentence = doubt.as_ref().map_or_else(|| brief.clone(), |doubt| format!("{brief} ({})", doubt.text));
    LimitView { name, leading, title, sentence, brief, evidence, doubt }
}

/// Shares of time and costs are of all trials together: where those are slower than the median one, the text states it, since
/// what is worked out from both would not agree.
fn with_other_rate(mut limit: LimitView, estimate: &Estimate, total_rate: Option<f64>) -> LimitView {
    let of_time = limit.evidence.keys().any(|name| name.ends_with("_busy") || name.ends_with("_queued_share"));
    if let (true, Some(all), Some(median)) = (of_time, total_rate, estimate.median)
        && (all / median - 1.0).abs() > APART
    {
        let (divisor, unit) = phrase::rate_unit(estimate.unit, median);
        let shown = |rate: f64| significant(rate / divisor, 3);
        limit.sentence.push_str(&format!(
            " (of all trials together, as CPU time is: they made {} {unit}, the median one {})",
            shown(all),
            shown(median)
        ));
    }
    limit
}

/// Rates closer than this contradict nothing.
const APART: f64 = 0.05;

fn relay_program(trials: &[&Trial]) -> Option<RelayProgramView> {
    let all = || trials.iter().filter_map(|trial| trial.end(EndRole::Relay)?.relay_program.as_deref());
    Some(RelayProgramView {
        version: all().next()?.version.clone(),
        left_behind: all().map(|known| known.left_behind).max().unwrap_or(0),
        stopped_by_force: all().any(|known| known.stopped_by_force),
        charged: charged(all().filter_map(|known| known.charged.as_deref())),
    })
}

/// The owner of the CPU time of a relay; trials may differ.
fn charged<'a>(phrases: impl Iterator<Item = &'a str>) -> Option<String> {
    let ways: BTreeSet<&str> = phrases.collect();
    (!ways.is_empty()).then(|| ways.into_iter().collect::<Vec<_>>().join("; in other trials "))
}

fn was_stolen_from(trial: &Trial) -> bool {
    trial.machine.as_ref().is_some_and(|machine| machine.steal_ns > 0)
}

fn label(levels: &Spec, varied: &[String]) -> String {
    let choices = levels.of_role(bytegauge_model::Role::Choice);
    let label = phrase::cell_label(&choices, varied);
    let label = if label.is_empty() {
        phrase::cell_label(&choices, &["server_engine", "read_size", "write_size"].map(str::to_owned))
    } else {
        label
    };
    if moves_nothing(levels) { format!("{label} (moves nothing)").trim_start().to_owned() } else { label }
}

/// Only where confirmation shows it: screening trials are too few and from different minutes. A rate that rises or falls all the time
/// has no speeds of its own.
fn modes_of(rates: &[f64], drifts: bool) -> Vec<ModeView> {
    let modes = if drifts { None } else { modes(rates) };
    modes.unwrap_or_default().into_iter().map(|mode| ModeView { median: mode.centre, share: mode.share }).collect()
}
