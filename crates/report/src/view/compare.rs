//! Compares choices: groups that differ in their profile alone form a family, whose choices are lined up so
//! that `stats` can judge each group and then all of them together.
//!
//! Only confirmation blocks count. A/A controls, floors, artefacts and engines that move nothing never compete.

use std::collections::{BTreeMap, HashMap};

use bytegauge_bottleneck::OFFERED_SHARE;
use bytegauge_model::{CellKind, GroupId, Level, Outcome, Role, Spec, Trial};
use bytegauge_stats::group::{BlockInput, CellInput, GroupInput, GroupVerdict, Method, analyse};
use bytegauge_stats::recommend::{OptionRecommendation, over_profiles};
use bytegauge_store::GroupRow;

use super::Settings;
use super::analyses::{GroupProgress, SessionAnalyses};
use super::bottleneck_inputs::offered_rate;
use super::consistency::contradiction;
use super::counted_trials::{Blocks, Settled, settle};
use super::document::HarmView;
use super::document::difference::share;
use super::environment;
use super::estimate::total_rate;
use super::footprint::footprint;
use super::group_blocks::GroupBlocks;
use super::harm::{beyond, harm, least};
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
    /// The load is offered, so CPU time is compared.
    pub offered: bool,
    /// The share of that load that each option answered in all of its trials together; `None` where none is offered.
    pub answered: Vec<Option<f64>>,
    /// The confirmation blocks as `stats` takes them.
    pub input: GroupInput,
    /// The costs of the long trials: a row per block, a column per option.
    pub audit: Vec<Vec<Option<f64>>>,
    /// The verdict on it.
    pub verdict: GroupVerdict,
    /// Its recommendation.
    pub alone: OptionRecommendation,
    /// Which of its blocks were judged, and whether they may prove anything.
    pub standing: GroupProgress,
    /// Results of earlier analyses that the present one does not repeat.
    pub once: Once,
}

/// Results of earlier analyses that the present one does not repeat: options, ascending. Each analysis keeps its share of the error,
/// so that both may be reported; their difference must be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Once {
    /// Slower than the best by more than the margin.
    pub avoided: Vec<usize>,
    /// Named, and within the margin of the best.
    pub proven: Vec<usize>,
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

    /// Whether any option was confirmed and is in the comparison.
    pub fn is_confirmed(&self) -> bool {
        !self.verdict.present.is_empty()
    }
}

/// The input of the comparison: the trials of a session that count.
pub struct CompareInput<'a> {
    /// Every cell with its trials.
    pub settled: Vec<Settled<'a>>,
    /// Every block, judged.
    pub blocks: Blocks<'a>,
    /// Confirmation blocks by group.
    pub group_blocks: GroupBlocks,
    /// Every factor that the plan varies.
    pub varied: Vec<String>,
    /// How to judge.
    pub method: Method,
    /// When the session is judged.
    looks: SessionAnalyses,
}

impl<'a> CompareInput<'a> {
    /// Sorts the trials of a stored session.
    pub fn of(session: &'a SessionData, settings: &Settings) -> CompareInput<'a> {
        let method = method(session, settings);
        let group_blocks = GroupBlocks::of(&session.blocks);
        let looks = SessionAnalyses::of(&session.groups, session.record.status, method.level);
        let blocks = Blocks::of(&session.blocks, |group| looks.judged(&session.groups, &group_blocks, group));
        let settled = settled(session, &blocks);
        CompareInput { settled, blocks, group_blocks, varied: plan_varied(session), method, looks }
    }
}

/// How a session is judged.
fn method(session: &SessionData, settings: &Settings) -> Method {
    let margin = settings.margin.unwrap_or(session.record.margin);
    let margin = if margin.is_finite() && margin > 0.0 { margin } else { 0.05 };
    let (seed, groups) = (session.record.seed, session.groups.len().max(1));
    Method { level: settings.confidence(), margin, seed, groups, ..Method::default() }
}

/// The trials of every cell, and whether it has left its group.
fn settled<'a>(session: &'a SessionData, blocks: &Blocks) -> Vec<Settled<'a>> {
    let mut settled = settle(session.cells.iter().map(|row| &row.cell), &session.trials, blocks);
    let cpus = environment::cpus(&session.record.machine);
    for (settled, row) in settled.iter_mut().zip(&session.cells) {
        // The trials behind the estimate, and those that chose the finalists.
        let found = |trials: &[&Trial]| contradiction(&settled.cell.factors, trials, cpus);
        if let Some(phrases) = found(&settled.trials).or_else(|| found(&settled.measured)) {
            settled.reject(phrases);
        }
        settled.has_left = row.outcome.as_ref().is_some_and(|outcome| *outcome != Outcome::Measured);
    }
    settled
}

