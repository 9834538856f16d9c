//! Compares the choices of each group: lines up the costs of its blocks for `stats`.
//!
//! Only confirmation blocks count. A/A controls, floors, artefacts and engines that move nothing never compete.
//!
//! Also the confirmed cells of sessions that are compared.

use std::collections::{BTreeMap, HashMap};

use bytegauge_bottleneck::OFFERED_SHARE;
use bytegauge_model::cell::footprint;
use bytegauge_model::{CellId, CellKind, Cost, Counted, GroupId, Role, Spec, Trial, Workload};
use bytegauge_stats::group::{BlockInput, CellInput, GroupInput, GroupVerdict, Method, analyse};
use bytegauge_stats::quantile::median;
use bytegauge_stats::recommendation::{OptionRecommendation, recommend};
use bytegauge_stats::trial_metrics::cost_ns;
use bytegauge_store::GroupRow;

use super::bottleneck_inputs::carried_share;
use super::counted_trials::Settled;
use super::counters::lasting;
use super::estimate::{throughput, total_rate};
use super::input::{CompareInput, GroupProgress, Settings, blocks_of};
use super::numbers::HarmKind;
use super::numbers::difference::share;
use super::{is_default, matching, moves_nothing, varied};
use crate::SessionData;

/// One group, judged.
pub struct GroupAnalysis<'a> {
    /// The group and what the harness found about it.
    pub row: &'a GroupRow,
    /// Indices of its candidates among the settled cells.
    pub candidates: Vec<usize>,
    /// The compared cells among the settled ones: its confirmed candidates, in the order of the plan.
    pub cells: Vec<usize>,
    /// Index of its A/A control among the settled cells.
    pub twin: Option<usize>,
    /// Choice factors that vary among its candidates.
    pub varied: Vec<String>,
    /// What is compared: what the user asked for, else what suits the load.
    pub cost: Cost,
    /// The share of that load that each option answered in all of its trials together; `None` where none is offered.
    pub answered: Vec<Option<f64>>,
    /// The lasting harm of its measured candidates, by their indices among the settled cells.
    pub harm: Vec<(usize, Vec<HarmKind>)>,
    /// The confirmation blocks as `stats` takes them.
    pub input: GroupInput,
    /// The costs of the long trials: a row per block, a column per option.
    pub audit: Vec<Vec<Option<f64>>>,
    /// The verdict on it.
    pub verdict: GroupVerdict,
    /// The confirmation blocks by CPU time of a run with the verdict on them, where two programs are compared by their time.
    pub of_cpu: Option<(GroupInput, GroupVerdict)>,
    /// The verdict by the p99 of calls, where a load is offered and the A/A control agrees.
    pub p99: Option<GroupVerdict>,
    /// Its recommendation.
    pub alone: OptionRecommendation,
    /// Which of its blocks were judged, and whether they may prove anything.
    pub standing: GroupProgress,
}

/// Fewer blocks show no spread of an A/A control: the interval of two blocks is very wide.
const TWIN_BLOCKS_MIN: usize = 3;

impl GroupAnalysis<'_> {
    /// How much the same option measured twice may differ, as a share; `None` without a control, or with too few blocks.
    pub fn twin_reach(&self) -> Option<f64> {
        let twin = self.verdict.twin.filter(|twin| twin.blocks >= TWIN_BLOCKS_MIN)?;
        share(twin.reach)
    }

    /// The share of an offered load that a choice answered, where it left more of it unanswered than it may and another carries it.
    pub fn behind(&self, choice: usize) -> Option<f64> {
        behind(&self.answered, choice)
    }

    /// The settled cell behind a choice.
    pub fn cell(&self, choice: Option<usize>) -> Option<usize> {
        self.cells.get(choice?).copied()
    }
}

/// Compares everything in a session, in the order of the plan.
pub fn groups<'a>(scene: &CompareInput<'a>) -> Vec<GroupAnalysis<'a>> {
    let data = scene.session;
    let mut members: HashMap<&GroupId, Vec<usize>> = HashMap::new();
    for (at, cell) in scene.settled.iter().enumerate() {
        members.entry(&cell.cell.group).or_default().push(at);
    }
    let is_of_two = data.record.plan.get("versus").is_some_and(|versus| !versus.is_null());
    let members = |row: &GroupRow| members.get(&row.group.id).map_or(&[][..], Vec::as_slice);
    data.groups.iter().map(|row| judge(row, members(row), is_of_two, scene)).collect()
}

fn competes(settled: &Settled) -> bool {
    settled.cell.kind == CellKind::Candidate
        && settled.is_confirmed()
        && !settled.has_left
        && !moves_nothing(&settled.cell.factors)
}

