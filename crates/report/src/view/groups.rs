//! One group: its best set, its A/A control, its recommendation and its cost model.
//!
//! Also the long-trial check, and the groups of an analysis.

use bytegauge_model::{AnalysedGroup, BlockRecord, CellId, ConnectionAge, Cost, Transport, Trial};
use bytegauge_stats::audit::{Audit, AuditFinding, LEVEL, audit, together};
use bytegauge_stats::group::{GroupVerdict, Method, Twin};
use bytegauge_stats::quantile::median;
use serde_json::Value;

use super::compare::{GroupAnalysis, groups};
use super::counted_trials::Settled;
use super::input::{CompareInput, Settings, blocks_of};
use super::numbers::difference::share;
use super::numbers::{
    AuditRival, AuditSummary, AuditView, CellView, GroupRecommendation, GroupView, LinkView, OptionRatio, SerialView,
    TwinView,
};
use super::{cost, tune};
use crate::{SessionData, phrase};

/// Puts together what is printed of one group.
pub fn view(
    judged: &GroupAnalysis,
    conditions: &Conditions,
    blocks: &[BlockRecord],
    fit_max: Option<u64>,
) -> GroupView {
    let ids = |choices: &[usize]| choices.iter().filter_map(|&choice| conditions.id(judged, Some(choice))).collect();
    let verdict = &judged.verdict;
    let mut counted = blocks_of(blocks, &judged.row.group.id);
    // An import has no block records, and what stats could use is what counts.
    counted.used = verdict.blocks_used;
    let compares = compared(judged, conditions.settled);
    GroupView {
        id: judged.row.group.id.clone(),
        factors: judged.row.group.factors.clone(),
        varied: judged.varied.clone(),
        throws_away: conditions.throw_away(judged),
        cost: compares.name(judged.row.group.factors.workload()),
        compares,
        twin_reach: judged.twin_reach(),
        twin: twin(judged, conditions),
        blocks: counted,
        analysis: judged.standing.view.clone(),
        age_ns: age_ns(judged, conditions),
        warmup_ns: warmup_ns(judged, conditions),
        steady: judged.row.facts.get("steady").and_then(Value::as_bool),
        serial: (verdict.present.len() > 1)
            .then_some(SerialView { merged_by: verdict.merged_by, independent: verdict.independent }),
        // With one cell, or too few blocks, nothing has left the set, but nothing was compared either.
        best_set: match verdict.inconclusive {
            None if verdict.present.len() > 1 => ids(&verdict.best_set),
            _ => Vec::new(),
        },
        limited_trials: verdict.slow_limited.iter().sum(),
        spoken_against: ids(&verdict.contradicted),
        audit: audit_view(judged, conditions),
        recommendation: recommendation(judged, conditions),
        cost_model: cost::model(&judged.candidates, pivot(judged, conditions), conditions.settled, fit_max),
        over_time: None,
        link: link_of(judged, conditions),
        asked: false,
        p99_ratios: judged.p99.as_ref().map_or_else(Vec::new, |verdict| ratios(verdict, judged, conditions)),
    }
}

/// The best option against each other one. None where too few blocks were measured.
fn ratios(verdict: &GroupVerdict, judged: &GroupAnalysis, conditions: &Conditions) -> Vec<OptionRatio> {
    let Some(leader) = verdict.leader().filter(|_| judged.standing.proves) else {
        return Vec::new();
    };
    let of_other = |&other: &usize| {
        let pair = verdict.pair(other, leader).filter(|_| other != leader)?;
        let reach = pair.reach();
        Some(OptionRatio {
            option: conditions.id(judged, Some(leader))?,
            other: conditions.id(judged, Some(other))?,
            times_lower: (pair.mean - reach).exp(),
            times_upper: Some((pair.mean + reach).exp()).filter(|times| times.is_finite()),
        })
    };
    verdict.present.iter().filter_map(of_other).collect()
}

/// The counts of the link between its ends, over all trials of the group; `None` without a link, or without counts.
fn link_of(judged: &GroupAnalysis, conditions: &Conditions) -> Option<LinkView> {
    judged.row.group.factors.emulated_link()?;
    let trials = || judged.candidates.iter().flat_map(|&at| &conditions.settled[at].trials);
    let machines = || trials().filter_map(|trial| trial.machine.as_ref());
    let used =
        machines().filter_map(|machine| machine.link.as_deref().copied()).reduce(|one, other| one.plus(&other))?;
    let both = used.both();
    let wall_ns: u64 = machines().map(|machine| machine.wall_ns).sum();
    let trips: Vec<f64> = trials().filter_map(|trial| Some(round_trip_us(trial)? as f64)).collect();
    Some(LinkView {
        round_trip_ns: median(&trips).map(|us| (us * 1e3) as u64),
        late_ns: used.late_ns(),
        passed: both.passed,
        lost: both.lost,
        queue_drops: both.queue_drops,
        cpus: (wall_ns > 0).then(|| used.cpu_ns as f64 / wall_ns as f64),
    })
}

