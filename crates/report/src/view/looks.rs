//! Which of a group's blocks may prove something: those up to the last look that it completed.
//!
//! A session that knows looks says so in the facts of its groups: `looks`, how many there are at most, and
//! `blocks_fixed`, the blocks of the first. A session without them has one look, at the blocks that were fixed before
//! the first of them. Only reads facts and counts blocks: nothing here depends on what was measured.

use bytegauge_model::{GroupId, SessionStatus};
use bytegauge_stats::looks::{InterimAnalysis, completed, next, schedule};
use bytegauge_store::GroupRow;

use super::document::LookView;
use super::group_blocks::GroupBlocks;

/// When a session is judged.
pub struct Looks {
    /// Looks that were declared; `None` where the session knows none.
    of: Option<usize>,
    /// Blocks of the first look, for groups that do not say.
    first: Option<usize>,
    /// Confidence of all looks together, as a share.
    level: f64,
    /// The session was cut off, at a moment that someone may have chosen by what they saw.
    unfinished: bool,
}

/// Where a group stands between looks.
#[derive(Clone, Debug)]
pub struct Standing {
    /// How many of its blocks are judged; `None` for all.
    pub blocks: Option<usize>,
    /// At what level.
    pub level: f64,
    /// Whether what is shown counts as proven.
    pub proves: bool,
    /// For the report; `None` where the session knows no looks.
    pub view: Option<LookView>,
}

impl LookView {
    /// Blocks with which the looks that are left end. `None` behind the last.
    pub fn left_until(&self) -> Option<usize> {
        self.next_blocks.map(|_| self.last_blocks)
    }
}

impl Standing {
    /// Blocks with which the looks before the present one ended, ascending.
    pub fn earlier(&self) -> Vec<usize> {
        let Some(look) = self.view.as_ref().filter(|look| self.proves && look.done > 1) else { return Vec::new() };
        (1..look.done).map(|back| look.blocks >> back).rev().collect()
    }
}

impl Looks {
    /// Reads the facts of the groups.
    pub fn of(groups: &[GroupRow], status: SessionStatus, level: f64) -> Looks {
        let first = |name: &str| groups.iter().find_map(|row| number(row, name));
        let unfinished = matches!(status, SessionStatus::Incomplete | SessionStatus::Running);
        Looks { of: first("looks").filter(|looks| *looks > 0), first: first("blocks_fixed"), level, unfinished }
    }

    /// How many of its blocks are judged of a group by this name; `None` for all.
    pub fn judged(&self, groups: &[GroupRow], blocks: &GroupBlocks, id: &GroupId) -> Option<usize> {
        let row = groups.iter().find(|row| row.group.id == *id)?;
        self.standing(row, blocks.of_group(id).used).blocks
    }

    /// Where a group stands that has had so many whole blocks.
    pub fn standing(&self, row: &GroupRow, blocks: usize) -> Standing {
        let first = number(row, "blocks_fixed").or(self.first).filter(|blocks| *blocks > 0);
        let Some((of, first)) = self.of.zip(first) else {
            return Standing { blocks: None, level: self.level, proves: !self.unfinished, view: None };
        };
        let looks = schedule(first, of, self.level);
        // A session that ran out of time within its first look was stopped by the clock, not by what it saw.
        let by_clock =
            || looks.first().copied().filter(|_| !self.unfinished).map(|look| InterimAnalysis { blocks, ..look });
        let done = completed(&looks, blocks).or_else(by_clock);
        let judged = done.map(|look| look.blocks);
        Standing {
            blocks: judged,
            level: looks[0].level,
            proves: done.is_some(),
            view: Some(LookView {
                done: done.map_or(0, |look| look.number),
                cut_short: done.is_some_and(|look| look.blocks < looks[0].blocks),
                planned: looks[0].blocks,
                of,
                level: looks[0].level,
                blocks: judged.unwrap_or(0),
                so_far: blocks - judged.unwrap_or(0),
                next_blocks: next(&looks, blocks).map(|look| look.blocks),
                last_blocks: looks.last().map_or(0, |look| look.blocks),
            }),
        }
    }
}

fn number(row: &GroupRow, name: &str) -> Option<usize> {
    row.number(name).and_then(|number| usize::try_from(number).ok())
}