fn judge<'a>(row: &'a GroupRow, members: &[usize], is_of_two: bool, scene: &CompareInput) -> GroupAnalysis<'a> {
    let (settled, method) = (&scene.settled, &scene.method);
    let those = |is: &dyn Fn(&Settled) -> bool| -> Vec<usize> {
        members.iter().copied().filter(|&at| is(&settled[at])).collect()
    };
    let (cells, candidates) = (those(&competes), those(&|own| own.cell.kind == CellKind::Candidate));
    let twin = those(&|own| own.cell.kind == CellKind::Twin).first().copied();
    let factors = &row.group.factors;
    let cost = factors.cost(scene.objective);
    let standing = scene.analyses.standing(row, blocks_of(&scene.session.blocks, &row.group.id).used);
    let answered: Vec<Option<f64>> = cells.iter().map(|&at| answered(&settled[at])).collect();
    let of_trial = |trial: &Trial| cost_ns(trial, cost, factors);
    let mut input = input(&cells, twin, &of_trial, scene);
    let measured: Vec<usize> = candidates.iter().copied().filter(|&at| !settled[at].trials.is_empty()).collect();
    let lasting = lasting(&measured.iter().map(|&at| &settled[at]).collect::<Vec<_>>());
    let harm: Vec<(usize, Vec<HarmKind>)> = measured.into_iter().zip(lasting).collect();
    for (choice, at) in cells.iter().enumerate() {
        let harmed = harm.iter().any(|(of, kinds)| of == at && !kinds.is_empty());
        let is_behind = behind(&answered, choice).is_some();
        // The cost of an option that harms its users, or leaves a load to others, is no result.
        input.cells[choice].unfit |= harmed || is_behind;
        if is_behind && !is_of_two {
            // Its CPU time is that of a lower rate: others are not compared with it, nor with its A/A control.
            input.blocks.iter_mut().for_each(|block| block.cost[choice] = None);
            input.twin_of = input.twin_of.filter(|of| *of != choice);
        }
    }
    let method = &Method { level: standing.level, ..*method };
    let audit = rows(&cells, |cell| &cell.audited, &of_trial, scene);
    let verdict = analyse(&input, method);
    let alone = recommend(&input, &verdict, method);
    let tasks = || cells.iter().flat_map(|at| &settled[*at].measured).filter_map(|trial| trial.task());
    let is_timed = is_of_two && tasks().all(|task| matches!(task.counted, Counted::Runs | Counted::Bytes));
    let by = |cost: &dyn Fn(&Trial) -> Option<f64>| {
        let input = self::input(&cells, twin, cost, scene);
        let verdict = analyse(&input, method);
        (input, verdict)
    };
    let of_cpu = is_timed.then(|| by(&Trial::cpu_ns_per_run));
    // With several calls at once and no offered load, it is mostly waiting for other calls.
    let is_call = factors.workload() == Workload::Call;
    let is_alone = || is_call && cells.iter().all(|&at| settled[at].cell.factors.calls_at_once() == 1);
    let has_tail = (factors.offers_load() || is_alone()) && cost != Cost::P99 && cells.len() > 1;
    let p99 = has_tail.then(|| by(&|trial| cost_ns(trial, Cost::P99, factors)).1);
    let varied = varied_choices(&candidates, settled);
    GroupAnalysis {
        row,
        candidates,
        cells,
        twin,
        varied,
        cost,
        answered,
        harm,
        input,
        audit,
        verdict,
        of_cpu,
        p99,
        alone,
        standing,
    }
}

/// The share of an offered load that the trials of a cell answered.
fn answered(settled: &Settled) -> Option<f64> {
    let rates: Vec<f64> = settled.trials.iter().filter_map(|trial| trial.rate()).collect();
    carried_share(total_rate(settled), median(&rates), &settled.cell.factors)
}

fn behind(answered: &[Option<f64>], choice: usize) -> Option<f64> {
    let is_carried = answered.iter().flatten().any(|share| *share >= OFFERED_SHARE);
    answered[choice].filter(|share| is_carried && *share < OFFERED_SHARE)
}

/// Choices that have more than one level among the cells, in the order of the factor table.
pub fn varied_choices(cells: &[usize], settled: &[Settled]) -> Vec<String> {
    let levels: Vec<&Spec> = cells.iter().map(|&at| &settled[at].cell.factors).collect();
    // One program's option may be another's condition.
    varied(&levels, |levels, name| levels.role_of(name) == Role::Choice)
}

fn input(
    cells: &[usize],
    twin: Option<usize>,
    cost: &dyn Fn(&Trial) -> Option<f64>,
    scene: &CompareInput,
) -> GroupInput {
    let settled = &scene.settled;
    let columns: Vec<usize> = cells.iter().copied().chain(twin).collect();
    let block = |mut cost: Vec<Option<f64>>| {
        let twin_cost = cost.split_off(cells.len()).first().copied().flatten();
        BlockInput { cost, twin_cost }
    };
    let twin_of = twin.and_then(|at| settled[at].cell.twin_of.as_ref());
    let is_twinned = |at: &usize| Some(&settled[*at].cell.id) == twin_of;
    let choices = varied_choices(cells, settled);
    GroupInput {
        cells: cells.iter().map(|&at| cell_input(at, &settled[at], &choices, &scene.varied)).collect(),
        twin_of: cells.iter().position(is_twinned),
        blocks: rows(&columns, |cell| &cell.confirmed, cost, scene).into_iter().map(block).collect(),
    }
}

