//! Which of a group's blocks count for results: those up to its last complete analysis.
//!
//! A session with several analyses has them in the facts of its groups: `looks`, their largest number, and `blocks_fixed`, the
//! blocks of the first. Other sessions have one analysis, at the number of blocks that was fixed before the first of them. Only
//! reads facts and counts blocks: nothing here depends on results.

use bytegauge_model::{GroupId, SessionStatus};
use bytegauge_stats::interim::{InterimAnalysis, completed, next, schedule};
use bytegauge_store::GroupRow;

use super::input::GroupBlocks;
use super::numbers::InterimView;

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
}

impl GroupProgress {
    /// Numbers of blocks at the analyses before the current one, ascending.
    pub fn earlier(&self) -> Vec<usize> {
        let Some(analysis) = self.view.as_ref().filter(|analysis| self.proves && analysis.done > 1) else {
            return Vec::new();
        };
        (1..analysis.done).map(|back| analysis.blocks >> back).rev().collect()
    }
}

impl SessionAnalyses {
    /// Reads the facts of the groups.
    pub fn of(groups: &[GroupRow], status: SessionStatus, level: f64) -> SessionAnalyses {
        let first = |name: &str| groups.iter().find_map(|row| number(row, name));
        let unfinished = matches!(status, SessionStatus::Incomplete | SessionStatus::Running);
        SessionAnalyses {
            of: first("looks").filter(|analyses| (1..=ANALYSES_MAX).contains(analyses)),
            first: first("blocks_fixed"),
            level,
            unfinished,
        }
    }

    /// The number of analysed blocks of the group of this name; `None` for all.
    pub fn judged(&self, groups: &[GroupRow], blocks: &GroupBlocks, id: &GroupId) -> Option<usize> {
        let row = groups.iter().find(|row| row.group.id == *id)?;
        self.standing(row, blocks.of_group(id).used).blocks
    }

    /// The state of a group with this number of whole blocks.
    pub fn standing(&self, row: &GroupRow, blocks: usize) -> GroupProgress {
        let first = number(row, "blocks_fixed").or(self.first).filter(|blocks| *blocks > 0);
        let Some((of, first)) = self.of.zip(first) else {
            return GroupProgress { blocks: None, level: self.level, proves: !self.unfinished, view: None };
        };
        let analyses = schedule(first, of, self.level);
        // A session that ran out of time within its first analysis was stopped by the clock, not by its results.
        let by_clock = || {
            analyses
                .first()
                .copied()
                .filter(|_| !self.unfinished)
                .map(|analysis| InterimAnalysis { blocks, ..analysis })
        };
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