/// Factors with more than one level among the candidates of the session.
fn plan_varied(session: &SessionData) -> Vec<String> {
    let candidates = session.cells.iter().filter(|row| row.cell.kind == CellKind::Candidate);
    let levels: Vec<&Spec> = candidates.map(|row| &row.cell.factors).collect();
    varied(&levels, |_, _| true)
}

/// Compares everything in a session, in the order of the plan.
pub fn groups<'a>(data: &'a SessionData, scene: &CompareInput) -> Vec<GroupAnalysis<'a>> {
    let members = members(&scene.settled);
    let of_row = |row: &'a GroupRow| judge(row, members.get(&row.group.id).map_or(&[], Vec::as_slice), scene);
    data.groups.iter().map(of_row).collect()
}

fn members<'a>(settled: &'a [Settled]) -> HashMap<&'a GroupId, Vec<usize>> {
    let mut members: HashMap<&GroupId, Vec<usize>> = HashMap::new();
    for (at, cell) in settled.iter().enumerate() {
        members.entry(&cell.cell.group).or_default().push(at);
    }
    members
}

fn competes(settled: &Settled) -> bool {
    settled.cell.kind == CellKind::Candidate
        && settled.is_confirmed()
        && !settled.has_left
        && !moves_nothing(&settled.cell.factors)
}

/// Whether the cell's engine moves no bytes, or its ring is none.
pub fn moves_nothing(levels: &Spec) -> bool {
    ["engine", "server_engine", "client_engine", "implementation"]
        .iter()
        .any(|engine| levels.get(engine).name() == Some("null"))
}

fn judge<'a>(row: &'a GroupRow, members: &[usize], scene: &CompareInput) -> GroupAnalysis<'a> {
    let (settled, method) = (&scene.settled, &scene.method);
    let cells: Vec<usize> = members.iter().copied().filter(|&at| competes(&settled[at])).collect();
    let candidates: Vec<usize> =
        members.iter().copied().filter(|&at| settled[at].cell.kind == CellKind::Candidate).collect();
    let twin = members.iter().copied().find(|&at| settled[at].cell.kind == CellKind::Twin);
    let offered = row.group.factors.offers_load();
    let standing = scene.looks.standing(row, scene.group_blocks.of_group(&row.group.id).used);
    let answered: Vec<Option<f64>> = cells.iter().map(|&at| answered(&settled[at])).collect();
    let mut input = input(&cells, twin, offered, scene);
    let harms: Vec<HarmView> = cells.iter().map(|&at| harm(&settled[at])).collect();
    let least = least(&harms.iter().collect::<Vec<_>>());
    for (choice, own) in harms.iter().enumerate() {
        let harmed = !beyond(own, &least).is_empty();
        // The cost of an option that harms its users, or leaves a load to others, is no result.
        input.cells[choice].unfit |= harmed || behind(&answered, choice).is_some();
    }
    let method = &Method { level: standing.level, ..*method };
    let audit = audit_rows(&cells, offered, scene);
    let verdict = analyse(&input, method);
    let alone = over_profiles(&[(&input, &verdict)], method);
    let once = once(&input, &verdict, &standing, method);
    GroupAnalysis {
        row,
        varied: varied_choices(&candidates, settled),
        candidates,
        cells,
        twin,
        offered,
        answered,
        audit,
        input,
        verdict,
        alone,
        standing,
        once,
    }
}

/// The share of an offered load that all trials of a cell together answered.
fn answered(settled: &Settled) -> Option<f64> {
    Some(total_rate(settled)? / offered_rate(&settled.cell.factors)?)
}

fn behind(answered: &[Option<f64>], choice: usize) -> Option<f64> {
    let is_carried = answered.iter().flatten().any(|share| *share >= OFFERED_SHARE);
    answered[choice].filter(|share| is_carried && *share < OFFERED_SHARE)
}

fn once(input: &GroupInput, now: &GroupVerdict, standing: &GroupProgress, method: &Method) -> Once {
    let avoids = |verdict: &GroupVerdict, choice: usize| {
        verdict.lower.get(choice).copied().flatten().is_some_and(|lower| lower > method.ln_margin())
    };
    let mut once = Once::default();
    for blocks in standing.earlier() {
        let judged = GroupInput { blocks: input.blocks[..blocks.min(input.blocks.len())].to_vec(), ..input.clone() };
        let then = analyse(&judged, method);
        once.avoided.extend((0..input.cells.len()).filter(|&choice| !then.twin_alarm && avoids(&then, choice)));
        let named = over_profiles(&[(&judged, &then)], method);
        once.proven.extend(named.cell.filter(|_| named.proven));
    }
    for found in [&mut once.avoided, &mut once.proven] {
        found.sort_unstable();
        found.dedup();
    }
    once.avoided.retain(|&choice| !avoids(now, choice));
    once.proven.retain(|&choice| !now.proves(choice, method));
    once
}

