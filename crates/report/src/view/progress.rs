//! The progress of a session at an analysis: which tests have a result, and whose options are to be measured in long trials.

use bytegauge_model::Cell;
use bytegauge_stats::group::Method;

use super::analyses::SessionAnalyses;
use super::audit::{AuditedGroup, subjects};
use super::compare::{CompareInput, GroupAnalysis, groups};
use super::counted_trials::{Blocks, Settled};
use super::document::{Test, TestState, View};
use super::group_blocks::GroupBlocks;
use super::{Settings, method, plan_varied, settled};
use crate::SessionData;

/// The results of an analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Tests in which options are compared.
    pub tests: usize,
    /// Those with a conclusive result, as the report has it.
    pub decided: usize,
    /// Those that need no more blocks: they are decided, or more blocks would not help.
    pub settled: usize,
}

impl Progress {
    /// Analyses a session up to the last analysis that its tests completed. The report and the end of a session follow one rule.
    #[must_use]
    pub fn of(session: &SessionData, settings: &Settings) -> Progress {
        let view = View::of(session, &Settings { is_running: true, ..*settings });
        if let Some(versus) = &view.versus {
            let is_decided = versus.difference.verdict != "open";
            // Where a side came to nothing, more pairs show nothing.
            let is_settled = is_decided || versus.blocks == 0;
            return Progress { tests: 1, decided: is_decided.into(), settled: is_settled.into() };
        }
        let mut progress = Progress { tests: 0, decided: 0, settled: 0 };
        let compares = |test: &Test| !matches!(test.state, TestState::Single | TestState::Failed);
        for (test, group) in view.tests.iter().zip(&view.groups).filter(|(test, _)| compares(test)) {
            let is_decided = test.state == TestState::Decided;
            progress.tests += 1;
            progress.decided += usize::from(is_decided);
            progress.settled += usize::from(is_decided || group.recommendation.more_blocks.is_none());
        }
        progress
    }
}

impl AuditedGroup {
    /// The choices of a session so far, and their rivals for long trials.
    #[must_use]
    pub fn all_of(session: &SessionData, settings: &Settings) -> Vec<AuditedGroup> {
        compared(session, settings, |groups, settled, _| subjects(groups, settled))
    }
}

/// The consequences of a session's comparison so far.
pub fn compared<T>(
    session: &SessionData,
    settings: &Settings,
    then: impl FnOnce(&[GroupAnalysis], &[Settled], &Method) -> T,
) -> T {
    let cells: Vec<Cell> = session.cells.iter().map(|row| row.cell.clone()).collect();
    let (method, varied) = (method(session, settings), plan_varied(&cells));
    let group_blocks = GroupBlocks::of(&session.blocks);
    let looks = SessionAnalyses::of(&session.groups, session.record.status, method.level);
    let blocks = Blocks::of(&session.blocks, |group| looks.judged(&session.groups, &group_blocks, group));
    let settled = settled(session, &cells, &blocks);
    let scene = CompareInput {
        settled: &settled,
        blocks: &blocks,
        group_blocks: &group_blocks,
        varied: &varied,
        method: &method,
        looks: &looks,
    };
    then(&groups(session, &scene), &settled, &method)
}