/// The smallest round trip that any connection saw from either end.
fn round_trip_us(trial: &Trial) -> Option<u64> {
    let ends = [trial.source_side(), trial.sink_side()].into_iter().flatten();
    ends.flat_map(|end| &end.flows).filter_map(|flow| flow.tcp.as_ref()?.min_rtt_us.get()).min()
}

/// The compared quantity.
pub fn compared(judged: &GroupAnalysis, settled: &[Settled]) -> Cost {
    if tune::compares_cpu(judged, settled) { Cost::Cpu } else { judged.cost }
}

fn twin(judged: &GroupAnalysis, conditions: &Conditions) -> Option<TwinView> {
    let Twin { difference, spread, alarm, reach, blocks, .. } = judged.verdict.twin?;
    let reported = judged.twin_reach().is_some();
    // The reach is the far end of the interval about the difference: its half width follows.
    let half = reach - difference.abs();
    Some(TwinView {
        cell: conditions.id(judged, judged.input.twin_of)?,
        twin: conditions.cells[judged.twin?].id.clone(),
        difference: share(difference),
        spread: share(spread),
        lower: share(difference - half).filter(|_| reported),
        upper: share(difference + half).filter(|_| reported),
        alarm,
        exchanged_bound: judged.alone.cell.and_then(|cell| share(*judged.verdict.exchanged_upper.get(cell)?.as_ref()?)),
        blocks,
    })
}

/// The value that the harness found; else that of the trials.
fn warmup_ns(judged: &GroupAnalysis, conditions: &Conditions) -> Option<u64> {
    let found = judged.row.facts.get("warmup_ns").and_then(|ns| ns.as_u64().or(ns.as_f64().map(|ns| ns as u64)));
    let first = || judged.candidates.iter().find_map(|&at| conditions.settled[at].trials.first());
    found.or_else(|| first().map(|trial| trial.warmup_ns).filter(|ns| *ns > 0))
}

/// How old the connections were when the window of a trial opened and when it closed, nanoseconds: medians over the
/// confirmed trials. `None` where there is no connection, or one a call.
fn age_ns(judged: &GroupAnalysis, conditions: &Conditions) -> Option<(u64, u64)> {
    let has_an_age = |cell: &&Settled| {
        let factors = &cell.cell.factors;
        factors.transport().is_some_and(Transport::two_ended) && factors.connect_per_call() != Some(true)
    };
    let cells = judged.cells.iter().map(|&at| &conditions.settled[at]).filter(has_an_age);
    let trials = cells.flat_map(|cell| &cell.trials).filter(|trial| trial.warmup_ns > 0 && trial.wall_ns > 0);
    let ages = trials.map(|trial| (trial.warmup_ns as f64, trial.warmup_ns.saturating_add(trial.wall_ns) as f64));
    let (opened, closed): (Vec<f64>, Vec<f64>) = ages.unzip();
    Some((median(&opened)? as u64, median(&closed)? as u64))
}

/// The cell that the verdict names; else the best confirmed; else the fastest seen.
fn pivot(judged: &GroupAnalysis, conditions: &Conditions) -> Option<usize> {
    let fastest = || {
        let rated = judged.candidates.iter().filter_map(|&at| Some((at, conditions.cells[at].estimate.median?)));
        rated.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
    };
    judged.cell(judged.alone.cell).or_else(|| judged.cell(judged.verdict.leader())).or_else(fastest)
}

// The recommendation of a test, from the results of its comparison. The statistics are done already.

/// The input of recommendations, in addition to the comparison.
pub struct Conditions<'a> {
    /// The cells, as they will be printed; in the order of the settled ones.
    pub cells: &'a [CellView],
    /// The same cells with their trials.
    pub settled: &'a [Settled<'a>],
    /// It was measured here, and can continue here.
    pub resumable: bool,
    /// "Within x of the best", as a share.
    pub margin: f64,
    /// The results of long trials for all groups together.
    pub audit: Option<AuditSummary>,
}

impl Conditions<'_> {
    /// The id of the cell that takes a choice in a group.
    pub fn id(&self, group: &GroupAnalysis, choice: Option<usize>) -> Option<CellId> {
        group.cell(choice).map(|at| self.cells[at].id.clone())
    }

    /// Whether the reader of a group discards the bytes; a reader that compares them does not.
    pub fn throw_away(&self, group: &GroupAnalysis) -> bool {
        let verifies = |at: &usize| self.cells[*at].counters.verified_bytes.is_some();
        phrase::throws_away(&group.row.group.factors) && !group.candidates.iter().any(verifies)
    }
}

