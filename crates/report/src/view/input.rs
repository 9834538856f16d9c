//! The input of the comparison: the trials of a session that count, by cell and by block, and how they are analysed.
//!
//! Also interim analyses.

use bytegauge_model::{BlockRecord, CellKind, Cost, GroupId, Outcome, SessionStatus, Spec, Stage, Trial};
use bytegauge_stats::group::Method;
use bytegauge_stats::interim::{InterimAnalysis, completed, next, schedule};
use bytegauge_store::GroupRow;

use super::counted_trials::{Blocks, Settled, contradiction, settle};
use super::numbers::{BlocksView, InterimView};
use super::{environment, planned, varied};
use crate::SessionData;

/// The input of the comparison: the trials of a session that count.
pub struct CompareInput<'a> {
    /// The session.
    pub session: &'a SessionData,
    /// Every cell with its trials.
    pub settled: Vec<Settled<'a>>,
    /// Every block, judged.
    pub blocks: Blocks<'a>,
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
        let analyses = SessionAnalyses::of(&session.groups, session.record.status, method.level);
        let blocks = Blocks::of(&session.blocks, |group| analyses.judged(session, group));
        let settled = settled(session, &blocks);
        let objective = settings.objective.or_else(|| planned(&session.record.plan, "objective"));
        CompareInput { session, settled, blocks, varied: plan_varied(session), method, analyses, objective }
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

/// The confirmation blocks of a group: their number, state and duration.
pub fn blocks_of(blocks: &[BlockRecord], group: &GroupId) -> BlocksView {
    let own = || blocks.iter().filter(|block| block.stage == Stage::Confirm && block.group == *group);
    let used = own().filter(|block| block.complete).count();
    let lengths = own().filter(|block| block.complete).map(|block| block.surroundings.wall_ns);
    let (timed, ns) = lengths.filter(|ns| *ns > 0).fold((0, 0u64), |(n, sum), ns| (n + 1, sum.saturating_add(ns)));
    BlocksView { used, broken: own().count() - used, mean_ns: ns.checked_div(timed) }
}

// Which of a group's blocks count for results: those up to its last complete analysis.
//
// A session with several analyses has them in the facts of its groups: `looks`, their largest number, and `blocks_fixed`, the
// blocks of the first. Other sessions have one analysis, at the number of blocks that was fixed before the first of them. Only
// reads facts and counts blocks: nothing here depends on results.

/// Analyses of a session at most: each has twice the blocks of the previous one. A file of results may state any number.
const ANALYSES_MAX: usize = usize::BITS as usize;

/// The analyses of a session.
pub struct SessionAnalyses {
    /// Their declared number; `None` if the session has none.
    of: Option<usize>,
    /// Blocks of the first analysis, for groups that do not state it.
    first: Option<usize>,
    /// Confidence of all analyses together, as a share.
    level: f64,
    /// The session was interrupted, at a time that a user may have chosen by the results.
    unfinished: bool,
}

/// The state of a group between analyses.
#[derive(Clone, Debug)]
pub struct GroupProgress {
    /// The number of its analysed blocks; `None` for all.
    pub blocks: Option<usize>,
    /// The level.
    pub level: f64,
    /// Whether a significant result counts as proven.
    pub proves: bool,
    /// For the report; `None` if the session has no analyses.
    pub view: Option<InterimView>,
}

impl InterimView {
    /// Numbers of blocks at the remaining analyses. `None` after the last.
    pub fn left_until(&self) -> Option<usize> {
        self.next_blocks.map(|_| self.last_blocks)
    }

    /// The blocks of the remaining analyses.
    pub fn blocks_left(&self) -> Option<u64> {
        Some(self.left_until()?.saturating_sub(self.blocks + self.so_far) as u64)
    }
}

impl SessionAnalyses {
    /// Reads the facts of the groups.
    pub fn of(groups: &[GroupRow], status: SessionStatus, level: f64) -> SessionAnalyses {
        let first = |name: &str| groups.iter().find_map(|row| number(row, name));
        let unfinished = matches!(status, SessionStatus::Incomplete | SessionStatus::Running);
        let of = first("looks").filter(|analyses| (1..=ANALYSES_MAX).contains(analyses));
        SessionAnalyses { of, first: first("blocks_fixed"), level, unfinished }
    }

    /// The number of analysed blocks of the group of this name; `None` for all.
    fn judged(&self, session: &SessionData, id: &GroupId) -> Option<usize> {
        let row = session.groups.iter().find(|row| row.group.id == *id)?;
        self.standing(row, blocks_of(&session.blocks, id).used).blocks
    }

    /// The state of a group with this number of whole blocks.
    pub fn standing(&self, row: &GroupRow, blocks: usize) -> GroupProgress {
        let first = number(row, "blocks_fixed").or(self.first).filter(|blocks| *blocks > 0);
        let Some((of, first)) = self.of.zip(first) else {
            return GroupProgress { blocks: None, level: self.level, proves: !self.unfinished, view: None };
        };
        let analyses = schedule(first, of, self.level);
        // A session that ran out of time within its first analysis was stopped by the clock, not by its results.
        let by_clock = || Some(InterimAnalysis { blocks, ..*analyses.first()? }).filter(|_| !self.unfinished);
        let done = completed(&analyses, blocks).or_else(by_clock);
        let judged = done.map(|analysis| analysis.blocks);
        GroupProgress {
            blocks: judged,
            level: analyses[0].level,
            proves: done.is_some(),
            view: Some(InterimView {
                done: done.map_or(0, |analysis| analysis.number),
                of,
                level: analyses[0].level,
                blocks: judged.unwrap_or(0),
                so_far: blocks - judged.unwrap_or(0),
                next_blocks: next(&analyses, blocks).map(|analysis| analysis.blocks),
                last_blocks: analyses.last().map_or(0, |analysis| analysis.blocks),
            }),
        }
    }
}

fn number(row: &GroupRow, name: &str) -> Option<usize> {
    row.number(name).and_then(|number| usize::try_from(number).ok())
}