/// The costs in whole blocks: a row for each, a column for each of these cells. Broken blocks were repeated and do not count.
fn rows(
    cells: &[usize],
    trials: for<'b> fn(&'b Settled<'b>) -> &'b Vec<&'b Trial>,
    cost: &dyn Fn(&Trial) -> Option<f64>,
    scene: &CompareInput,
) -> Vec<Vec<Option<f64>>> {
    let mut by_block: BTreeMap<u64, Vec<Option<f64>>> = BTreeMap::new();
    for (column, at) in cells.iter().enumerate() {
        for trial in trials(&scene.settled[*at]).iter().filter(|trial| scene.blocks.is_whole(trial.block)) {
            by_block.entry(trial.block).or_insert_with(|| vec![None; cells.len()])[column] = cost(trial);
        }
    }
    by_block.into_values().collect()
}

/// `order`: the place in the plan. `choices` are the factors that vary in the group, `varied` those that vary in the session.
fn cell_input(order: usize, settled: &Settled, choices: &[String], varied: &[String]) -> CellInput {
    let cpu: Vec<f64> = settled.trials.iter().filter_map(|trial| trial.cpu_ns_per_unit()).collect();
    CellInput {
        footprint_bytes: footprint(&settled.cell.factors, &settled.trials, varied).map(|bytes| bytes as f64),
        cpu_per_unit: median(&cpu),
        order,
        is_default: is_default(&settled.cell.factors, choices),
        unfit: settled.stalls(),
    }
}

// The confirmed results of a session, for comparisons of several sessions.

/// A group of a session, with the cells that were compared.
pub struct SessionGroup {
    /// The group.
    pub id: GroupId,
    /// Its conditions.
    pub conditions: Spec,
    /// Whether a significant result of it counts as proven.
    pub proves: bool,
    /// The compared cells.
    pub cells: Vec<ConfirmedCell>,
    /// Its comparison, with the cells in the same order.
    pub verdict: GroupVerdict,
}

/// A compared cell.
#[derive(Clone)]
pub struct ConfirmedCell {
    /// The cell.
    pub id: CellId,
    /// Its choices.
    pub choices: Spec,
    /// The memory that it takes, bytes, where its choices state one.
    pub footprint_bytes: Option<f64>,
    /// It stalls, harms its users, or does not carry a load that others carry.
    pub unfit: bool,
}

impl SessionGroup {
    /// The groups of a session.
    pub fn all_of(session: &SessionData, settings: &Settings) -> Vec<SessionGroup> {
        let input = CompareInput::of(session, settings);
        groups(&input).into_iter().map(|group| of_group(group, &input)).collect()
    }
}

fn of_group(group: GroupAnalysis, input: &CompareInput) -> SessionGroup {
    let cells = group.cells.iter().zip(&group.input.cells).map(|(&at, cell)| {
        let settled = &input.settled[at];
        ConfirmedCell {
            id: settled.cell.id.clone(),
            choices: matching(&settled.cell.factors, Some(Role::Choice)),
            footprint_bytes: cell.footprint_bytes,
            unfit: cell.unfit,
        }
    });
    SessionGroup {
        id: group.row.group.id.clone(),
        conditions: matching(&group.row.group.factors, None),
        proves: group.standing.proves,
        cells: cells.collect(),
        verdict: group.verdict,
    }
}

/// The rate of a confirmed cell: the median that the report shows, so that no two screens order two cells of a session
/// differently.
pub struct ConfirmedRate {
    /// Its levels.
    pub levels: Spec,
    /// ln of its cost: the time of its work, or the CPU time under an offered load.
    pub ln_cost: f64,
    /// Its rate, per second.
    pub rate: Option<f64>,
}

impl ConfirmedRate {
    /// The confirmed cells of a session.
    pub fn all_of(session: &SessionData, settings: &Settings) -> Vec<ConfirmedRate> {
        let input = CompareInput::of(session, settings);
        let confirmed =
            input.settled.iter().filter(|cell| cell.cell.kind == CellKind::Candidate && cell.is_confirmed());
        let each = confirmed.filter_map(|cell| {
            let rate = throughput(cell, input.method.level).median;
            let factors = &cell.cell.factors;
            let of_trials = |cost| cell.trials.iter().filter_map(move |trial| cost_ns(trial, cost, factors));
            let cost = match factors.cost(input.objective) {
                Cost::Time => rate.map(|rate| 1.0 / rate),
                other => median(&of_trials(other).collect::<Vec<_>>()),
            };
            let ln_cost = cost?.ln();
            ln_cost.is_finite().then(|| ConfirmedRate { levels: matching(&cell.cell.factors, None), ln_cost, rate })
        });
        each.collect()
    }
}