/// The levels by which cells and groups of different sessions are matched: all, or those of a role. Older sessions do not state
/// their workload.
pub fn matching(levels: &Spec, role: Option<Role>) -> Spec {
    let of_role = role.map_or_else(|| levels.clone(), |role| levels.of_role(role));
    let mut matching = of_role.with_workload(levels.workload());
    matching.drop_absent();
    matching
}

/// Choices that have more than one level among the cells, in the order of the factor table.
pub fn varied_choices(cells: &[usize], settled: &[Settled]) -> Vec<String> {
    let levels: Vec<&Spec> = cells.iter().map(|&at| &settled[at].cell.factors).collect();
    // One program's option may be another's condition.
    varied(&levels, |levels, name| levels.role_of(name) == Role::Choice)
}

/// Factors that have more than one level among the cells of which they are counted, in the order of the factor table.
/// Where a factor does not exist it has no level: a device compared with sockets varies no socket option.
pub fn varied(levels: &[&Spec], counts: impl Fn(&Spec, &str) -> bool) -> Vec<String> {
    let varies = |name: &str| {
        let counted = levels.iter().filter(|levels| counts(levels, name)).map(|levels| levels.get(name));
        let mut present = counted.filter(|level| *level != Level::Absent);
        present.next().is_some_and(|first| present.any(|other| other != first))
    };
    bytegauge_model::FACTORS.iter().filter(|factor| varies(factor.name)).map(|factor| factor.name.to_owned()).collect()
}

fn input(cells: &[usize], twin: Option<usize>, offered: bool, scene: &CompareInput) -> GroupInput {
    let (settled, blocks) = (&scene.settled, &scene.blocks);
    let cost = |trial: &Trial| trial.cost_ns(offered);
    // By block, then by choice; broken blocks were repeated and do not count.
    let mut by_block: BTreeMap<u64, BlockInput> = BTreeMap::new();
    let mut note = |at: usize, put: &dyn Fn(&mut BlockInput, Option<f64>)| {
        for trial in settled[at].confirmed.iter().filter(|trial| blocks.is_whole(trial.block)) {
            let empty = || BlockInput { cost: vec![None; cells.len()], twin_cost: None };
            put(by_block.entry(trial.block).or_insert_with(empty), cost(trial));
        }
    };
    for (choice, at) in cells.iter().enumerate() {
        note(*at, &|block, cost| block.cost[choice] = cost);
    }
    if let Some(at) = twin {
        note(at, &|block, cost| block.twin_cost = cost);
    }
    let twin_of = twin.and_then(|at| settled[at].cell.twin_of.as_ref());
    let is_twinned = |at: &usize| Some(&settled[*at].cell.id) == twin_of;
    let choices = varied_choices(cells, settled);
    GroupInput {
        cells: cells.iter().map(|&at| cell_input(at, &settled[at], &choices, &scene.varied)).collect(),
        twin_of: cells.iter().position(is_twinned),
        blocks: by_block.into_values().collect(),
    }
}

/// The audit's whole blocks, a row each.
fn audit_rows(cells: &[usize], offered: bool, scene: &CompareInput) -> Vec<Vec<Option<f64>>> {
    let mut by_block: BTreeMap<u64, Vec<Option<f64>>> = BTreeMap::new();
    for (choice, at) in cells.iter().enumerate() {
        let trials = &scene.settled[*at].audited;
        for trial in trials.iter().filter(|trial| scene.blocks.is_whole(trial.block)) {
            by_block.entry(trial.block).or_insert_with(|| vec![None; cells.len()])[choice] = trial.cost_ns(offered);
        }
    }
    by_block.into_values().collect()
}

/// Whether a choice leaves everything that varies to the system.
pub fn is_default(levels: &Spec, varied: &[String]) -> bool {
    !varied.is_empty() && varied.iter().all(|factor| levels.get(factor).is_auto())
}

/// `order`: the place in the plan. `choices` are the factors that vary in the group, `varied` those that vary in the session.
fn cell_input(order: usize, settled: &Settled, choices: &[String], varied: &[String]) -> CellInput {
    let cpu: Vec<f64> = settled.trials.iter().filter_map(|trial| trial.cpu_ns_per_unit()).collect();
    CellInput {
        footprint_bytes: footprint(&settled.cell.factors, &settled.trials, varied).map(|bytes| bytes as f64),
        cpu_per_unit: bytegauge_stats::quantile::median(&cpu),
        order,
        is_default: is_default(&settled.cell.factors, choices),
        unfit: settled.stalled > 0,
    }
}
