//! The input of the comparison: the trials of a session that count, by cell and by block, and how they are analysed.

use bytegauge_model::{BlockRecord, CellKind, Cost, GroupId, Outcome, Spec, Stage, Trial};
use bytegauge_stats::group::Method;
use serde::Deserialize;

use super::analyses::SessionAnalyses;
use super::consistency::contradiction;
use super::counted_trials::{Blocks, Settled, settle};
use super::environment;
use super::levels::varied;
use super::numbers::BlocksView;
use crate::SessionData;

/// The input of the comparison: the trials of a session that count.
pub struct CompareInput<'a> {
    /// Every cell with its trials.
    pub settled: Vec<Settled<'a>>,
    /// Every block, judged.
    pub blocks: Blocks<'a>,
    /// Confirmation blocks by group.
    pub group_blocks: GroupBlocks<'a>,
    /// Every factor that the plan varies.
    pub varied: Vec<String>,
    /// How to judge.
    pub method: Method,
    /// When the session is judged.
    pub analyses: SessionAnalyses,
    /// What the user asked to compare.
    pub objective: Option<Cost>,
}

impl<'a> CompareInput<'a> {
    /// Sorts the trials of a stored session.
    pub fn of(session: &'a SessionData, settings: &Settings) -> CompareInput<'a> {
        let method = method(session, settings);
        let group_blocks = GroupBlocks(&session.blocks);
        let analyses = SessionAnalyses::of(&session.groups, session.record.status, method.level);
        let blocks = Blocks::of(&session.blocks, |group| analyses.judged(&session.groups, &group_blocks, group));
        let settled = settled(session, &blocks);
        let planned = || Cost::deserialize(session.record.plan.get("objective")?).ok();
        CompareInput {
            settled,
            blocks,
            group_blocks,
            varied: plan_varied(session),
            method,
            analyses,
            objective: settings.objective.or_else(planned),
        }
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

/// How a session is analysed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Confidence of every interval and of every family of comparisons, as a share.
    pub level: f64,
    /// "Within x of the best", as a share; `None` takes the session's own.
    pub margin: Option<f64>,
    /// The largest size that the fits of the cost use, bytes.
    pub fit_max: Option<u64>,
    /// What to compare, where a test has it; `None` for what suits its load.
    pub objective: Option<Cost>,
    /// A process measures the session just now. A session that is stored as running without such a process
    /// was interrupted.
    pub is_running: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { level: 0.95, margin: None, fit_max: None, objective: None, is_running: false }
    }
}

impl Settings {
    /// The confidence of all analyses together, as a share.
    pub fn confidence(&self) -> f64 {
        if self.level > 0.5 && self.level < 1.0 { self.level } else { 0.95 }
    }
}

/// The blocks of a session, of which each group has some.
pub struct GroupBlocks<'a>(&'a [BlockRecord]);

impl GroupBlocks<'_> {
    /// The confirmation blocks of a group: their number, state and duration.
    pub fn of_group(&self, group: &GroupId) -> BlocksView {
        let own = || self.0.iter().filter(|block| block.stage == Stage::Confirm && block.group == *group);
        let used = own().filter(|block| block.complete).count();
        let lengths = own().filter(|block| block.complete).map(|block| block.surroundings.wall_ns);
        let (timed, ns) = lengths.filter(|ns| *ns > 0).fold((0, 0u64), |(n, sum), ns| (n + 1, sum.saturating_add(ns)));
        BlocksView { used, broken: own().count() - used, mean_ns: ns.checked_div(timed) }
    }
}