/// The recommendation of a group. Empty without two compared options, unless one alone carries a load.
fn recommendation(group: &GroupAnalysis, conditions: &Conditions) -> GroupRecommendation {
    let id = |choice: Option<usize>| conditions.id(group, choice);
    let nothing = GroupRecommendation { margin: conditions.margin, ..GroupRecommendation::default() };
    let is_left_alone = || (0..group.cells.len()).any(|choice| group.behind(choice).is_some());
    if group.verdict.present.len() < 2 && !is_left_alone() {
        return nothing;
    }
    let own = GroupRecommendation { cell: id(group.alone.cell), best: id(group.verdict.leader()), ..nothing };
    // A session that stopped before its first analysis may have been stopped because of its results.
    if !group.standing.proves || own.cell.is_none() {
        return own;
    }
    let proven = group.alone.proven && !is_withdrawn(group, conditions);
    let bound = group.alone.upper.and_then(share);
    GroupRecommendation {
        proven,
        bound,
        survives_exchange: survives_exchange(group, conditions.margin).filter(|_| proven),
        more_blocks: blocks_left(group, conditions),
        ..own
    }
}

/// Whether the result holds with the A/A control in its cell's place; `None` without a result, or without a control.
fn survives_exchange(group: &GroupAnalysis, margin: f64) -> Option<bool> {
    let cell = group.alone.cell.filter(|_| group.alone.proven)?;
    group.verdict.survives_exchange(cell, &Method { margin, ..Method::default() })
}

/// Whether the same option measured twice differs by more than the margin: no result is more precise. Unless all other options
/// (`slower`, at least, as shares) are slower than the best by more than that.
pub fn is_control_wide(reach: Option<f64>, margin: f64, slower: &[f64]) -> bool {
    let is_clear = |reach: f64| !slower.is_empty() && slower.iter().all(|lower| *lower > reach);
    reach.is_some_and(|reach| reach > margin && !is_clear(reach))
}

/// The same for an option of a group.
fn is_wide(group: &GroupAnalysis, own: Option<usize>, margin: f64) -> bool {
    let others = group.verdict.present.iter().filter(|&&choice| own.is_some_and(|own| own != choice));
    let slower: Vec<f64> = others.filter_map(|&choice| group.verdict.lower[choice]).map(f64::exp_m1).collect();
    is_control_wide(group.twin_reach(), margin, &slower)
}

/// Whether more blocks may decide a test. `false` for one that is decided.
fn more_blocks_help(group: &GroupAnalysis, conditions: &Conditions) -> bool {
    let (verdict, margin) = (&group.verdict, conditions.margin);
    let is_wide = is_wide(group, group.alone.cell, margin);
    // More blocks narrow the interval of the A/A control, but do not move its middle.
    if is_wide && verdict.twin.is_some_and(|twin| twin.difference.abs() >= margin.ln_1p()) {
        return false;
    }
    match group.alone.proven {
        false => group.alone.blocks_more_needed.is_some(),
        true => (is_wide || survives_exchange(group, margin) == Some(false)) && !is_withdrawn(group, conditions),
    }
}

/// The blocks of the remaining analyses; `None` if they would not reduce the bound.
fn blocks_left(group: &GroupAnalysis, conditions: &Conditions) -> Option<u64> {
    if !conditions.resumable || !more_blocks_help(group, conditions) {
        return None;
    }
    group.standing.view.as_ref()?.blocks_left()
}

// The results of long trials: of each group by itself, and of all groups of a session together.
//
// They can withdraw a proof, or split it by the age of connections, but never make one. If the plan asks for fresh connections,
// longer ones are another case: then the proof remains, and the other result is reported with it.

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
fn is_withdrawn(group: &GroupAnalysis, conditions: &Conditions) -> bool {
    let all = conditions.audit.is_some_and(|all| all.finding == AuditFinding::Contradicts);
    let is_steady = group.row.group.factors.connection_age() == Some(ConnectionAge::Steady);
    let contradicts = |audit: Audit| audit.finding == AuditFinding::Contradicts || all;
    is_steady && of_choice(group, conditions.margin).is_some_and(contradicts)
}

/// The printed results of a group's long trials.
fn audit_view(group: &GroupAnalysis, conditions: &Conditions) -> Option<AuditView> {
    let audit = of_choice(group, conditions.margin)?;
    let id = |choice: usize| conditions.id(group, Some(choice));
    let rivals = audit.rivals.iter().filter_map(|rival| {
        let (slower_lower, slower_upper) = (rival.lower.and_then(share), rival.upper.and_then(share));
        Some(AuditRival { cell: id(rival.cell)?, blocks: rival.blocks, slower_lower, slower_upper })
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
    groups(&input).iter().filter_map(|group| subject(group, &input.settled)).collect()
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
    let wanted = [Some(choice), runner_up, smallest].into_iter().flatten();
    let wanted = phrase::unique(wanted.filter(|cell| verdict.present.contains(cell)));
    let cells = wanted.into_iter().filter_map(|cell| Some(settled[group.cell(Some(cell))?].cell.id.clone()));
    Some(AnalysedGroup { group: group.row.group.id.clone(), cells: cells.collect(), proven: group.alone.proven })
}
