//! The comparison of a stored session by itself, without a document.

use bytegauge_model::Cell;
use bytegauge_stats::group::Method;

use super::analyses::SessionAnalyses;
use super::audit::{AuditedGroup, subjects};
use super::compare::{CompareInput, GroupAnalysis, groups};
use super::counted_trials::{Blocks, Settled};
use super::group_blocks::GroupBlocks;
use super::{Settings, method, plan_varied, settled};
use crate::SessionData;

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
