//! The progress of a session at an analysis: which groups have a result, and whose choices are to be measured in long trials.

use bytegauge_model::Cell;
use bytegauge_stats::group::Method;
use bytegauge_stats::interim;

use super::analyses::SessionAnalyses;
use super::audit::{AuditedGroup, subjects};
use super::compare::{CompareInput, GroupAnalysis, groups};
use super::counted_trials::{Blocks, Settled};
use super::group_blocks::GroupBlocks;
use super::versus::Compared;
use super::{Settings, method, plan_varied, settled, two};
use crate::SessionData;

/// The results of an analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Groups in which choices are compared.
    pub groups: usize,
    /// Groups that need no more blocks: something is proven, or nothing ever will be.
    pub settled: usize,
}

impl Progress {
    /// Analyses a session up to the last analysis that its groups completed.
    #[must_use]
    pub fn of(session: &SessionData, settings: &Settings) -> Progress {
        compared(session, settings, |groups, all, method| {
            let mut progress = Progress { groups: 0, settled: 0 };
            if let Some(two) = two(session) {
                let settled = Compared::of(&two, groups, all, method.margin).is_settled();
                return Progress { groups: 1, settled: usize::from(settled) };
            }
            let compares = |group: &&GroupAnalysis| group.verdict.present.len() > 1;
            for group in groups.iter().filter(compares) {
                let method = Method { level: group.standing.level, ..*method };
                progress.groups += 1;
                progress.settled += usize::from(interim::settled(std::slice::from_ref(&group.verdict), &method));
            }
            progress
        })
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
