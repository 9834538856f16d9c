//! The input of the comparison: the trials of a session that count, by cell and by block.

use bytegauge_model::{CellKind, Outcome, Spec, Trial};
use bytegauge_stats::group::Method;

use super::analyses::SessionAnalyses;
use super::consistency::contradiction;
use super::counted_trials::{Blocks, Settled, settle};
use super::environment;
use super::group_blocks::GroupBlocks;
use super::levels::varied;
use super::settings::Settings;
use crate::SessionData;

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
    pub looks: SessionAnalyses,
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
